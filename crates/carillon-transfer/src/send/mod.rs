//! The sending end of a transfer, which organises the session.

mod further;
mod late;
mod open;
mod options;
mod run;
mod series;
mod sizes;
mod view;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use carillon_core::{BitRate, Duration, Event, NodeId, Notice, Observer, Time};
use carillon_monitor::Monitor;
use carillon_session::{Gather, HelperSelection, Slow};

use crate::end::End;
use crate::files::{Exclude, Feed, Manifest, Selection, SigningKey, Symlinks, check_source};
use crate::handle::{AbortSignal, EventSink, Handle, spawn};
use crate::run_loop::{RunControl, UNLIMITED_STEP, run_to_end_within};
use crate::{Error, LocalError, SendEvent, SendReport};

pub use open::OpenSend;
pub(crate) use options::entry;
pub use options::{DEFAULT_PROTOCOL, DEFAULT_ROUNDS, GATHER_WAIT, SendOptions, hears_group};
pub use run::{Facts, SendRun};

/// Contents to send.
pub(crate) enum Source {
    /// Files and directories; `-` is the standard input.
    Paths(Vec<PathBuf>),
    /// A block device.
    Device(PathBuf),
    /// Contents of a reader, as a file of this name.
    Reader(String, Box<dyn Read + Send>),
    /// Lines of a reader, each sent as a message.
    Lines(Box<dyn Read + Send>),
    /// The messages of a program.
    Feed(Arc<Feed>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Paths(paths) => f.debug_tuple("Paths").field(paths).finish(),
            Source::Device(path) => f.debug_tuple("Device").field(path).finish(),
            Source::Reader(name, _) => f.debug_tuple("Reader").field(name).finish(),
            Source::Lines(_) => f.write_str("Lines"),
            Source::Feed(_) => f.write_str("Feed"),
        }
    }
}

impl Source {
    /// Returns the manifest, and true for a live stream.
    pub(crate) fn list(self, selection: &Selection) -> Result<(Manifest, bool), LocalError> {
        match self {
            Source::Paths(paths) => Ok((Manifest::list(&paths, selection)?, false)),
            Source::Device(path) => {
                check_source(&path)?;
                Ok((Manifest::list(&[path], selection)?, false))
            }
            Source::Reader(name, reader) => {
                let name = selection.rename.as_deref().unwrap_or(OsStr::new(&name));
                Ok((Manifest::reader(name, reader)?, false))
            }
            Source::Lines(reader) => Ok((Manifest::reader("stream", reader)?, true)),
            Source::Feed(feed) => Ok((Manifest::feed(feed), true)),
        }
    }

    /// Queue of the program's messages.
    pub(crate) fn feed(&self) -> Option<Arc<Feed>> {
        if let Source::Feed(feed) = self { Some(feed.clone()) } else { None }
    }
}

/// Observer that tells a program's feed which data the protocol has released.
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

/// Sends the contents of a block device as one file of its name. The device must not be in use, except by file systems
/// that are mounted read-only.
pub fn send_device(path: impl Into<PathBuf>) -> Sending {
    End::new(ToSend::new(Source::Device(path.into())))
}

/// Sends the contents of a reader as one file of this name.
pub fn send_reader(name: &str, reader: impl Read + Send + 'static) -> Sending {
    End::new(ToSend::new(Source::Reader(name.to_owned(), Box::new(reader))))
}

/// Sends each line of a reader as a message, until the reader ends.
pub fn send_lines(reader: impl Read + Send + 'static) -> Sending {
    End::new(ToSend::new(Source::Lines(Box::new(reader))))
}

/// A sender before it begins. Made by [`send`], [`send_reader`] and [`send_lines`].
pub type Sending = End<ToSend>;

/// Contents, receivers and options of a sender.
#[derive(Debug)]
pub struct ToSend {
    source: Source,
    selection: Selection,
    signing: Option<SigningKey>,
    hops: u8,
    options: SendOptions,
}

impl ToSend {
    fn new(source: Source) -> Self {
        ToSend::with(source, 1, SendOptions::default())
    }

    pub(crate) fn with(source: Source, hops: u8, options: SendOptions) -> Self {
        ToSend { source, selection: Selection::default(), signing: None, hops, options }
    }
}

