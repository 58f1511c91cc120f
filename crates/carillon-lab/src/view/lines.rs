//! JSON traces, simulated or from `send --trace` and `recv --trace`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use carillon_core::{PacketKind, ProtocolEntry};
use carillon_proto::REGISTRY;
use carillon_run::trace::Recording;
use carillon_run::trace::recording::JsonImport;

use super::source::{ViewError, in_file, title};

/// Reads a JSON trace. It is read twice: the names of all packets decide about the protocol.
pub(super) fn read(
    path: &Path,
    protocol: Option<&'static ProtocolEntry>,
    limit: usize,
) -> Result<Recording, ViewError> {
    let mut names = BTreeSet::new();
    each_line(path, |line| {
        for (at, _) in line.match_indices(PACKET) {
            if let Some((name, _)) = line[at + PACKET.len()..].split_once('"')
                && !names.contains(name)
                && names.len() < MAX_PACKET_NAMES
            {
                names.insert(name.to_owned());
            }
        }
        Ok(())
    })?;
    let protocol = protocol.or_else(|| protocol_with(&names));
    let mut kinds = all_kinds();
    kinds.extend(protocol.into_iter().flat_map(|protocol| protocol.packets.format.kinds_by_name()));
    let mut import = JsonImport::new(kinds, limit);
    each_line(path, |line| import.line(line).map_err(|cause| ViewError::Line { path: path.into(), cause }))?;
    Ok(import.finish().titled(title(path), protocol.map_or("", |protocol| protocol.name)))
}

/// The only protocol that has packets of all these names.
fn protocol_with(names: &BTreeSet<String>) -> Option<&'static ProtocolEntry> {
    let has_all = |entry: &&&'static ProtocolEntry| {
        let kinds = entry.packets.format.kinds_by_name();
        !names.is_empty() && names.iter().all(|name| kinds.contains_key(name))
    };
    let mut fitting = REGISTRY.iter().filter(has_all);
    fitting.next().copied().filter(|_| fitting.next().is_none())
}

/// Kinds of packets by name in all protocols, without names that mean several kinds.
fn all_kinds() -> BTreeMap<String, PacketKind> {
    let mut kinds: BTreeMap<String, Option<PacketKind>> = BTreeMap::new();
    for (name, kind) in REGISTRY.iter().flat_map(|entry| entry.packets.format.kinds_by_name()) {
        let known = kinds.entry(name).or_insert(Some(kind));
        *known = known.filter(|known| *known == kind);
    }
    kinds.into_iter().filter_map(|(name, kind)| Some((name, kind?))).collect()
}

/// Passes each line of a file to a function.
fn each_line(path: &Path, mut each: impl FnMut(&str) -> Result<(), ViewError>) -> Result<(), ViewError> {
    let wrong = |problem| ViewError::Content { path: path.into(), problem };
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(in_file(path))?);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let length =
            reader.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line).map_err(in_file(path))?;
        if length == 0 {
            break;
        }
        if length as u64 > MAX_LINE_BYTES {
            return Err(wrong(format!(
                "line {number} has more than {} KiB, so that this is no trace",
                MAX_LINE_BYTES >> 10
            )));
        }
        let text = std::str::from_utf8(&line);
        each(text.map_err(|_| wrong(format!("line {number} is not UTF-8, so that this is no trace")))?)?;
    }
    Ok(())
}

/// Field with the name of a packet.
const PACKET: &str = "\"packet\":\"";
/// Maximum number of different names of packets; no protocol has more.
const MAX_PACKET_NAMES: usize = 256;
/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 1 << 20;
