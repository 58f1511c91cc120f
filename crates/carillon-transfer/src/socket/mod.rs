//! Sockets: messages and streams, sent to a group and received from it, for every protocol of the registry.
//!
//! [`bind`] names the group. [`connect`](Socket::connect) opens a session as its sender, once the receivers are there,
//! and gives an [`Outbound`]; [`listen`](Socket::listen) gives a [`Listener`], which [accepts](Listener::accept) one session
//! after the other as an [`Inbound`]; [`join`](Socket::join) takes part in a session of peers that another one has opened, as a
//! further sender. What waits can be waited for by a thread (`send`, `recv`), or by a task of any async runtime
//! (`send_async`, `recv_async`).
//!
//! Messages keep their boundaries, whatever their length up to [`MAX_MESSAGE_LEN`]. [`Outbound`] is a
//! [`Write`](std::io::Write) and [`Inbound`] a [`Read`](std::io::Read) too, for which they are a stream of bytes. With
//! `set("order", "arrival")` of the protocol `carillon` each message comes as soon as it is there, before others that were lost on their way:
//! that is for messages, by their numbers, and not for a stream of bytes.
//!
//! [`through`](Socket::through) a [daemon](crate::daemon) many programs of a machine share what they need.
//!
//! It is what `carillon send --stream` and `recv --stream` run: the same session, loop, records and reports. A socket
//! that sends waits for its receivers as their protocol does, a receiver whose program is slow slows the sender, and
//! both are given up by the same rules.
//!
//! ```
//! use carillon_transfer::socket::bind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! let mut listener = bind(group).interface("lo").name("alice").listen()?;
//! let receiver = std::thread::spawn(move || {
//!     let mut inbound = listener.accept()?;
//!     let mut texts = Vec::new();
//!     while let Some(message) = inbound.recv()? {
//!         texts.push(format!("{} {}: {}", message.sender, message.number, String::from_utf8_lossy(&message.bytes)));
//!     }
//!     Ok::<_, carillon_transfer::Error>(texts)
//! });
//!
//! let mut outbound = bind(group).interface("lo").name("bob").protocol("pgm").receivers(1).connect()?;
//! assert_eq!(outbound.members()[0].name, "alice");
//! outbound.send(b"one")?;
//! outbound.send(&[b'x'; 100_000])?;
//! assert!(outbound.close()?.is_success());
//!
//! let texts = receiver.join().expect("it does not panic")?;
//! assert_eq!((texts.len(), texts[0].as_str(), texts[1].len()), (2, "bob 0: one", 100_007));
//! # Ok(()) }
//! ```
//!
//! The same in tasks, here of tokio:
//!
//! ```
//! use carillon_transfer::socket::bind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! runtime.block_on(async {
//!     let mut listener = bind(group).interface("lo").listen()?;
//!     let receive = async {
//!         let mut inbound = listener.accept_async().await?;
//!         let mut bytes = 0;
//!         while let Some(message) = inbound.recv_async().await? {
//!             bytes += message.bytes.len();
//!         }
//!         Ok::<_, carillon_transfer::Error>(bytes)
//!     };
//!     let send = async {
//!         let mut outbound = bind(group).interface("lo").name("bob").receivers(1).connect_async().await?;
//!         for _ in 0..1000 {
//!             outbound.send_async(&[7; 1000]).await?;
//!         }
//!         outbound.close_async().await
//!     };
//!     let (bytes, report) = tokio::join!(receive, send);
//!     assert_eq!(bytes?, 1_000_000);
//!     assert!(report?.is_success());
//!     Ok(())
//! })
//! # }
//! ```

mod inbound;
mod outbound;
mod queue;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carillon_core::{BitRate, Duration};
use carillon_proto::session::Gather;

use crate::daemon::{program, settings};
use crate::end::End;
use crate::files::Feed;
use crate::join::{JoinOptions, ToJoin};
use crate::monitor::Monitor;
use crate::send::{Source, ToSend};
use crate::{Error, ReceiveOptions, SendOptions};

pub use crate::files::MAX_MESSAGE_LEN;
pub use inbound::{Inbound, Listener, Stopper};
pub use outbound::{Closing, JoinedOutbound, Outbound, Refusal, SenderEvent, Sending};
pub(crate) use queue::{Filler, Queue};

/// A socket of this group: what it does there is said next. One that receives or joins, and has no name, is known by the
/// host's with the number of the process.
pub fn bind(group: SocketAddr) -> Socket {
    let (options, attached) = (SendOptions::default(), Vec::new());
    End::new(ToBind { options, hops: 1, attached, daemon: None }).group(group)
}

/// A socket before it is used. Made by [`bind`]; group, interface and name are those of every [`End`].
pub type Socket = End<ToBind>;

/// How a socket will be used.
#[derive(Debug)]
pub struct ToBind {
    pub(crate) options: SendOptions,
    pub(crate) hops: u8,
    pub(crate) attached: Vec<u8>,
    /// Through which daemon, if through one.
    daemon: Option<PathBuf>,
}

