//! The sender, or the one of several that organises.

mod further;
mod open;
mod options;
mod run;
mod sizes;
mod view;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use carillon_core::{BitRate, Duration, Event, NodeId, Notice, Observer, Time};
use carillon_proto::session::{Gather, HelperSelection, Slow};

use crate::end::End;
use crate::files::{Feed, Manifest, SigningKey, Symlinks};
use crate::handle::{AbortSignal, EventSink, Handle, spawn};
use crate::monitor::Monitor;
use crate::run_loop::{RunControl, UNLIMITED_STEP, run_to_end_within};
use crate::{Error, LocalError, SendEvent, SendReport};

pub use open::OpenSend;
pub use options::{DEFAULT_PROTOCOL, DEFAULT_ROUNDS, SendOptions, hears_group};
pub use run::{Facts, SendRun};

/// What a sender sends.
pub(crate) enum Source {
    /// Files and directories; `-` is the standard input.
    Paths(Vec<PathBuf>),
    /// What a reader gives, as a file of this name.
    Reader(String, Box<dyn Read + Send>),
    /// Each line of a reader at once, as a message of its own.
    Lines(Box<dyn Read + Send>),
    /// The messages of a program.
    Feed(Arc<Feed>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Paths(paths) => f.debug_tuple("Paths").field(paths).finish(),
            Source::Reader(name, _) => f.debug_tuple("Reader").field(name).finish(),
            Source::Lines(_) => f.write_str("Lines"),
            Source::Feed(_) => f.write_str("Feed"),
        }
    }
}

impl Source {
    /// What is to be sent, and whether it is a live stream.
    pub(crate) fn list(
        self,
        rename: Option<&OsStr>,
        symlinks: Symlinks,
    ) -> Result<(Manifest, bool), LocalError> {
        match self {
            Source::Paths(paths) => Ok((Manifest::list(&paths, rename, symlinks)?, false)),
            Source::Reader(name, reader) => {
                Ok((Manifest::reader(rename.unwrap_or(OsStr::new(&name)), reader)?, false))
            }
            Source::Lines(reader) => Ok((Manifest::reader("stream", reader)?, true)),
            Source::Feed(feed) => Ok((Manifest::feed(feed), true)),
        }
    }

    /// Where a program's messages come from.
    pub(crate) fn feed(&self) -> Option<Arc<Feed>> {
        if let Source::Feed(feed) = self { Some(feed.clone()) } else { None }
    }
}

/// SenderEvent a program's feed what the protocol is done with.
pub(crate) struct Acknowledged(pub Option<Arc<Feed>>);

impl Observer for Acknowledged {
    fn event(&mut self, _time: Time, _node: NodeId, _event: &Event) {}

    fn notice(&mut self, _: Time, _: NodeId, notice: &Notice) {
        if let (Some(feed), Notice::Completed { .. }) = (&self.0, notice) {
            feed.done();
        }
    }
}

/// Sends files and directories to every receiver of a group.
pub fn send<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Sending {
    End::new(ToSend::new(Source::Paths(paths.into_iter().map(Into::into).collect())))
}

/// Sends what a reader gives, as one file of this name.
pub fn send_reader(name: &str, reader: impl Read + Send + 'static) -> Sending {
    End::new(ToSend::new(Source::Reader(name.to_owned(), Box::new(reader))))
}

/// Sends each line that a reader gives at once, as a message of its own, until the reader ends.
pub fn send_lines(reader: impl Read + Send + 'static) -> Sending {
    End::new(ToSend::new(Source::Lines(Box::new(reader))))
}

/// A sender before it begins. Made by [`send`], [`send_reader`] and [`send_lines`].
pub type Sending = End<ToSend>;

/// What a sender sends, to whom, and how.
#[derive(Debug)]
pub struct ToSend {
    source: Source,
    rename: Option<OsString>,
    symlinks: Symlinks,
    signing: Option<SigningKey>,
    hops: u8,
    options: SendOptions,
}

impl ToSend {
    fn new(source: Source) -> Self {
        ToSend::with(source, 1, SendOptions::default())
    }

    pub(crate) fn with(source: Source, hops: u8, options: SendOptions) -> Self {
        ToSend { source, rename: None, symlinks: Symlinks::default(), signing: None, hops, options }
    }
}

impl End<ToSend> {
    /// Router hops that datagrams may travel: 1, the default, stays on this network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// The protocol, by its name in the registry.
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

    /// Starts when so many receivers have joined, or [without those that have not](Self::join_timeout); further senders count too.
    #[must_use]
    pub fn receivers(mut self, count: usize) -> Self {
        self.what.options.gather = Gather::Count(count);
        self
    }

    /// Starts when the receivers of these names have joined, or [without those that have not](Self::join_timeout), and lets in no
    /// others.
    #[must_use]
    pub fn expect<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.gather = Gather::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// Lets the receiver of this name in from this address only.
    #[must_use]
    pub fn from_host(mut self, name: impl Into<String>, host: IpAddr) -> Self {
        self.what.options.hosts.insert(name.into(), host);
        self
    }

