//! Sender of a plain session.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use carillon_core::{
    Application, BitRate, BuildContext, Bytes, Machine, NodeId, Observer, OfferError, PlainContents,
    PlainKind, Sender, Time,
};
use carillon_net::{DriveError, Driver, Endpoint};

use super::folder::location;
use super::framing::Packer;
use super::input::{Cut, read_files, read_messages};
use super::{Framing, NamedFile, Plain, context, plain_protocol};
use crate::error::Context as _;
use crate::network::Bound;
use crate::run_loop::Run;
use crate::tally::Tally;
use crate::{Error, LocalError, Network};

/// Options of a plain sender.
#[derive(Clone, Debug)]
pub struct PlainSend {
    /// The protocol, by its name in the registry.
    pub protocol: String,
    /// Parameters of the protocol.
    pub settings: Vec<(String, String)>,
    /// Framing of the messages.
    pub framing: Framing,
    /// Bytes of the messages into which the input is cut. Default: what fits one packet.
    pub message_bytes: Option<usize>,
    /// True if each line of the input is a message.
    pub lines: bool,
    /// Maximum send rate, headers included.
    pub rate: Option<BitRate>,
    /// Maximum bytes of a datagram.
    pub datagram: Option<usize>,
    /// Maximum number of hops.
    pub hops: u8,
    /// Receivers that are to confirm everything, by their [identifiers](receiver_id). The sender ends once all have.
    pub expect: Vec<u32>,
}

/// Result of a plain sender. It learns what has arrived from receivers that it names only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainReport {
    /// Number of messages sent.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Data packets that were sent again.
    pub repairs: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received, most of them requests.
    pub datagrams_received: u64,
    /// Time from the start to the end.
    pub time: Duration,
    /// Receivers that were [named](PlainSend::expect), each with true if it has confirmed everything.
    pub receivers: Vec<(u32, bool)>,
}

/// A running plain sender, for [`run_to_end`](crate::run_loop::run_to_end).
pub struct PlainSendRun<O: Observer> {
    expect: Vec<u32>,
    driver: Driver<dyn Machine, Outgoing, Tally<O>>,
    /// Time for which it answers requests after the last message.
    linger: Duration,
    /// Time at which everything had been sent.
    sent: Option<Time>,
}

/// Messages on their way from the input to the machine.
struct Outgoing {
    input: Receiver<io::Result<Vec<u8>>>,
    /// True if messages are files with their names.
    named: bool,
    packer: Packer,
    packets: VecDeque<Bytes>,
    messages: u64,
    bytes: u64,
    /// True after `finish` was called.
    finished: bool,
    failure: Option<Error>,
}

/// Identifier of a receiver in this text: a number, or an IPv4 address that stands for the number of its four bytes, as
/// NRL's NORM has it by default. `None` for the numbers that NORM reserves, and for anything else.
pub fn receiver_id(text: &str) -> Option<u32> {
    let id = text.parse().ok().or_else(|| text.parse::<Ipv4Addr>().ok().map(u32::from));
    id.filter(|&id| id != 0 && id != u32::MAX)
}

impl PlainSend {
    /// Creates options with defaults.
    pub fn new(protocol: &str) -> Self {
        PlainSend {
            protocol: protocol.to_owned(),
            settings: Vec::new(),
            framing: Framing::None,
            message_bytes: None,
            lines: false,
            rate: None,
            datagram: None,
            hops: 1,
            expect: Vec::new(),
        }
    }

    /// Opens the sockets. Requests arrive at the port of the group, as with any other program of the protocol, so a
    /// host has one plain sender for each port. A protocol without requests needs no port of its own.
    pub fn bind(&self, network: &Network) -> Result<Bound, Error> {
        if network.key.is_some() {
            return Err(Error::SealedPlain);
        }
        let (protocol, sessions) = plain_protocol(&self.protocol)?;
        let port = if sessions.linger.is_some() { network.effective_group().port() } else { 0 };
        // Receivers may multicast requests.
        network.open_at(port, protocol.session.sender_hears_group, self.hops, self.rate)
    }

