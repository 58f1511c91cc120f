//! Sockets: messages and streams, sent to a group and received from it, for every protocol of the registry.
//!
//! [`bind`] names the group. [`connect`](Socket::connect) opens a session as its sender, once the receivers are there,
//! and gives an [`Outbound`]; [`listen`](Socket::listen) gives a [`Listener`], which [accepts](Listener::accept) one
//! session after the other as an [`Inbound`]; [`join`](Socket::join) joins a session of peers that another end
//! opened, as a further sender. Each blocking call (`send`, `recv`) has a counterpart for tasks of any async runtime
//! (`send_async`, `recv_async`).
//!
//! Messages keep their boundaries, up to a length of [`MAX_MESSAGE_LEN`]. [`Outbound`] also implements
//! [`Write`](std::io::Write) and [`Inbound`] [`Read`](std::io::Read), for a stream of bytes. With `set("order",
//! "arrival")` of the protocol `carillon` a message is delivered as soon as it arrives, possibly before earlier ones
//! that were lost. That order suits numbered messages, not a stream of bytes.
//!
//! A [daemon](crate::daemon) holds the network sockets of many programs of a machine ([`through`](Socket::through)).
//!
//! `carillon send --stream` and `recv --stream` use the same session, loop, records and reports. A sending socket waits
//! for its receivers as the protocol does, and a slow receiving program slows the sender. Silent members are expelled
//! by the same rules.
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

/// Creates a socket of this group; its role is chosen next. A receiving or joining socket without a name uses the
/// host name with the process number.
pub fn bind(group: SocketAddr) -> Socket {
    let (options, attached) = (SendOptions::default(), Vec::new());
    End::new(ToBind { options, hops: 1, attached, daemon: None }).group(group)
}

/// A socket without a role, made by [`bind`]; group, interface and name are set as for every [`End`].
pub type Socket = End<ToBind>;

/// Settings of a socket.
#[derive(Debug)]
pub struct ToBind {
    pub(crate) options: SendOptions,
    pub(crate) hops: u8,
    pub(crate) attached: Vec<u8>,
    /// Path of the daemon, if the socket uses one.
    daemon: Option<PathBuf>,
}

impl ToBind {
    /// Settings of a session that this socket opens and that sends the contents of `feed`.
    pub(crate) fn into_send(self, feed: Arc<Feed>) -> ToSend {
        ToSend::with(Source::Feed(feed), self.hops, self.options)
    }

    /// Settings of a further sender that sends the contents of `feed`.
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

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name of its sender.
    pub sender: Arc<str>,
    /// Sequence number among the messages of its sender, from 0.
    pub number: u64,
    /// Contents.
    pub bytes: Vec<u8>,
}

/// Result of a wait for a limited time ([`Inbound::recv_timeout`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The next message.
    Message(Message),
    /// No message within the time. The session goes on.
    Timeout,
    /// Every sender has ended, and every message was received.
    End,
}

/// A member of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The name.
    pub name: String,
    /// Its address, if known.
    pub address: Option<SocketAddr>,
    /// Reason why it left or was expelled, if so.
    pub gone: Option<String>,
}

impl End<ToBind> {
    /// Applies a setting as text: a key and a value of the daemon's OPEN frame (`docs/reference/daemon.md`), for
    /// programs in other languages. Fails if there is no such key, or if the value is invalid.
    pub fn option(self, key: &str, value: &str) -> Result<Self, Error> {
        let invalid = || Error::Option { key: key.to_owned(), value: value.to_owned() };
        crate::daemon::settings::with(self, key, value).ok_or_else(invalid)
    }

    /// Sends files and directories instead of messages, with the settings of this socket. A daemon sends no files.
    pub fn send<P: Into<PathBuf>>(self, paths: impl IntoIterator<Item = P>) -> crate::Sending {
        let source = Source::Paths(paths.into_iter().map(Into::into).collect());
        End { network: self.network, what: ToSend::with(source, self.what.hops, self.what.options) }
    }

    /// Receives one transfer of files into a directory, with the network settings of this socket.
    pub fn receive(self, directory: impl Into<PathBuf>) -> crate::Receiving {
        End { network: self.network, ..crate::receive(directory).timeout(self.what.options.timeout) }
    }

    /// Sets the protocol by its name in the registry, for [`connect`](Self::connect). Other members learn it from the
    /// session.
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

    /// Connects when this many receivers have joined, or [after a timeout](Self::join_timeout) without the missing
    /// ones. Default, without [`expect`](Self::expect): two seconds after the first.
    #[must_use]
    pub fn receivers(mut self, count: usize) -> Self {
        self.what.options.gather = Gather::Count(count);
        self
    }

    /// Connects when the receivers of these names have joined, or [after a timeout](Self::join_timeout) without the
    /// missing ones, and admits no others.
    #[must_use]
    pub fn expect<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.gather = Gather::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the time to wait for receivers, after which the session starts without the missing ones unless
    /// [`all_or_nothing`](crate::SendOptions::all_or_nothing) is set. Connecting or joining fails if there is none.
    /// Default: one minute.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Sets the time after which a silent member is expelled, or one that is waited for and acknowledges nothing.
    /// Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Sets the maximum send rate, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
        self
    }

    /// Sets the hop limit of datagrams. Default: 1, the local network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// Attaches at most 256 bytes that the organiser receives with the name.
    #[must_use]
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.what.attached = bytes.into();
        self
    }

    /// Sends snapshots of this end to this monitor, a few times a second; not available through a daemon.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// Replaces all options of a sender.
    #[must_use]
    pub fn options(mut self, options: SendOptions) -> Self {
        self.what.options = options;
        self
    }

    /// Uses the daemon at this path ([`daemon`](crate::daemon), [`default_path`](crate::daemon::default_path)), which
    /// owns the network sockets.
    #[must_use]
    pub fn through(mut self, daemon: impl Into<PathBuf>) -> Self {
        self.what.daemon = Some(daemon.into());
        self
    }

    /// Opens a session as its sender and waits until the receivers have joined.
    pub fn connect(self) -> Result<Outbound, Error> {
        Outbound::begin(self)?.started()
    }

    /// Opens a session as its sender and awaits the receivers.
    pub async fn connect_async(self) -> Result<Outbound, Error> {
        Outbound::begin(self)?.started_async().await
    }

    /// Waits for a session of peers that another end opens, and joins it as a further sender. To receive the other
    /// peers' messages, [`listen`](Self::listen) with a second socket of another name.
    pub fn join(self) -> Result<JoinedOutbound, Error> {
        JoinedOutbound::begin(self.with_name())?.started()
    }

    /// Awaits a session of peers and joins it as a further sender.
    pub async fn join_async(self) -> Result<JoinedOutbound, Error> {
        JoinedOutbound::begin(self.with_name())?.started_async().await
    }

    /// Ensures a unique name, as a host and a process may have many sockets.
    fn with_name(self) -> Self {
        static SOCKETS: AtomicU64 = AtomicU64::new(0);
        let Some(name) = self.network.second_name() else { return self };
        match SOCKETS.fetch_add(1, Ordering::Relaxed) {
            0 => self.name(name),
            number => self.name(format!("{name}-{number}")),
        }
    }

    /// Opens the sockets, ready to receive from any sender that opens a session.
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