impl End<ToSend> {
    /// Sets the hop limit of datagrams. Default: 1, the local network.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.what.hops = hops;
        self
    }

    /// Sets the protocol by its name in the registry.
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

    /// Starts when this many receivers and further senders have joined, or [after a timeout](Self::join_timeout)
    /// without the missing ones.
    #[must_use]
    pub fn receivers(mut self, count: usize) -> Self {
        self.what.options.gather = Gather::Count(count);
        self
    }

    /// Starts when the receivers of these names have joined, or [after a timeout](Self::join_timeout) without the
    /// missing ones, and admits no others.
    #[must_use]
    pub fn expect<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.gather = Gather::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// Admits the receiver of this name from this address only.
    #[must_use]
    pub fn from_host(mut self, name: impl Into<String>, host: IpAddr) -> Self {
        self.what.options.hosts.insert(name.into(), host);
        self
    }

    /// Starts this long after the first receiver has joined, even without expected receivers. Default: two seconds if
    /// none is expected, or sooner if receivers were waiting and no further one asks to join
    /// ([`Gather::Quiet`](carillon_session::Gather::Quiet)).
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        let options = &mut self.what.options;
        options.wait = Some(time);
        if let Gather::Settle(_) | Gather::Quiet(_) = options.gather {
            options.gather = Gather::Settle(time);
        }
        self
    }

    /// Sends nothing unless all expected receivers have joined.
    #[must_use]
    pub fn all_or_nothing(mut self) -> Self {
        self.what.options.all_or_nothing = true;
        self
    }

    /// Sends at this rate without waiting for receivers, after a delay in which receivers that send nothing
    /// ([`End::one_way`]) learn of the session: for links without a return path. A quarter of the data is added as
    /// repair symbols, unless that parameter is set. Call it after [`protocol`](Self::protocol).
    ///
    /// # Errors
    /// The protocol needs answers from receivers.
    pub fn silent_receivers(mut self, rate: BitRate, begins_after: Duration) -> Result<Self, Error> {
        self.what.options.go_one_way(rate, begins_after)?;
        Ok(self)
    }

    /// Sets the time to wait for receivers, after which the transfer starts without the missing ones and fails if
    /// there is none. Default: one minute.
    #[must_use]
    pub fn join_timeout(mut self, time: Duration) -> Self {
        self.what.options.join_timeout = time;
        self
    }

    /// Sets the time after which a silent receiver is expelled, or one that is waited for and acknowledges nothing.
    /// Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.what.options.timeout = time;
        self
    }

    /// Expels a receiver that is waited for most of the time and achieves less than this rate; `None` disables it.
    #[must_use]
    pub fn min_rate(mut self, rate: Option<BitRate>) -> Self {
        self.what.options.min_rate = rate;
        self
    }

    /// Sets the maximum send rate, headers included.
    #[must_use]
    pub fn rate(mut self, rate: BitRate) -> Self {
        self.what.options.rate = Some(rate);
        self
    }

    /// Sets the maximum bytes of a datagram.
    #[must_use]
    pub fn datagram(mut self, bytes: u32) -> Self {
        self.what.options.datagram = Some(bytes);
        self
    }

    /// Sends snapshots of the sender and its receivers to this monitor, a few times a second.
    ///
    /// ```
    /// use carillon_transfer::monitor::Monitor;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
    /// let monitor = Monitor::default();
    /// # let directory = tempfile::tempdir()?;
    /// # let receiver = carillon_transfer::receive(directory.path()).group(group).interface("lo").name("alice");
    /// # let receiver = receiver.start();
    /// let text = std::io::Cursor::new("looked at while it is sent");
    /// let sender = carillon_transfer::send_reader("text", text)
    ///     .group(group)
    ///     .interface("lo")
    ///     .expect(["alice"])
    ///     .monitor(monitor.clone())
    ///     .start();
    /// # while monitor.latest().is_none() { std::thread::yield_now() }
    /// if let Some(now) = monitor.latest() {
    ///     println!("{} of {:?} bytes, limited by {:?}", now.amounts.bytes, now.amounts.size, now.limit);
    /// }
    /// assert!(sender.wait()?.is_success() && receiver.wait()?.is_success());
    /// let end = monitor.latest().ok_or("nothing was put there")?;
    /// assert_eq!((end.amounts.bytes, end.receivers[0].bytes, end.receivers[0].state), (26, Some(26), "verified"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.what.options.monitor = Some(monitor);
        self
    }

    /// Sets the treatment of receivers that keep the others waiting. Default: [`Slow::Lane`].
    #[must_use]
    pub fn slow(mut self, slow: Slow) -> Self {
        self.what.options.slow = slow;
        self
    }

    /// Sets the maximum number of catch-up sessions for receivers that came late, or were expelled and returned.
    /// Default: three.
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.what.options.rounds = rounds;
        self
    }

    /// Lets routers of the protocol help.
    #[must_use]
    pub fn relays(mut self) -> Self {
        self.what.options.helpers.relays = true;
        self
    }

    /// Starts when this many helpers ([`help`](crate::help()), `carillon relay`) have joined as well, for protocols
    /// with helpers.
    #[must_use]
    pub fn helpers(mut self, count: usize) -> Self {
        self.what.options.helpers.wanted = HelperSelection::Count(count);
        self
    }

    /// Starts when the helpers of these names have joined as well, and admits no other helpers.
    #[must_use]
    pub fn expect_helpers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.what.options.helpers.wanted =
            HelperSelection::Names(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the number of helpers below the sender and below each helper. Default: all below the sender.
    #[must_use]
    pub fn fanout(mut self, helpers: usize) -> Self {
        self.what.options.helpers.fanout = Some(helpers);
        self
    }

    /// Assigns each member to the nearest helper, by round-trip times measured before the start.
    #[must_use]
    pub fn nearest(mut self) -> Self {
        self.what.options.helpers.nearest = true;
        self
    }

    /// Assigns the member of this name, a receiver or a helper, to that helper.
    #[must_use]
    pub fn under(mut self, member: impl Into<String>, helper: impl Into<String>) -> Self {
        self.what.options.helpers.under.insert(member.into(), helper.into());
        self
    }

    /// Sets the name of the single file at the receivers.
    #[must_use]
    pub fn named(mut self, name: impl Into<OsString>) -> Self {
        self.what.selection.rename = Some(name.into());
        self
    }

    /// Sets the treatment of symbolic links in directories.
    #[must_use]
    pub fn symlinks(mut self, symlinks: Symlinks) -> Self {
        self.what.selection.symlinks = symlinks;
        self
    }

    /// Leaves out entries of directories that match one of these patterns.
    #[must_use]
    pub fn exclude(mut self, exclude: Exclude) -> Self {
        self.what.selection.exclude = exclude;
        self
    }

    /// Sends the entries of these names below the only path, instead of everything below it. A directory comes
    /// without its contents.
    #[must_use]
    pub fn files_from(mut self, names: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.what.selection.names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Signs the files with this key, for receivers that trust it ([`End::trust`]).
    #[must_use]
    pub fn sign(mut self, key: SigningKey) -> Self {
        self.what.signing = Some(key);
        self
    }

    /// Sends in this thread and returns the report of every receiver.
    pub fn run(self) -> Result<SendReport, Error> {
        self.go(&AbortSignal::default(), &EventSink::silent())
    }

    /// Sends in a thread of its own. Errors of files, settings or network before the start are returned by
    /// [`Handle::wait`] as well.
    #[must_use]
    pub fn start(self) -> Handle<SendEvent, SendReport> {
        spawn("carillon-send", move |abort, teller| self.go(abort, teller))
    }

    fn go(self, abort: &AbortSignal, teller: &EventSink<SendEvent>) -> Result<SendReport, Error> {
        let End { network, what: ToSend { source, selection, signing, hops, options } } = self;
        let protocol = options.entry()?;
        let feed = source.feed();
        let (mut manifest, stream) = source.list(&selection)?;
        if let Some(key) = signing {
            if stream {
                return Err(Error::SignedStream);
            }
            manifest = manifest.signed(key);
        }
        let bound = network.open_sender(hears_group(protocol), hops, options.rate)?;
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
