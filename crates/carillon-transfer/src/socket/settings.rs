//! Settings of a socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use carillon_core::{BitRate, Duration};
use carillon_monitor::Monitor;
use carillon_session::Gather;

use crate::end::End;
use crate::files::{Feed, History};
use crate::join::{JoinOptions, ToJoin};
use crate::options::{Notation, OPTIONS, OptionError, Scope, Settings};
use crate::send::{Source, ToSend};
use crate::{Error, SendOptions};

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
    pub(crate) daemon: Option<PathBuf>,
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

impl End<ToBind> {
    /// Sets an option of the [table](OPTIONS) by its name, in exact notation, for programs in other languages.
    ///
    /// # Errors
    /// Fails if sockets have no such option, or if the value is invalid.
    pub fn option(self, name: &str, value: &str) -> Result<Self, Error> {
        let set = self.option_of(Scope::Socket, name, value, Notation::Exact);
        set.map_err(|_| Error::Option { key: name.to_owned(), value: value.to_owned() })
    }

    /// Sets an option that this end or interface takes, by its name. The error says what is expected.
    ///
    /// ```
    /// use carillon_transfer::options::{Notation, Scope};
    /// use carillon_transfer::socket::bind;
    ///
    /// let socket = bind(([239, 1, 2, 3], 4567).into());
    /// let error = socket.option_of(Scope::Send, "slow", "away", Notation::Text).unwrap_err();
    /// assert_eq!(error.to_string(), "expected wait, lane or drop");
    /// ```
    ///
    /// # Errors
    /// Fails if the scope has no such option, or if the text is not a value of it.
    pub fn option_of(
        mut self,
        scope: Scope,
        name: &str,
        text: &str,
        notation: Notation,
    ) -> Result<Self, OptionError> {
        let mut settings = self.settings();
        settings.set(OPTIONS, scope, name, text, notation)?;
        Settings { network: self.network, send: self.what.options, hops: self.what.hops } = settings;
        Ok(self)
    }

    /// Copies the settings of this socket that options set.
    pub(crate) fn settings(&self) -> Settings {
        Settings { network: self.network.clone(), send: self.what.options.clone(), hops: self.what.hops }
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

    /// Serves receivers that join late or are started again: they continue with the oldest message of this history,
    /// or from now with [`History::EMPTY`]. [`SendOptions::history`] has the conditions. Default: late receivers are
    /// refused.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.what.options.history = Some(history);
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
}
