//! Files of topologies: shipped ones by name, and others in all supported formats.

use std::path::PathBuf;
use std::time::Duration;

use carillon_sim::graph::generate::Domain;
use carillon_sim::graph::import::{Format, Imported};
use carillon_sim::graph::{RolesOrEdges, Topology};

use crate::scenario::{GENERATORS, InputError, Inputs};

/// Name and content of every shipped file, sorted by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/topologies.rs"));

/// Names of the shipped topologies.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(name, _)| name.strip_suffix(".edges"))
}

/// The edges and the roles of the one of this name.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    let file = |extension: &str| {
        let wanted = format!("{name}.{extension}");
        FILES.iter().find(|(known, _)| *known == wanted).map(|(_, text)| *text)
    };
    file("edges").zip(file("roles"))
}

/// Why a topology cannot be opened. The caller can correct the name or the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenTopologyError {
    /// The name is that of no file, shipped topology or generator.
    #[error(
        "\"{name}\" is neither a file (.edges, {extensions}), nor shipped (`carillon topology --list`), nor one of {generators}"
    )]
    UnknownName {
        /// The name.
        name: String,
        /// Extensions of the files that can be read.
        extensions: String,
        /// Names of the generators.
        generators: String,
    },
    /// A file cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file has an error.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error, with its line.
        reason: String,
    },
    /// The content has no known format.
    #[error(
        "{}: the content is none of GraphML, GML, BRITE, a Rocketfuel map and GT-ITM; a list of links with weights must end in .intra",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
}

/// Opens a topology that is shipped, or a file. Links without a delay and without positions have `default_delay`.
///
/// # Errors
/// There is none of this name, or a file cannot be read or has an error.
pub fn open(name: &str, inputs: &Inputs, default_delay: Duration) -> Result<Imported, OpenTopologyError> {
    let of = |topology| Imported { topology, ..Imported::default() };
    if let Some((edges, roles)) = find(name) {
        let topology = Topology::parse(edges, roles);
        let reason = "it is broken as shipped".to_owned();
        return topology.map(of).map_err(|_| OpenTopologyError::Invalid { path: name.into(), reason });
    }
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_edges = extension == "edges";
    if !is_edges && !Format::extensions().any(|known| known.eq_ignore_ascii_case(extension)) {
        let extensions: Vec<String> = Format::extensions().map(|extension| format!(".{extension}")).collect();
        return Err(OpenTopologyError::UnknownName {
            name: name.to_owned(),
            extensions: extensions.join(", "),
            generators: GENERATORS.join(", "),
        });
    }
    let invalid = |path, reason: String| OpenTopologyError::Invalid { path, reason };
    let (text, path) = (inputs.read_text(name)?, inputs.path(name));
    match Format::of(name, &text) {
        Some(format) => format.parse(&text, default_delay).map_err(|error| invalid(path, error.to_string())),
        None if is_edges => {
            let roles_name = format!("{}.roles", name.strip_suffix(".edges").unwrap_or(name));
            let (roles, roles_path) = (inputs.read_text(&roles_name)?, inputs.path(&roles_name));
            Topology::parse(&text, &roles).map(of).map_err(|error| match error {
                RolesOrEdges::Roles(error) => invalid(roles_path, error.to_string()),
                RolesOrEdges::Edges(error) => invalid(path, error.to_string()),
            })
        }
        None => Err(OpenTopologyError::UnknownFormat { path }),
    }
}

/// Largest component of a topology, with its domains if all are known.
pub fn largest_component(topology: Topology, domains: &[Domain]) -> (Topology, Vec<Domain>) {
    let nodes = topology.largest_component();
    let domains = nodes.iter().filter_map(|node| domains.get(node.index()).copied()).collect();
    (topology.part(&nodes), domains)
}