    /// Starts this long after the first receiver has joined, also without receivers that are expected, by name or number. Two
    /// seconds if nothing is said and none is expected.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        let options = &mut self.what.options;
        options.wait = Some(time);
        if let Gather::Settle(settle) = &mut options.gather {
            *settle = time;
        }
        self
    }

    /// Sends nothing unless all receivers that are expected have joined.
    #[must_use]
    pub fn all_or_nothing(mut self) -> Self {
        self.what.options.all_or_nothing = true;
        self
    }

    /// Waits for nobody, and sends so fast what nobody can ask for again, after this time, in which receivers that never say anything
    /// ([`End::one_way`]) hear of it: where there is no way back. A quarter more goes out than the messages, against loss, unless that
    /// parameter is set otherwise. An error if the protocol, which is to be said before, needs answers.
    pub fn silent_receivers(mut self, rate: BitRate, begins_after: Duration) -> Result<Self, Error> {
        self.what.options.go_one_way(rate, begins_after)?;
        Ok(self)
    }

    /// Starts without receivers that have not joined within this time, and gives up if none has; a minute if nothing is said.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Gives a receiver up that was not heard for this long, or is waited for and acknowledges nothing; five
    /// seconds if nothing is said.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Gives a receiver up that is waited for most of the time and lets less than this through; `None` for none.
    #[must_use]
    pub fn min_rate(mut self, rate: Option<BitRate>) -> Self {
        self.what.options.min_rate = rate;
        self
    }

    /// Sends at most this fast, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
        self
    }

    /// Sends datagrams of at most this many bytes.
    #[must_use]
    pub fn datagram(mut self, bytes: u32) -> Self {
        self.what.options.datagram = Some(bytes);
        self
    }

    /// SenderEvent this monitor, a few times a second, what the sender and its receivers look like.
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// What becomes of receivers that keep the others waiting; [`Slow::Lane`] if nothing is said.
    #[must_use]
    pub fn slow(mut self, slow: Slow) -> Self {
        self.what.options.slow = slow;
        self
    }

    /// Serves those who come late, or are given up and are heard again, in so many further sessions at most: three if
    /// nothing is said.
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.what.options.rounds = rounds;
        self
    }

    /// Lets routers of the protocol help.
    #[must_use]
    pub fn relays(mut self) -> Self {
        self.what.options.relays = true;
        self
    }

    /// Starts when so many helpers have joined too ([`help`](crate::help()), `carillon relay`), of a protocol that has some.
    #[must_use]
    pub fn helpers(mut self, count: usize) -> Self {
        self.what.options.helping = HelperSelection::Count(count);
        self
    }

    /// Starts when the helpers of these names have joined too, and lets in no other helpers.
    #[must_use]
    pub fn expect_helpers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.helping = HelperSelection::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// So many helpers turn to the sender, and to each helper; without it all turn to the sender.
    #[must_use]
    pub fn fanout(mut self, helpers: usize) -> Self {
        self.what.options.fanout = Some(helpers);
        self
    }

    /// Each member turns to the nearest helper, by the time there and back that is measured before the transfer starts.
    #[must_use]
    pub fn nearest(mut self) -> Self {
        self.what.options.nearest = true;
        self
    }

    /// The member of this name, a receiver or a helper, turns to that helper.
    #[must_use]
    pub fn under(mut self, member: impl Into<String>, helper: impl Into<String>) -> Self {
        self.what.options.under.insert(member.into(), helper.into());
        self
    }

    /// The name that the one file has at the receivers.
    #[must_use]
    pub fn named(mut self, name: impl Into<OsString>) -> Self {
        self.what.rename = Some(name.into());
        self
    }

    /// What becomes of symbolic links in directories.
    #[must_use]
    pub fn symlinks(mut self, symlinks: Symlinks) -> Self {
        self.what.symlinks = symlinks;
        self
    }

    /// Signs the files with this key, so that receivers who trust it ([`End::trust`]) take them from nobody else.
    #[must_use]
    pub fn sign(mut self, key: SigningKey) -> Self {
        self.what.signing = Some(key);
        self
    }

    /// Sends, in this thread, and says what became of every receiver.
    pub fn run(self) -> Result<SendReport, Error> {
        self.go(&AbortSignal::default(), &EventSink::silent())
    }

    /// Sends in a thread of its own. What is wrong with the files, the settings or the network before anything
    /// is sent is told by [`Handle::wait`] too.
    #[must_use]
    pub fn start(self) -> Handle<SendEvent, SendReport> {
        spawn("carillon-send", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &AbortSignal, teller: &EventSink<SendEvent>) -> Result<SendReport, Error> {
        let End { network, what: ToSend { source, rename, symlinks, signing, hops, options } } = self;
        let protocol = options.entry()?;
        let feed = source.feed();
        let (mut manifest, stream) = source.list(rename.as_deref(), symlinks)?;
        if let Some(key) = signing {
            if stream {
                return Err(Error::SignedStream);
            }
            manifest = manifest.signed(key);
        }
        let bound = network.open(hears_group(protocol), hops, options.rate)?;
        let opened = options.open(&network.name(), bound, manifest, stream)?;
        abort.set_waker(opened.endpoint().waker());
        let mut run = opened.with(Acknowledged(feed));
        loop {
            run_to_end_within(&mut run, UNLIMITED_STEP, |run| -> Result<RunControl, Error> {
                for event in run.take_events() {
                    teller.tell(event);
                }
                if teller.is_due() {
                    teller.send_if_room(run.progress());
                }
                Ok(abort.wish("the sender was aborted"))
            })?;
            run.take_events().into_iter().for_each(|event| teller.tell(event));
            if !run.is_wanted() {
                break;
            }
            run = run.again()?;
        }
        match run.take_error() {
            Some(error) => Err(error.into()),
            None => Ok(run.report()),
        }
    }
}