impl ToBind {
    /// A session that this opens, of what this feed gives.
    pub(crate) fn into_send(self, feed: Arc<Feed>) -> ToSend {
        ToSend::with(Source::Feed(feed), self.hops, self.options)
    }

    /// The same for one who joins.
    pub(crate) fn into_join(self, feed: Arc<Feed>) -> ToJoin {
        let options = JoinOptions {
            join_timeout: self.options.join_timeout,
            timeout: self.options.timeout,
            rate: self.options.rate,
            attached: self.attached,
            monitor: self.options.monitor,
        };
        ToJoin::with(Source::Feed(feed), self.hops, options)
    }
}

/// A message that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name of its sender.
    pub sender: Arc<str>,
    /// Its number among those of its sender, from 0.
    pub number: u64,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// Somebody in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The name.
    pub name: String,
    /// Where it is, if that is known here.
    pub address: Option<SocketAddr>,
    /// Why it is no member any more, if it is not.
    pub gone: Option<String>,
}

impl End<ToBind> {
    /// The protocol, by its name in the registry; for [`connect`](Self::connect), whose session it is. The others learn it from that.
    #[must_use]
    pub fn protocol(mut self, name: impl Into<String>) -> Self {
        self.what.options.protocol = name.into();
        self
    }

    /// Sets a parameter of the protocol.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.what.options.settings.push((key.into(), value.into()));
        self
    }

    /// Connects when so many receivers have joined, or [without those that have not](Self::join_timeout). Without this and [`expect`](Self::expect) it connects two seconds
    /// after the first.
    #[must_use]
    pub fn receivers(mut self, count: usize) -> Self {
        self.what.options.gather = Gather::Count(count);
        self
    }

    /// Connects when the receivers of these names have joined, or [without those that have not](Self::join_timeout), and lets in
    /// no others.
    #[must_use]
    pub fn expect<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.gather = Gather::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// Connects without receivers that have not joined within this time, unless
    /// [`all_or_nothing`](crate::SendOptions::all_or_nothing) is set, and gives up if none has, or if there is no session to join; a minute
    /// if nothing is said.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Gives another end up that was not heard for this long, or is waited for and acknowledges nothing; five
    /// seconds if nothing is said.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Sends at most this fast, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
        self
    }

    /// Router hops that datagrams may travel: 1, the default, stays on this network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// Has the one who opened the session told this with the name, of a receiver or a further sender: 256 bytes at most.
    #[must_use]
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.what.attached = bytes.into();
        self
    }

    /// SenderEvent this monitor, a few times a second, what this end looks like; not of one that goes through a daemon.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// What else a sender can be told; replaces what was said before.
    #[must_use]
    pub fn options(mut self, options: SendOptions) -> Self {
        self.what.options = options;
        self
    }

    /// Goes through the daemon that listens at this path ([`daemon`](crate::daemon)), as
    /// [`default_path`](crate::daemon::default_path): the socket is its, and is used as any other.
    #[must_use]
    pub fn through(mut self, daemon: impl Into<PathBuf>) -> Self {
        self.what.daemon = Some(daemon.into());
        self
    }

    /// Opens a session as its sender, and waits until the receivers are there.
    pub fn connect(self) -> Result<Outbound, Error> {
        Outbound::begin(self)?.started()
    }

    /// The same for a task.
    pub async fn connect_async(self) -> Result<Outbound, Error> {
        Outbound::begin(self)?.started_async().await
    }

    /// Waits for a session of peers that another one opens, and joins it as a further sender. To receive what is
    /// sent there, [`listen`](Self::listen) beside it, under another name.
    pub fn join(self) -> Result<JoinedOutbound, Error> {
        JoinedOutbound::begin(self.with_name())?.started()
    }

    /// The same for a task.
    pub async fn join_async(self) -> Result<JoinedOutbound, Error> {
        JoinedOutbound::begin(self.with_name())?.started_async().await
    }

    /// A name of its own, if none was given: there may be many sockets on a host, and in a process.
    fn with_name(self) -> Self {
        static SOCKETS: AtomicU64 = AtomicU64::new(0);
        let Some(name) = self.network.second_name() else { return self };
        match SOCKETS.fetch_add(1, Ordering::Relaxed) {
            0 => self.name(name),
            number => self.name(format!("{name}-{number}")),
        }
    }

    /// Opens the sockets to receive from whoever opens a session.
    pub fn listen(self) -> Result<Listener, Error> {
        let socket = self.with_name();
        if let Some(path) = &socket.what.daemon {
            let line = program::listen(path, &settings::told(&socket)?)?;
            return Ok(Listener::through(line));
        }
        let End { network, what } = socket;
        let bound = network.open(true, 1, None)?;
        let options = ReceiveOptions {
            timeout: what.options.timeout,
            keep_seeking: true,
            attached: what.attached,
            monitor: what.options.monitor,
            ..ReceiveOptions::default()
        };
        Ok(Listener::here(network, bound, options))
    }
}
