//! Loss sections of a scenario, every value known.
//!
//! Links draw the first section of independent or Gilbert-Elliott losses on links of a kind themselves. The medium of a
//! LAN does so too, and the last receiver's host draws `uniform`. All other sections become processes at their places
//! ([`PlacedLoss`]). Streams follow from the names and positions of sections, so that a
//! further section changes no draw of the others.

mod custom;
mod document;
mod file;
mod place;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{BitRate, NodeId, Probability, ProtocolEntry, Span};
use carillon_sim::graph::LossModel;
use carillon_sim::graph::generate::Domain;
use carillon_sim::loss::{CustomRule, LossList, LossRule, LossSection, PacketCount, TwoLevel};
use carillon_sim::{HostDrops, LanConfig};
use toml::{Table, Value};

use self::document::{Counts, DropOne, Loss, LossModelName, Ranges};
use self::file::LossFile;
use self::place::PLACE_KEYS;
use super::error::ScenarioError;
use super::file::ScenarioFile;
use super::network::{DropPlaces, Drops, LinkKind, LossPlace, PlacedLoss, ScenarioNetwork};

pub use self::custom::register_loss;
pub(super) use self::document::{LossSections, Words};
pub(super) use self::place::{named, receivers};

/// Keys of a model, and the models they belong to.
const MODEL_KEYS: &[(&str, &[LossModelName])] = &[
    ("p", &[LossModelName::Bernoulli]),
    ("one_in", &[LossModelName::Uniform]),
    ("to_bad", &[LossModelName::GilbertElliott]),
    ("to_good", &[LossModelName::GilbertElliott]),
    ("loss_good", &[LossModelName::GilbertElliott]),
    ("loss_bad", &[LossModelName::GilbertElliott]),
    ("calm_p", &[LossModelName::TwoLevel]),
    ("congested_p", &[LossModelName::TwoLevel]),
    ("calm_time", &[LossModelName::TwoLevel]),
    ("congested_time", &[LossModelName::TwoLevel]),
    ("burst", &[LossModelName::TwoLevel]),
    ("file", &[LossModelName::File]),
    ("packets", &[LossModelName::Chosen]),
    ("function", &[LossModelName::Custom]),
    ("counts", &[LossModelName::File, LossModelName::Chosen]),
    ("repeat", &[LossModelName::File, LossModelName::Chosen]),
];

/// Keys that go with `drop_one`.
const DROP_KEYS: &[&str] = &["apart", "times", "first"];

/// Loss section as read, and its place in the file.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    scenario: &'a ScenarioFile,
    loss: &'a Loss,
    table: &'a Table,
    /// Position among the sections, from 0.
    at: usize,
    /// True if the file has a list of sections.
    is_listed: bool,
}

/// Losses that the links of a routed network draw themselves.
pub(super) struct LinkLosses {
    pub model: LossModel,
    pub lossy: LinkKind,
    pub drops: Option<Drops>,
}

/// Checks the sections of a document against each other, and the keys of each.
pub(super) fn sections<'a>(
    scenario: &'a ScenarioFile,
    losses: &'a LossSections,
    table: &'a Table,
) -> Result<Vec<Section<'a>>, ScenarioError> {
    let tables: Vec<&Table> = match table.get("loss") {
        Some(Value::Table(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_table).collect(),
        _ => Vec::new(),
    };
    let both = losses.sections.iter().zip(tables).enumerate();
    let sections: Vec<Section<'_>> = both
        .map(|(at, (loss, table))| Section { scenario, loss, table, at, is_listed: losses.is_list })
        .collect();
    if sections.len() > MAX_SECTIONS {
        let what = format!("has {} sections: give {MAX_SECTIONS} at most", sections.len());
        return Err(scenario.bad("loss", what));
    }
    let mut names = BTreeSet::new();
    for section in &sections {
        section.check()?;
        if let Some(name) = &section.loss.name
            && !names.insert(name)
        {
            return Err(section.bad("name", format!("\"{name}\" names another section too")));
        }
    }
    let mut single = sections.iter().filter(|section| section.loss.drop_one.is_some()).skip(1);
    match single.next() {
        Some(second) => Err(second.bad("drop_one", "stands in another section too: give it once".into())),
        None => Ok(sections),
    }
}

