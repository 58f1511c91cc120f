//! Plain sessions: the protocol's standard alone, without invitations, members or reports of Carillon.
//!
//! They interoperate with other implementations, such as OpenPGM and ZeroMQ (`epgm://`) for the protocol `pgm`, and
//! NRL's NORM and ZeroMQ (`norm://`) for `norm`. A
//! sender starts at once and ends by the rules of its protocol; it never learns what has arrived. A receiver
//! receives every source of the group that it hears. Messages are the bytes of the application, in a [`Framing`].
//!
//! Packets are not authenticated. A program must therefore ask for a plain session, and cannot use a key with it.
//!
//! ```
//! use carillon_transfer::plain::{PlainNews, PlainReceive, PlainSend};
//! use carillon_transfer::run_loop::{RunControl, run_to_end};
//! # use carillon_transfer::{Error, Network};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! # let network = Network { group, interface: Some("lo".to_owned()), ..Network::default() };
//! let options = PlainReceive::new("pgm");
//! let mut receiver = options.open(options.bind(&network)?, carillon_core::NoObserver)?;
//! let there = network.clone();
//! let sender = std::thread::spawn(move || {
//!     let mut options = PlainSend::new("pgm");
//!     options.settings.push(("txw_secs".to_owned(), "200 ms".to_owned()));
//!     let input = std::io::Cursor::new("heard by strangers");
//!     let mut run = options.open(options.bind(&there)?, input, carillon_core::NoObserver)?;
//!     run_to_end(&mut run, |_| Ok::<_, Error>(RunControl::Continue))?;
//!     Ok::<_, Error>(run.report())
//! });
//!
//! let mut text = Vec::new();
//! run_to_end(&mut receiver, |receiver| {
//!     let mut next = RunControl::Continue;
//!     for news in receiver.take_news() {
//!         match news {
//!             PlainNews::Opened(source) => println!("{source} sends"),
//!             PlainNews::Message { payload, .. } => text.extend_from_slice(&payload),
//!             PlainNews::File { .. } => unreachable!("messages have no names"),
//!             PlainNews::Closed { .. } => next = RunControl::Drop,
//!         }
//!     }
//!     Ok::<_, Error>(next)
//! })?;
//! assert_eq!(text, b"heard by strangers");
//! assert_eq!(sender.join().expect("it does not panic")?.messages, 1);
//! # Ok(()) }
//! ```

mod folder;
mod framing;
mod input;
mod receive;
mod send;

use std::time::{SystemTime, UNIX_EPOCH};

pub use carillon_core::PlainContents;
use carillon_core::{BitRate, BuildContext, Config, NodeId, PlainSessions, ProtocolEntry, Seeds};
use carillon_net::{Endpoint, GROUP, SELF};
use carillon_proto::find_plain;
use carillon_proto::plain::no_plain_sessions;
use carillon_wire::envelope::drawn_association;

pub use carillon_proto::plain::{NamedFile, PlainLimits, PlainNews, PlainSource};
pub use folder::PlainFolder;
pub use framing::Framing;
pub use receive::{PlainReceive, PlainReceiveRun};
pub use send::{PlainReport, PlainSend, PlainSendRun, receiver_id};

use crate::Error;
use crate::network::random;

/// Protocol of a plain session and its settings.
struct Plain {
    protocol: &'static ProtocolEntry,
    sessions: &'static PlainSessions,
    config: Config,
}

impl Plain {
    /// Settings of a plain session on this endpoint. Those of the user take precedence.
    fn new(
        name: &str,
        user: &[(String, String)],
        framing: Framing,
        endpoint: &Endpoint,
    ) -> Result<Plain, Error> {
        let (protocol, sessions) = plain_protocol(name)?;
        if endpoint.seal_bytes() > 0 {
            return Err(Error::SealedPlain);
        }
        let mut config = Config::defaults(protocol.parameters);
        let own = protocol.settings.delivery.iter().chain(sessions.settings).copied();
        let port = endpoint.group().port();
        let port_text = port.to_string();
        // ZeroMQ uses one number for both ports.
        if framing == Framing::ZeroMq && !sessions.contents.has_messages() {
            return Err(Error::NoFraming(protocol.name));
        }
        let zeromq = sessions.port.filter(|_| framing == Framing::ZeroMq).map(|key| (key, &*port_text));
        let clock = seconds_since_1900().to_string();
        let clock = sessions.clock.map(|key| (key, &*clock));
        let user = user.iter().map(|(key, value)| (&**key, &**value));
        for (key, value) in own.chain(zeromq).chain(clock).chain(user) {
            config.set(protocol.parameters, key, value).map_err(|source| Error::Setting {
                key: key.to_owned(),
                value: value.to_owned(),
                source,
            })?;
        }
        if let Some(key) = sessions.port
            && framing == Framing::None
            && config.count(key) == u64::from(port)
        {
            return Err(Error::ZeroMqPort { key, port });
        }
        Ok(Plain { protocol, sessions, config })
    }

    /// Maximum payload of a packet in a datagram of this size.
    fn max_payload(&self, datagram: usize) -> usize {
        datagram.saturating_sub((self.protocol.packets.header_bytes)(&self.config).max)
    }
}

/// Protocol with this name and its plain sessions.
fn plain_protocol(name: &str) -> Result<(&'static ProtocolEntry, &'static PlainSessions), Error> {
    let protocol = find_plain(name).map_or_else(|| crate::send::entry(name), Ok)?;
    Ok((protocol, protocol.plain.ok_or_else(|| no_plain_sessions(protocol))?))
}

/// Contents of plain sessions of a protocol: messages, files, or both. Messages if there is no such protocol.
pub fn plain_contents(protocol: &str) -> PlainContents {
    let plain = find_plain(protocol).and_then(|protocol| protocol.plain);
    plain.map_or(PlainContents::Messages, |plain| plain.contents)
}

/// Time of day in seconds since 1900, modulo 2^32, as NTP counts them.
fn seconds_since_1900() -> u32 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    unix.wrapping_add(UNIX_EPOCH_SINCE_1900) as u32
}

/// Seconds from 1900 to 1970.
const UNIX_EPOCH_SINCE_1900: u64 = 2_208_988_800;

/// Context of a machine on this endpoint.
fn context(
    endpoint: &Endpoint,
    seeds: &Seeds,
    rate: Option<BitRate>,
    max_payload: usize,
) -> Result<BuildContext, Error> {
    Ok(BuildContext {
        association: drawn_association(random()? as u32),
        node: SELF,
        sender: SELF,
        members: Vec::<NodeId>::new().into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: endpoint.addresses(SELF),
        group: GROUP,
        seeds: seeds.part("plain"),
        bit_rate: rate.unwrap_or(BitRate::mbps(1000)),
        link_overhead: if endpoint.group().is_ipv4() { 28 } else { 48 },
        max_payload: max_payload as u32,
        memory: usize::MAX,
        rejoining: false,
    })
}
