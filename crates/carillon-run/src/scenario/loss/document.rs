//! The keys of `[loss]`, and of each `[[loss]]`.

use std::fmt;

use carillon_core::{Probability, Span};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Value;

/// Loss sections: none, one table, or a list of tables.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct LossSections {
    pub sections: Vec<Loss>,
    /// True if the file has a list, in which keys carry the number of their section.
    pub is_list: bool,
}

/// `[loss]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Loss {
    pub name: Option<String>,
    pub model: Option<LossModelName>,
    pub p: Option<Probability>,
    pub one_in: Option<u64>,
    pub to_bad: Option<Probability>,
    pub to_good: Option<Probability>,
    pub loss_good: Option<Probability>,
    pub loss_bad: Option<Probability>,
    pub calm_p: Option<Probability>,
    pub congested_p: Option<Probability>,
    pub calm_time: Option<Span>,
    pub congested_time: Option<Span>,
    pub burst: Option<f64>,
    pub file: Option<String>,
    pub packets: Option<Ranges>,
    pub function: Option<String>,
    pub counts: Option<Counts>,
    pub repeat: Option<bool>,
    pub links: Option<Words>,
    pub hops: Option<Ranges>,
    pub receivers: Option<Words>,
    pub drop_one: Option<DropOne>,
    pub apart: Option<Span>,
    pub times: Option<u32>,
    pub first: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum LossModelName {
    Bernoulli,
    GilbertElliott,
    Uniform,
    TwoLevel,
    File,
    Chosen,
    Custom,
}

impl LossModelName {
    /// Name in a scenario.
    pub fn text(self) -> &'static str {
        match self {
            LossModelName::Bernoulli => "bernoulli",
            LossModelName::GilbertElliott => "gilbert-elliott",
            LossModelName::Uniform => "uniform",
            LossModelName::TwoLevel => "two-level",
            LossModelName::File => "file",
            LossModelName::Chosen => "chosen",
            LossModelName::Custom => "custom",
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum Counts {
    Messages,
    Packets,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum DropOne {
    Source,
    EachReceiver,
    EachLink,
}

/// A word or a number, or a list of them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "Value")]
pub(in crate::scenario) struct Words(pub Vec<String>);

impl TryFrom<Value> for Words {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let word = |value: Value| match value {
            Value::String(text) => Ok(text.trim().to_owned()),
            Value::Integer(number) => Ok(number.to_string()),
            other => Err(format!("{other} is neither a name nor a number")),
        };
        match value {
            Value::Array(list) if list.is_empty() => Err("the list is empty".into()),
            Value::Array(list) => list.into_iter().map(word).collect::<Result<_, _>>().map(Words),
            one => Ok(Words(vec![word(one)?])),
        }
    }
}

/// Whole numbers: a number, a range such as `"2..4"` with both ends included or `"2.."`, or a list of them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "Words")]
pub(in crate::scenario) struct Ranges(pub Vec<(u64, Option<u64>)>);

impl TryFrom<Words> for Ranges {
    type Error = String;

    fn try_from(Words(words): Words) -> Result<Self, String> {
        let range = |word: &String| {
            range_of(word).ok_or_else(|| {
                format!("\"{word}\" is neither a whole number nor a range such as \"2..4\" or \"2..\"")
            })
        };
        words.iter().map(range).collect::<Result<_, _>>().map(Ranges)
    }
}

/// Range of numbers as typed, with both ends; `None` if it is none.
pub(super) fn range_of(word: &str) -> Option<(u64, Option<u64>)> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match word.split_once("..") {
        None => number(word).map(|number_of| (number_of, Some(number_of))),
        Some((from, "")) => Some((number(from)?, None)),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then_some((from, Some(to)))
        }
    }
}

impl Ranges {
    /// Returns true if a number is in one of the ranges.
    pub fn contains(&self, number: u64) -> bool {
        self.0.iter().any(|&(from, to)| from <= number && to.is_none_or(|to| number <= to))
    }

    /// Largest number; `None` if a range has no end.
    pub fn max(&self) -> Option<u64> {
        let ends: Option<Vec<u64>> = self.0.iter().map(|(_, to)| *to).collect();
        ends?.into_iter().max()
    }
}

impl<'de> Deserialize<'de> for LossSections {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sections;

        impl<'de> Visitor<'de> for Sections {
            type Value = LossSections;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a section [loss] or several [[loss]]")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LossSections, A::Error> {
                let section = Loss::deserialize(MapAccessDeserializer::new(map))?;
                Ok(LossSections { sections: vec![section], is_list: false })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LossSections, A::Error> {
                let mut sections = Vec::new();
                while let Some(section) = list.next_element()? {
                    sections.push(section);
                }
                Ok(LossSections { sections, is_list: true })
            }
        }

        deserializer.deserialize_any(Sections)
    }
}