impl<'a> Section<'a> {
    /// Key of this section with its path.
    fn key(&self, name: &str) -> String {
        match self.is_listed {
            true => format!("loss.{}.{name}", self.at + 1),
            false => format!("loss.{name}"),
        }
    }

    fn bad(&self, name: &str, what: String) -> ScenarioError {
        self.scenario.bad(&self.key(name), what)
    }

    fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    fn needed<T: Copy>(&self, name: &str, value: Option<T>) -> Result<T, ScenarioError> {
        value.ok_or_else(|| self.bad(name, "is missing".into()))
    }

    /// Checks that the keys of the section belong together.
    fn check(&self) -> Result<(), ScenarioError> {
        let loss = self.loss;
        if let Some(name) = &loss.name
            && (name.is_empty() || name.parse::<u64>().is_ok() || name.contains('.'))
        {
            let what = format!("is \"{name}\": give a name that is not a number and has no dot");
            return Err(self.bad("name", what));
        }
        for (key, models) in MODEL_KEYS.iter().filter(|(key, _)| self.has(key)) {
            match loss.model {
                None if *key == "p" => {
                    return Err(self.bad("model", "is missing, such as \"bernoulli\"".into()));
                }
                Some(model) if models.contains(&model) => {}
                _ => {
                    let models: Vec<&str> = models.iter().map(|model| model.text()).collect();
                    let what = format!("belongs to model = \"{}\"", models.join("\" or \""));
                    return Err(self.bad(key, what));
                }
            }
        }
        let mut places = PLACE_KEYS.iter().filter(|key| self.has(key));
        if let (Some(first), Some(second)) = (places.next(), places.next()) {
            return Err(self.bad(second, format!("says where packets are lost, as {first} does: give one")));
        }
        if loss.drop_one.is_none() {
            if let Some(key) = DROP_KEYS.iter().find(|key| self.has(key)) {
                return Err(self.bad(key, "belongs to drop_one".into()));
            }
            if loss.model.is_none() && (self.is_listed || loss.hops.is_some() || loss.receivers.is_some()) {
                return Err(self.bad("model", "is missing, such as \"bernoulli\"".into()));
            }
        } else if place::kind(loss).is_none() {
            let what =
                "goes with links of a kind, such as links = \"last\"; other places have model = \"chosen\"";
            return Err(self.bad("drop_one", what.into()));
        }
        Ok(())
    }

    /// Name of the random streams.
    fn stream(&self) -> String {
        match &self.loss.name {
            Some(name) => format!("loss.{name}"),
            // The streams of a scenario with one section, of which results exist.
            None if self.at == 0 && place::kind(self.loss).is_some() => "loss".to_owned(),
            None => format!("loss.{}", self.at + 1),
        }
    }

    /// Model of the program that reads the scenario.
    fn custom(&self) -> Result<CustomRule, ScenarioError> {
        let name = self.loss.function.as_deref().ok_or_else(|| self.bad("function", "is missing".into()))?;
        custom::rule(name).map_err(|what| self.bad("function", what))
    }

    /// Model of independent or Gilbert-Elliott losses.
    fn simple_model(&self) -> Result<Option<LossModel>, ScenarioError> {
        let loss = self.loss;
        match loss.model {
            Some(LossModelName::Bernoulli) => Ok(Some(LossModel::Bernoulli(self.needed("p", loss.p)?))),
            Some(LossModelName::GilbertElliott) => Ok(Some(LossModel::GilbertElliott {
                to_bad: self.needed("to_bad", loss.to_bad)?,
                to_good: self.needed("to_good", loss.to_good)?,
                good: loss.loss_good.unwrap_or(Probability::ZERO),
                bad: loss.loss_bad.unwrap_or(Probability::ONE),
            })),
            _ => Ok(None),
        }
    }

