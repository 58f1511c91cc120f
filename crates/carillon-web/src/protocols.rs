//! Registry of protocols for the page.

use carillon_core::{Kind, Parameter, ProtocolEntry};
use carillon_proto::REGISTRY;
use serde::Serialize;

/// Protocol for the page.
#[derive(Debug, Serialize)]
pub(crate) struct Protocol {
    name: &'static str,
    title: &'static str,
    /// Path of its page in the documentation.
    page: String,
    family: &'static str,
    reference: &'static str,
    networks: Vec<String>,
    parameters: Vec<ParameterOfPage>,
    states: Vec<StatesOfPage>,
    timers: &'static [&'static str],
}

/// Parameter with its range, for a slider.
#[derive(Debug, Serialize)]
struct ParameterOfPage {
    name: &'static str,
    doc: &'static str,
    default: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Description of valid values.
    values: String,
    /// Minimum and maximum of a count, or of a size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<(u64, u64)>,
    /// Words of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'static [&'static str]>,
}

/// State machine: its owner and its transitions, each with source, target and cause.
#[derive(Debug, Serialize)]
struct StatesOfPage {
    of: &'static str,
    transitions: &'static [(&'static str, &'static str, &'static str)],
}

/// Protocols of the registry.
pub(crate) fn all() -> Vec<Protocol> {
    REGISTRY.iter().map(|entry| Protocol::of(entry)).collect()
}

impl Protocol {
    fn of(entry: &ProtocolEntry) -> Self {
        // A unicast equivalent has the page of its multicast protocol.
        let is_served = |other: &&&ProtocolEntry| {
            other.study.unicast_equivalent.is_some_and(|unicast| unicast.protocol == entry.name)
        };
        let page = REGISTRY.iter().find(is_served).map_or(entry.name, |other| other.name);
        Protocol {
            name: entry.name,
            title: entry.about.summary,
            page: format!("protocols/{page}.md"),
            family: entry.about.family,
            reference: entry.about.reference,
            networks: entry.networks.iter().map(ToString::to_string).collect(),
            parameters: entry.parameters.iter().map(ParameterOfPage::of).collect(),
            states: entry
                .study
                .states
                .iter()
                .map(|states| StatesOfPage { of: states.of, transitions: states.transitions })
                .collect(),
            timers: entry.study.timers,
        }
    }
}

impl ParameterOfPage {
    fn of(parameter: &Parameter) -> Self {
        let (kind, range, choices) = match parameter.kind {
            Kind::Count { min, max } => ("count", Some((min, max)), None),
            Kind::Size { min, max } => ("size", Some((min, max)), None),
            Kind::Rate => ("rate", None, None),
            Kind::Span => ("span", None, None),
            Kind::Probability => ("probability", None, None),
            Kind::Switch => ("switch", None, None),
            Kind::Choice(words) => ("choice", None, Some(words)),
        };
        let Parameter { name, doc, default, .. } = *parameter;
        ParameterOfPage { name, doc, default, kind, values: parameter.kind.to_string(), range, choices }
    }
}