    /// Creates the sender of files, each under its own name. The [contents](super::plain_contents) of the protocol must
    /// have files.
    pub fn open_files<O: Observer>(
        &self,
        bound: Bound,
        paths: &[PathBuf],
        observer: O,
    ) -> Result<PlainSendRun<O>, Error> {
        let (protocol, sessions) = plain_protocol(&self.protocol)?;
        if !sessions.contents.has_files() {
            return Err(Error::PlainMessages(protocol.name, "no files by their names"));
        }
        let files = paths.iter().map(|path| Ok((location(path)?, path.clone())));
        let files = files.collect::<Result<Vec<_>, Error>>()?;
        let waker = bound.endpoint.waker();
        self.open_input(bound, observer, PlainKind::Files, || read_files(files, waker))
    }

    /// Creates the sender, which sends what it reads.
    pub fn open<O: Observer>(
        &self,
        bound: Bound,
        input: impl Read + Send + 'static,
        observer: O,
    ) -> Result<PlainSendRun<O>, Error> {
        let (protocol, sessions) = plain_protocol(&self.protocol)?;
        if !sessions.contents.has_messages() {
            return Err(Error::PlainMessages(protocol.name, "files, and no messages without names"));
        }
        let (max_payload, whole) = self.max_payload(&bound.endpoint)?;
        let bytes = self.message_bytes.unwrap_or(whole);
        let has_long_messages = Packer::new(self.framing, sessions.contents, max_payload).has_long_messages();
        if bytes == 0 || bytes > max_payload && !has_long_messages {
            return Err(Error::MessageBytes { bytes, max: max_payload });
        }
        let waker = bound.endpoint.waker();
        let cut = Cut { bytes, lines: self.lines };
        self.open_input(bound, observer, PlainKind::Messages, || read_messages(input, cut, waker))
    }

    /// Protocol and settings on this endpoint.
    fn plain(&self, endpoint: &Endpoint) -> Result<Plain, Error> {
        let key = plain_protocol(&self.protocol)?.1.rate;
        let rate = key.zip(self.rate).map(|(key, rate)| (key.to_owned(), format!("{} bit/s", rate.bps())));
        let settings: Vec<_> = rate.into_iter().chain(self.settings.iter().cloned()).collect();
        Plain::new(&self.protocol, &settings, self.framing, endpoint)
    }

    /// Maximum payload of a packet, and bytes of a message that fits one.
    fn max_payload(&self, endpoint: &Endpoint) -> Result<(usize, usize), Error> {
        let plain = self.plain(endpoint)?;
        let usual = if endpoint.interface().loopback { LOOPBACK_DATAGRAM } else { usize::MAX };
        let datagram = endpoint.max_datagram().min(self.datagram.unwrap_or(usual));
        let max_payload = plain.max_payload(datagram);
        Ok((max_payload, Packer::new(self.framing, plain.sessions.contents, max_payload).whole_message()))
    }

    fn open_input<O: Observer>(
        &self,
        Bound { endpoint, seeds, .. }: Bound,
        observer: O,
        kind: PlainKind,
        input: impl FnOnce() -> io::Result<Receiver<io::Result<Vec<u8>>>>,
    ) -> Result<PlainSendRun<O>, Error> {
        let (max_payload, _) = self.max_payload(&endpoint)?;
        let plain = self.plain(&endpoint)?;
        // Files are no pieces of a stream.
        let contents = plain.sessions.contents;
        let contents = if kind == PlainKind::Files { PlainContents::Messages } else { contents };
        let packer = Packer::new(self.framing, contents, max_payload);
        if !self.expect.is_empty() && !plain.sessions.confirms {
            return Err(Error::PlainUnconfirmed(plain_protocol(&self.protocol)?.0.name));
        }
        let context = BuildContext {
            members: self.expect.iter().copied().map(NodeId).collect(),
            ..context(&endpoint, &seeds, self.rate, max_payload)?
        };
        let machine = (plain.sessions.sender)(kind, &context, &plain.config)?;
        let outgoing = Outgoing {
            input: input().map_err(Error::NoThread)?,
            named: kind == PlainKind::Files,
            packer,
            packets: VecDeque::new(),
            messages: 0,
            bytes: 0,
            finished: false,
            failure: None,
        };
        Ok(PlainSendRun {
            expect: self.expect.clone(),
            linger: plain
                .sessions
                .linger
                .map_or(Duration::ZERO, |key| plain.config.span(key).at(context.bit_rate)),
            driver: Driver::new(endpoint, machine, outgoing, Tally::new(observer)),
            sent: None,
        })
    }
}