    /// Returns true if the links draw this section themselves: the first one, if its packets are not spared by the
    /// single losses of another.
    fn is_drawn_by_links(&self, sections: &[Section<'_>]) -> bool {
        let spared = sections.iter().any(|other| other.at != self.at && other.loss.drop_one.is_some());
        let simple =
            matches!(self.loss.model, Some(LossModelName::Bernoulli | LossModelName::GilbertElliott));
        self.at == 0 && self.loss.name.is_none() && simple && !spared && place::kind(self.loss).is_some()
    }

    /// Returns true if the medium of a LAN draws this section itself, at each attempt and each interface.
    fn is_drawn_by_medium(&self) -> bool {
        self.loss.model == Some(LossModelName::Bernoulli) && self.loss.receivers.is_none()
    }

    /// Returns true if the host of the last receiver draws this section itself.
    fn is_drawn_by_host(&self) -> bool {
        let is_placed = PLACE_KEYS.iter().any(|key| self.has(key));
        let is_first = self.at == 0 && self.loss.name.is_none();
        is_first && self.loss.model == Some(LossModelName::Uniform) && !is_placed
    }

    fn two_level(&self, rate: BitRate) -> Result<TwoLevel, ScenarioError> {
        let loss = self.loss;
        let time = |key: &str, span: Option<Span>| {
            let time = self.needed(key, span)?.at(rate);
            match (TwoLevel::MIN_TIME..=MAX_PERIOD).contains(&time) {
                true => Ok(time),
                false => Err(self.bad(key, "is out of range: give 1 ms to 1000 h".into())),
            }
        };
        let levels = TwoLevel {
            calm: loss.calm_p.unwrap_or(Probability::ZERO),
            congested: self.needed("congested_p", loss.congested_p)?,
            calm_time: time("calm_time", loss.calm_time)?,
            congested_time: time("congested_time", loss.congested_time)?,
            burst: loss.burst,
        };
        if let Some(burst) = loss.burst {
            if !(1.0..=1e9).contains(&burst) {
                return Err(self.bad("burst", format!("is {burst}: give a mean of 1 to 1e9 packets")));
            }
            for (key, rate) in [("calm_p", levels.calm), ("congested_p", levels.congested)] {
                if !TwoLevel::is_possible(rate, burst) {
                    let what = format!(
                        "is {}: bursts of {burst} packets, which received packets separate, lose {} at most, or everything",
                        rate.value(),
                        burst / (burst + 1.0)
                    );
                    return Err(self.bad(key, what));
                }
            }
        }
        Ok(levels)
    }

    fn count(&self, protocol: &ProtocolEntry) -> Result<PacketCount, ScenarioError> {
        match self.loss.counts.unwrap_or(Counts::Messages) {
            Counts::Packets => Ok(PacketCount::Packets),
            Counts::Messages if protocol.study.marks_originals => Ok(PacketCount::Messages),
            Counts::Messages => {
                let what = format!(
                    "= \"messages\" needs to know first transmissions, which \"{}\" does not mark: give \"packets\"",
                    protocol.name
                );
                Err(self.bad("counts", what))
            }
        }
    }

    /// List of the chosen packets.
    fn chosen(&self, protocol: &ProtocolEntry) -> Result<LossList, ScenarioError> {
        let Some(packets) = &self.loss.packets else {
            let what = "is missing: give numbers from 0, such as [3, \"10..12\"]";
            return Err(self.bad("packets", what.into()));
        };
        let Some(max) = packets.max().filter(|&max| max < MAX_LISTED_PACKETS) else {
            let what = format!("has a number without an end or above {}", MAX_LISTED_PACKETS - 1);
            return Err(self.bad("packets", what));
        };
        let fates = fates(packets, max);
        Ok(LossList::new(fates, self.count(protocol)?, self.loss.repeat.unwrap_or(false)))
    }

    /// List of each receiver in a loss file.
    fn file(&self, protocol: &ProtocolEntry, receivers: usize) -> Result<Vec<LossList>, ScenarioError> {
        let Some(name) = &self.loss.file else {
            let what = "is missing: name a file with a row of 0 and 1 for each packet";
            return Err(self.bad("file", what.into()));
        };
        let inputs = &self.scenario.inputs;
        let content = inputs.read(name).map_err(|error| self.bad("file", error.to_string()))?;
        let file = LossFile::parse(&content)
            .map_err(|error| self.bad("file", format!("{}: {error}", inputs.path(name).display())))?;
        if file.columns != receivers {
            let what = format!(
                "\"{name}\" has {} columns, but the section covers {receivers} receivers",
                file.columns
            );
            return Err(self.bad("file", what));
        }
        let (counts, repeats) = (self.count(protocol)?, self.loss.repeat.unwrap_or(false));
        Ok((0..file.columns).map(|column| LossList::new(file.column(column), counts, repeats)).collect())
    }

    /// Single losses.
    fn drops(&self, kind: LinkKind) -> Result<Option<Drops>, ScenarioError> {
        let loss = self.loss;
        let Some(places) = loss.drop_one else { return Ok(None) };
        let times = loss.times.unwrap_or(1);
        if !(1..=100_000).contains(&times) {
            return Err(self.bad("times", format!("is {times}: give 1 to 100000")));
        }
        let first = loss.first.unwrap_or(20);
        if first > 1_000_000 {
            return Err(self.bad("first", format!("is {first}: give 1000000 at most")));
        }
        let apart = loss.apart.map_or(Duration::from_secs(5), |span| span.at(BitRate::mbps(10)));
        Ok(Some(Drops {
            places: match places {
                DropOne::Source => DropPlaces::Source,
                DropOne::EachReceiver => DropPlaces::EachReceiver,
                DropOne::EachLink => DropPlaces::EachLink,
            },
            kind,
            times,
            apart,
            first,
        }))
    }
}

/// Fates of the packets from 0 to `max`: those in the ranges are lost.
fn fates(packets: &Ranges, max: u64) -> Vec<bool> {
    let mut fates = vec![false; max as usize + 1];
    let mut ranges: Vec<(u64, u64)> = packets.0.iter().map(|&(from, to)| (from, to.unwrap_or(max))).collect();
    ranges.sort_unstable();
    let mut next = 0;
    for (from, to) in ranges {
        // Overlapping ranges are filled once.
        let from = from.max(next);
        if from <= to {
            fates[from as usize..=to as usize].fill(true);
            next = to + 1;
        }
    }
    fates
}

/// Adds the losses that the medium of a LAN draws itself.
pub(super) fn lan(sections: &[Section<'_>], lan: &mut LanConfig) -> Result<(), ScenarioError> {
    for section in sections {
        for key in ["drop_one", "apart", "times", "first", "links", "hops"] {
            if section.has(key) {
                return Err(section.bad(key, "belongs to kind = \"graph\"".into()));
            }
        }
        if section.loss.model.is_none() {
            return Err(section.bad("model", "is missing, such as \"bernoulli\"".into()));
        }
        if section.is_drawn_by_medium() {
            let p = section.needed("p", section.loss.p)?;
            match section.stream() {
                stream if stream == "loss" => lan.loss = p,
                stream => lan.further_loss.push((p, stream)),
            }
        }
    }
    Ok(())
}

/// Losses that the links of a routed network draw themselves, and its single losses.
pub(super) fn links(sections: &[Section<'_>], domains: &[Domain]) -> Result<LinkLosses, ScenarioError> {
    let mut losses = LinkLosses { model: LossModel::None, lossy: LinkKind::All, drops: None };
    for section in sections {
        let Some(kind) = place::kind(section.loss) else { continue };
        let needs_domains = !matches!(kind, LinkKind::All | LinkKind::Last | LinkKind::Shared);
        if needs_domains && domains.is_empty() {
            let what = "requires topology = \"transit-stub\": the domains of other topologies are unknown";
            return Err(section.bad("links", what.into()));
        }
        if section.is_drawn_by_links(sections) {
            losses.model = section.simple_model()?.unwrap_or_default();
            losses.lossy = kind;
        }
        if let Some(drops) = section.drops(kind)? {
            losses.drops = Some(drops);
        }
    }
    Ok(losses)
}

/// Key of the section with single losses, for errors.
pub(super) fn single_loss_key(sections: &[Section<'_>], name: &str) -> String {
    let section = sections.iter().find(|section| section.loss.drop_one.is_some());
    section.map_or_else(|| format!("loss.{name}"), |section| section.key(name))
}

/// Drops of the last receiver's host.
pub(super) fn host_drops(
    sections: &[Section<'_>],
    receivers: &[NodeId],
) -> Result<Option<HostDrops>, ScenarioError> {
    let Some(section) = sections.iter().find(|section| section.is_drawn_by_host()) else { return Ok(None) };
    let one_in = section.one_in()?;
    Ok(receivers.last().filter(|_| one_in > 0).map(|&node| HostDrops { node, one_in }))
}

impl Section<'_> {
    fn one_in(&self) -> Result<u64, ScenarioError> {
        match self.needed("one_in", self.loss.one_in)? {
            one_in if one_in > 1_000_000_000 => {
                Err(self.bad("one_in", format!("is {one_in}: give 0 to 1000000000")))
            }
            one_in => Ok(one_in),
        }
    }
}

/// Losses of all other sections, at their places. `members` are the receivers, `stations` all hosts of a LAN.
pub(super) fn placed(
    sections: &[Section<'_>],
    protocol: &ProtocolEntry,
    network: &ScenarioNetwork,
    members: &[NodeId],
    stations: usize,
) -> Result<Vec<PlacedLoss>, ScenarioError> {
    let mut placed = Vec::new();
    for section in sections {
        let Some(model) = section.loss.model else { continue };
        let is_drawn_elsewhere = section.is_drawn_by_host()
            || match network {
                ScenarioNetwork::Lan(_) => section.is_drawn_by_medium(),
                ScenarioNetwork::Graph(_) => section.is_drawn_by_links(sections),
            };
        if is_drawn_elsewhere {
            continue;
        }
        let chosen = match &section.loss.receivers {
            Some(words) => {
                let nodes = place::receivers(words, members, network.graph().map(|graph| &*graph.topology));
                Some(nodes.map_err(|(key, what)| section.bad(key, what))?)
            }
            None => None,
        };
        if model == LossModelName::File {
            if let Some(key) = ["links", "hops"].into_iter().find(|key| section.has(key)) {
                return Err(section.bad(key, "is for other models: a loss file names receivers".into()));
            }
            let nodes = chosen.unwrap_or_else(|| members.to_vec());
            for (list, node) in section.file(protocol, nodes.len())?.into_iter().zip(nodes) {
                let rule = LossSection { stream: section.stream(), rule: LossRule::List(list) };
                placed.push(PlacedLoss { section: Arc::new(rule), place: LossPlace::Receivers(vec![node]) });
            }
            continue;
        }
        let rule = match model {
            LossModelName::TwoLevel => LossRule::TwoLevel(section.two_level(network.bit_rate())?),
            LossModelName::Chosen => LossRule::List(section.chosen(protocol)?),
            LossModelName::Custom => LossRule::Custom(section.custom()?),
            LossModelName::Uniform => match section.one_in()? {
                0 => continue,
                one_in => LossRule::Uniform(one_in),
            },
            _ => LossRule::Model(section.simple_model()?.unwrap_or_default()),
        };
        let is_placed = section.has("links") || section.has("hops");
        let place = match (chosen, network) {
            (Some(nodes), _) => LossPlace::Receivers(nodes),
            (None, _) if model == LossModelName::Uniform && !is_placed => {
                LossPlace::Receivers(members.last().copied().into_iter().collect())
            }
            (None, ScenarioNetwork::Lan(_)) => {
                LossPlace::Receivers((0..stations as u32).map(NodeId).collect())
            }
            (None, ScenarioNetwork::Graph(graph)) => match place::kind(section.loss) {
                Some(kind) => LossPlace::Kind(kind),
                None => place::links(section.loss, &graph.topology)
                    .map_err(|(key, what)| section.bad(key, what))?,
            },
        };
        placed.push(PlacedLoss { section: Arc::new(LossSection { stream: section.stream(), rule }), place });
    }
    Ok(placed)
}

/// Maximum number of sections.
const MAX_SECTIONS: usize = 64;

/// Maximum number of packets in a list of chosen packets: the messages of the longest run.
const MAX_LISTED_PACKETS: u64 = 20_000_000;

/// Maximum mean duration of a period.
const MAX_PERIOD: Duration = Duration::from_secs(1000 * 3600);

#[cfg(test)]
mod tests;
