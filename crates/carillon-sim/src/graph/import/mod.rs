//! Topology files of other tools: GT-ITM, GraphML, GML (Internet Topology Zoo), BRITE and Rocketfuel.
//!
//! Each reader turns a file into a [`RawGraph`]: names, positions, and edges with the properties that the file states.
//! [`RawGraph::build`] then makes the topology in the same way for all formats: it joins the two directions of a link,
//! removes self-loops, and determines delays. All nodes are routers; hosts are placed afterwards.

mod brite;
mod cch;
mod gml;
mod graphml;
mod intra;
mod position;
mod raw;

use std::time::Duration;

pub use position::Position;
pub use raw::{Findings, RawEdge, RawGraph, RawNode};

use super::generate::Domain;
use super::gt_itm;
use super::topology::{Topology, TopologyError};

/// Format of a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Either form of GT-ITM.
    GtItm,
    /// GraphML, as of the Internet Topology Zoo and networkx.
    GraphMl,
    /// Graph Modelling Language, as of the Internet Topology Zoo and networkx.
    Gml,
    /// BRITE's own format.
    Brite,
    /// Rocketfuel's lists of links with weights or latencies.
    Intra,
    /// Rocketfuel's maps of Internet service providers.
    Cch,
}

/// Extensions of the formats. `.txt` and `.xml` say nothing; the content decides.
const EXTENSIONS: &[(&str, Option<Format>)] = &[
    ("gb", Some(Format::GtItm)),
    ("alt", Some(Format::GtItm)),
    ("graphml", Some(Format::GraphMl)),
    ("gml", Some(Format::Gml)),
    ("brite", Some(Format::Brite)),
    ("intra", Some(Format::Intra)),
    ("cch", Some(Format::Cch)),
    ("txt", None),
    ("xml", None),
];

/// Returns true if a text is of a format.
type Recogniser = fn(&str) -> bool;

impl Format {
    /// Extensions of the files that can be read, without the dot.
    pub fn extensions() -> impl Iterator<Item = &'static str> {
        EXTENSIONS.iter().map(|&(extension, _)| extension)
    }

    /// Format of a file: by its content, or by the extension of its name if the content is not conclusive.
    pub fn of(name: &str, text: &str) -> Option<Self> {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let known = EXTENSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
        Self::of_content(text).or_else(|| known.and_then(|&(_, format)| format))
    }

    /// Format by the content alone. A list of links looks like an edges file, so it needs its extension.
    fn of_content(text: &str) -> Option<Self> {
        let recognisers: [(Format, Recogniser); 5] = [
            (Format::GtItm, gt_itm::recognises),
            (Format::GraphMl, graphml::recognises),
            (Format::Brite, brite::recognises),
            (Format::Cch, cch::recognises),
            (Format::Gml, gml::recognises),
        ];
        recognisers.iter().find(|(_, recognises)| recognises(text)).map(|&(format, _)| format)
    }

    /// Parses a file of this format. Links for which it states neither a delay nor the positions of both ends have
    /// `default_delay`.
    pub fn parse(self, text: &str, default_delay: Duration) -> Result<Imported, TopologyError> {
        let graph = match self {
            Format::GtItm => {
                let (topology, domains) = gt_itm::parse(text)?;
                return Ok(Imported { topology, domains, findings: Findings::default() });
            }
            Format::GraphMl => graphml::parse(text)?,
            Format::Gml => gml::parse(text)?,
            Format::Brite => brite::parse(text)?,
            Format::Intra => intra::parse(text)?,
            Format::Cch => cch::parse(text)?,
        };
        let (topology, findings) = graph.build(default_delay)?;
        Ok(Imported { topology, domains: Vec::new(), findings })
    }
}

/// Topology of a file: routers without hosts.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Nodes and links.
    pub topology: Topology,
    /// Domains of the routers, if all are known.
    pub domains: Vec<Domain>,
    /// Edges that the reader removed, and its assumptions.
    pub findings: Findings,
}