impl<O: Observer> PlainSendRun<O> {
    /// The driver.
    pub fn driver(&self) -> &Driver<dyn Machine, impl Application, Tally<O>> {
        &self.driver
    }

    /// Mutable access to the driver.
    pub fn driver_mut(&mut self) -> &mut Driver<dyn Machine, impl Application, Tally<O>> {
        &mut self.driver
    }

    /// Error that ended the run, if any.
    pub fn take_error(&mut self) -> Option<Error> {
        self.driver.application_mut().failure.take()
    }

    /// Time for which the sender still answers requests; `None` before everything was sent.
    pub fn lingers(&self) -> Option<Duration> {
        self.sent.map(|sent| self.linger.saturating_sub(self.driver.now().since(sent)))
    }

    /// The result so far.
    pub fn report(&mut self) -> PlainReport {
        let sender = self.driver.machine_mut().as_sender();
        let is_confirmed = |id: u32| sender.as_ref().is_some_and(|sender| !sender.awaits(NodeId(id)));
        let receivers = self.expect.iter().map(|&id| (id, is_confirmed(id))).collect();
        let (outgoing, stats) = (self.driver.application(), self.driver.stats());
        PlainReport {
            messages: outgoing.messages,
            bytes: outgoing.bytes,
            repairs: self.driver.observer().repairs,
            datagrams_sent: stats.datagrams_sent,
            datagrams_received: stats.datagrams_received,
            time: self.driver.now().since(Time::ZERO),
            receivers,
        }
    }

    /// Ends the run and returns its observer.
    pub fn into_observer(self) -> O {
        self.driver.into_parts().3.inner
    }
}

impl<O: Observer> Run for PlainSendRun<O> {
    fn step(&mut self, wait: Duration) -> Result<(), DriveError> {
        self.driver.step(wait)
    }

    fn update(&mut self) {
        if self.sent.is_none() && self.driver.is_finished() {
            self.sent = Some(self.driver.now());
        }
    }

    fn is_over(&self) -> bool {
        self.lingers().is_some_and(|rest| rest.is_zero()) || self.driver.application().failure.is_some()
    }

    fn needs_final_step(&self) -> bool {
        false
    }

    /// Sends what has been read, and announces the end without staying for requests.
    fn quit(&mut self, _reason: &str) {
        self.linger = self.linger.min(QUIT_LINGER);
        let now = self.driver.now();
        let machine = self.driver.machine_mut();
        if let Some(sender) = machine.as_sender() {
            sender.finish(now);
        }
        self.driver.application_mut().finished = true;
    }
}

impl Application for Outgoing {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let Some(sender) = machine.as_sender() else { return false };
        let mut called = false;
        while !self.finished && self.failure.is_none() && self.offer(now, sender, &mut called) {}
        called
    }
}

impl Outgoing {
    /// Offers the next packet or reads the next message. Returns false if neither is possible now.
    fn offer(&mut self, now: Time, sender: &mut dyn Sender, called: &mut bool) -> bool {
        if let Some(packet) = self.packets.front() {
            *called = true;
            match sender.offer(now, packet.clone()) {
                Ok(_) => drop(self.packets.pop_front()),
                Err(OfferError::Full) => return false,
                Err(error) => {
                    let error = LocalError::from(error).context("a message cannot be sent");
                    self.failure = Some(error.into());
                }
            }
            return true;
        }
        match self.input.try_recv() {
            Ok(Ok(message)) => {
                self.messages += 1;
                self.bytes += match self.named {
                    // Without the name.
                    true => NamedFile::content_len(&message),
                    false => message.len(),
                } as u64;
                self.packer.add(message, &mut self.packets);
            }
            Ok(Err(error)) => {
                let error = Err::<(), _>(error).context("cannot read the input").err();
                self.failure = error.map(|error| error.into());
            }
            // What has been read leaves before the input goes on.
            Err(reason) => {
                self.packer.flush(&mut self.packets);
                if !self.packets.is_empty() {
                    return true;
                }
                if reason == TryRecvError::Empty {
                    return false;
                }
                sender.finish(now);
                (self.finished, *called) = (true, true);
            }
        }
        true
    }
}

/// Maximum datagram on loopback, in bytes: other programs have buffers for a frame.
const LOOPBACK_DATAGRAM: usize = 1472;
/// Time for which an interrupted sender announces its end.
const QUIT_LINGER: Duration = Duration::from_millis(100);
