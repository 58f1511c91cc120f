//! What is recorded of a session's events and datagrams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use carillon_core::{Application, Bytes, Dest, Event, Machine, NodeId, Observer, Time};
use carillon_lab::trace::{CaptureOptions, TraceFile};
use carillon_net::{Driver, Endpoint, GROUP, SELF, Stats};
use carillon_wire::session::{Release, WIRE_VERSION};

use super::overheard::{Kind, Overheard};

/// Passes everything on to the trace if there is one.
#[derive(Debug, Default)]
pub struct Watch {
    /// What is heard, as long as somebody wants to know.
    overheard: Option<Box<Overheard>>,
    /// What a key had kept out before.
    before: [u64; 3],
    trace: Option<Box<Trace>>,
}

#[derive(Debug)]
struct Trace {
    file: TraceFile,
    /// The datagrams of this turn: their sources have no address before its end.
    datagrams: Vec<(Time, NodeId, Dest, Bytes)>,
    named: BTreeMap<NodeId, SocketAddr>,
}

impl Watch {
    /// With a trace in this file, if there is to be one.
    pub fn new(trace: Option<&Path>, endpoint: &Endpoint) -> anyhow::Result<Watch> {
        let Some(path) = trace else { return Ok(Watch::default()) };
        let options = CaptureOptions {
            name: endpoint.interface().name.clone(),
            port: endpoint.group().port(),
            start: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            nodes: BTreeMap::from([(SELF, endpoint.local_addr())]),
            groups: BTreeMap::from([(GROUP, endpoint.group())]),
        };
        let trace = Trace {
            file: TraceFile::create(path, options)?,
            datagrams: Vec::new(),
            named: BTreeMap::from([(SELF, endpoint.local_addr())]),
        };
        Ok(Watch { trace: Some(Box::new(trace)), ..Watch::default() })
    }

    /// From now on listens for what is no business of this end, or no longer.
    pub fn listen(&mut self, on: bool, stats: &Stats) {
        self.before = kept_out(stats).map(|(count, _)| count);
        self.overheard = on.then(Box::default);
    }

    /// Who was heard that is no Carillon sender of this version, in words.
    pub fn strangers(&self, endpoint: &Endpoint) -> Vec<String> {
        let mut hosts = BTreeMap::new();
        for (node, kind, count) in self.overheard.iter().flat_map(|overheard| overheard.strangers()) {
            let host = endpoint.peer(node).map_or_else(|| "somebody".to_owned(), |at| at.ip().to_string());
            *hosts.entry((host, kind)).or_insert(0) += count;
        }
        let words = hosts.into_iter().map(|((from, kind), count): (_, u64)| {
            let plural = if count == 1 { "" } else { "s" };
            let what = match kind {
                Kind::Release(release) => format!(
                    "of {release} of carillon; this is release {} with wire version {WIRE_VERSION}: install the same release on both",
                    Release::CURRENT
                ),
                Kind::Version(version) => format!(
                    "of another release of Carillon (packets of version {version}): use one release everywhere"
                ),
                Kind::Sealed => "sealed with a key: give this end its --key-file".to_owned(),
                Kind::Foreign => "of another program: choose another --group at both ends".to_owned(),
            };
            format!("{count} datagram{plural} from {from} came, {what}")
        });
        words.chain(self.sealed_words(endpoint)).collect()
    }

    /// What a key has kept out meanwhile, in words.
    fn sealed_words(&self, endpoint: &Endpoint) -> Vec<String> {
        let own = endpoint.local_addr();
        let what = [
            "that this key does not open: are they sealed with another one? use one --key-file everywhere"
                .to_owned(),
            "that are not sealed: give that end this --key-file".to_owned(),
            format!(
                "sealed with this key, from an end that does not answer: do firewalls pass UDP from {own} to it, and \
                 back?"
            ),
        ];
        // Whoever begins is asked once or twice before it has answered.
        let least = [1, 1, 5];
        let mut words = Vec::new();
        for (at, (count, from)) in kept_out(endpoint.stats()).into_iter().enumerate() {
            let count = count - self.before[at];
            if count >= least[at] {
                let plural = if count == 1 { "" } else { "s" };
                let from = from.map_or_else(|| "somebody".to_owned(), |from| from.ip().to_string());
                words.push(format!("{count} datagram{plural} came, the last from {from}, {}", what[at]));
            }
        }
        words
    }

    /// Completes the trace.
    pub fn finish(self) -> anyhow::Result<()> {
        Ok(self.trace.map_or(Ok(()), |trace| trace.file.finish())?)
    }

    /// The nodes of this turn's datagrams whose addresses the trace does not know.
    fn unnamed(&self) -> Vec<NodeId> {
        let Some(trace) = &self.trace else { return Vec::new() };
        let nodes = trace.datagrams.iter().flat_map(|(_, from, to, _)| {
            let to = if let Dest::Node(node) = to { Some(*node) } else { None };
            [Some(*from), to].into_iter().flatten()
        });
        nodes.filter(|node| !trace.named.contains_key(node)).collect()
    }
}

/// How many a key has kept out, and where the last one came from: those that it does not open, those that are not sealed, and those that
/// may have been recorded.
fn kept_out(stats: &Stats) -> [(u64, Option<SocketAddr>); 3] {
    [
        (stats.unauthentic, stats.unauthentic_from),
        (stats.unsealed, stats.unsealed_from),
        (stats.unproven, stats.unproven_from),
    ]
}

/// Records what a step has brought; `watch` finds the watch in the driver's observer.
pub fn record<M, A, O>(driver: &mut Driver<M, A, O>, watch: impl Fn(&mut O) -> &mut Watch)
where
    M: Machine + ?Sized,
    A: Application<M>,
    O: Observer,
{
    let strangers = watch(driver.observer_mut()).unnamed();
    let found: Vec<_> = strangers
        .into_iter()
        .filter_map(|node| driver.endpoint().peer(node).map(|address| (node, address)))
        .collect();
    let Some(trace) = &mut watch(driver.observer_mut()).trace else { return };
    for (node, address) in found {
        trace.file.name_node(node, address);
        trace.named.insert(node, address);
    }
    for (time, from, to, bytes) in trace.datagrams.drain(..) {
        trace.file.datagram(time, from, &to, &bytes);
    }
}

impl Observer for Watch {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        if let Some(trace) = &mut self.trace {
            trace.file.event(time, node, event);
        }
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        if let Some(overheard) = self.overheard.as_mut().filter(|_| from != SELF) {
            overheard.note(from, bytes);
        }
        if let Some(trace) = &mut self.trace {
            trace.datagrams.push((time, from, to.clone(), bytes.clone()));
        }
    }
}
