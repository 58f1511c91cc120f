//! Observer of a session: trace, and packets of strangers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use carillon_core::{Application, Bytes, Dest, Event, Machine, NodeId, Observer, Time};
use carillon_net::{Driver, Endpoint, SELF, Stats};
use carillon_wire::session::{Release, WIRE_VERSION};

use super::stranger_packets::{Kind, StrangerPackets};
use super::trace::Trace;

/// Forwards everything to the trace, if there is one.
#[derive(Debug, Default)]
pub struct Watch {
    /// Packets of strangers, while a notice may need them.
    overheard: Option<Box<StrangerPackets>>,
    /// Datagrams that the key had rejected before.
    before: [u64; 3],
    trace: Option<Box<Trace>>,
}

impl Watch {
    /// Creates an observer with a trace in this file, or without.
    pub fn new(trace: Option<&Path>, endpoint: &Endpoint) -> anyhow::Result<Watch> {
        let trace = trace.map(|path| Trace::create(path, endpoint)).transpose()?;
        Ok(Watch { trace: trace.map(Box::new), ..Watch::default() })
    }

    /// Starts or stops the collection of strangers' packets.
    pub fn listen(&mut self, on: bool, stats: &Stats) {
        self.before = kept_out(stats).map(|(count, _)| count);
        self.overheard = on.then(Box::default);
    }

    /// Descriptions of strangers: other programs, other releases, sealed packets.
    pub fn strangers(&self, endpoint: &Endpoint) -> Vec<String> {
        let mut hosts = BTreeMap::new();
        for (node, kind, count) in self.overheard.iter().flat_map(|overheard| overheard.strangers()) {
            let host =
                endpoint.peer(node).map_or_else(|| "an unknown address".to_owned(), |at| at.ip().to_string());
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
                Kind::Sealed => "encrypted with a key: use --key-file here too".to_owned(),
                Kind::Foreign => "of another program: choose another --group on all machines".to_owned(),
            };
            format!("received {count} datagram{plural} from {from}, {what}")
        });
        words.chain(self.sealed_words(endpoint)).collect()
    }

    /// Descriptions of datagrams that the key has rejected since.
    fn sealed_words(&self, endpoint: &Endpoint) -> Vec<String> {
        let own = endpoint.local_addr();
        let what = [
            "that do not match this key: use the same --key-file on all machines".to_owned(),
            "that are not encrypted: use this --key-file there too".to_owned(),
            format!(
                "sealed with this key, from an end that does not answer: do firewalls pass UDP from {own} to it, and \
                 back?"
            ),
        ];
        // An endpoint that starts is challenged once or twice before it has answered, so a few rejections are normal.
        let least = [1, 1, 5];
        let mut words = Vec::new();
        for (at, (count, from)) in kept_out(endpoint.stats()).into_iter().enumerate() {
            let count = count - self.before[at];
            if count >= least[at] {
                let plural = if count == 1 { "" } else { "s" };
                let from = from.map_or_else(|| "an unknown address".to_owned(), |from| from.ip().to_string());
                words.push(format!("received {count} datagram{plural}, the last from {from}, {}", what[at]));
            }
        }
        words
    }

    /// Completes the trace.
    pub fn finish(self) -> anyhow::Result<()> {
        self.trace.map_or(Ok(()), |trace| trace.finish())
    }
}

/// Numbers of datagrams that the key rejected, and the source of the last one: not authentic, not sealed, and
/// possibly replayed.
fn kept_out(stats: &Stats) -> [(u64, Option<SocketAddr>); 3] {
    [
        (stats.seal.unauthentic, stats.seal.unauthentic_from),
        (stats.seal.unsealed, stats.seal.unsealed_from),
        (stats.seal.unproven, stats.seal.unproven_from),
    ]
}

/// Records the events of a step; `watch` finds the observer inside the driver's observer.
pub fn record<M, A, O>(driver: &mut Driver<M, A, O>, watch: impl Fn(&mut O) -> &mut Watch)
where
    M: Machine + ?Sized,
    A: Application<M>,
    O: Observer,
{
    let strangers = watch(driver.observer_mut()).trace.as_ref().map(|trace| trace.unnamed());
    let found: Vec<_> = strangers
        .into_iter()
        .flatten()
        .filter_map(|node| driver.endpoint().peer(node).map(|address| (node, address)))
        .collect();
    if let Some(trace) = &mut watch(driver.observer_mut()).trace {
        trace.end_step(found);
    }
}

impl Observer for Watch {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        if let Some(trace) = &mut self.trace {
            trace.event(time, node, event);
        }
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        if let Some(overheard) = self.overheard.as_mut().filter(|_| from != SELF) {
            overheard.note(from, bytes);
        }
        if let Some(trace) = &mut self.trace {
            trace.datagram(time, from, to, bytes);
        }
    }
}
