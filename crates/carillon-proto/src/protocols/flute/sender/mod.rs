//! The FLUTE sender: a carousel of files, with the table that names them.

mod pass;
mod table;
#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, MessageId, ObservedState, OfferError, Received, Role,
    TokenBucket, Transmit,
};
use carillon_wire::alc::{Extensions, Identifiers, Packet};
use carillon_wire::fdt::{File, MAX_FILES};

use super::config::Shape;
use super::content::{gzip, md5};
use super::states::STATES;
use crate::blocks::{MachineContext, Part, Player};
use crate::plain::NamedFile;
use pass::Pass;
use table::Table;

type Context = MachineContext<Timer>;

/// Sends files several times each.
#[derive(Debug)]
pub struct FluteSender {
    policy: Policy,
    /// Files in transmission; the first one is sent, and then goes to the end until all its passes are done.
    carousel: VecDeque<Outgoing>,
    /// Progress in the first file.
    pass: Option<Pass>,
    table: Table,
    /// Number of the next message, one less than that of its object.
    next: u64,
    pace: TokenBucket,
    phase: Phase,
}

/// Settings of the sender.
#[derive(Clone, Copy, Debug)]
struct Policy {
    shape: Shape,
    tsi: u64,
    /// True if messages are named files.
    named: bool,
    carousel: u64,
    compresses: bool,
    buffer: u64,
    close_packets: u64,
    close_interval: Duration,
    link_overhead: u64,
}

/// File in transmission.
#[derive(Debug)]
struct Outgoing {
    message: MessageId,
    file: File,
    object: Bytes,
    /// Number of passes that are left.
    left: u64,
    /// True before its first pass.
    is_new: bool,
}

/// Phase of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Further files may follow.
    Open,
    /// The host has finished.
    Finishing,
    /// Everything was sent; this number of packets that announce the end is left.
    Closing(u64),
    Closed,
}

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The rate limit allows the next packet.
    Pace,
    /// The next packet that announces the end is due.
    Close,
}

impl FluteSender {
    /// Creates the sender of a session. `named` says whether messages are [named files](NamedFile).
    pub fn new(named: bool, build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let rate = settings.rate("rate");
        let burst = settings.size("burst").0;
        let tsi = match settings.count("tsi") {
            0 => Identifiers::session_of(build.association),
            tsi => tsi,
        };
        let close_interval = settings.span("close_interval").at(build.bit_rate);
        if close_interval.is_zero() {
            return Err(ConfigError::Conflict("close_interval must be more than zero".to_owned()));
        }
        Ok(FluteSender {
            policy: Policy {
                shape: Shape::new(settings, build.max_payload)?,
                tsi,
                named,
                carousel: settings.count("carousel"),
                compresses: settings.choice("content_encoding") == "gzip",
                buffer: settings.size("send_buffer").0,
                close_packets: settings.count("close_packets"),
                close_interval,
                link_overhead: build.link_overhead.into(),
            },
            carousel: VecDeque::new(),
            pass: None,
            table: Table::new(settings, build),
            next: 0,
            pace: TokenBucket::new(rate, rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst))),
            phase: Phase::Open,
        }
        .play(build))
    }

    /// Makes an object of a message.
    fn outgoing(&self, payload: Bytes) -> Result<Outgoing, OfferError> {
        let named = match self.policy.named {
            true => NamedFile::parse(payload),
            false => Some(NamedFile { name: String::new(), content: payload }),
        };
        // Anything else is the content of a file without a name.
        let NamedFile { name, content } = named.unwrap_or_default();
        let toi = u128::from(self.next) + 1;
        let object = if self.policy.compresses { gzip(&content).into() } else { content.clone() };
        let length = object.len() as u64;
        let too_large = OfferError::TooLarge { len: object.len(), max: MAX_OBJECT };
        let transmission = self.policy.shape.transmission(length).ok_or(too_large)?;
        let file = File {
            toi,
            location: if name.is_empty() { format!("file:///{toi}") } else { name },
            content_length: Some(content.len() as u64),
            transfer_length: Some(length),
            encoding: if self.policy.compresses { "gzip".to_owned() } else { String::new() },
            // As deployed: the digest of the file and not that of the compressed object.
            md5: Some(md5(&content)),
            fec: Some((transmission.symbol, transmission.code)),
        };
        let message = MessageId(self.next);
        Ok(Outgoing { message, file, object, left: self.policy.carousel, is_new: true })
    }

    /// Sends the next packet of the table, if one is due.
    fn emit_table(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let identifiers = Identifiers::new(self.policy.tsi, Some(Packet::FDT));
        self.table.emit(context.now, identifiers, self.policy.shape.symbol, buf)?;
        context.events.control("fdt", 0u64);
        Some(context.to_group())
    }

    /// Sends the next symbol of the first file.
    fn emit_symbol(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let outgoing = self.carousel.front_mut()?;
        let transmission = outgoing.file.transmission()?;
        let pass =
            self.pass.get_or_insert_with(|| Pass::new(transmission, self.policy.shape.parity as usize));
        let (id, symbol, is_last) = pass.next(&outgoing.object);
        let encoding = transmission.code.encoding();
        let (mut extensions, mut payload) = (Vec::with_capacity(16), Vec::with_capacity(8 + symbol.len()));
        // Of an empty object only the table tells: the crate `flute` would finish it before it knows the name.
        if transmission.length > 0 {
            Extensions::push_transmission(&mut extensions, &transmission);
        }
        encoding.push_id(&mut payload, id);
        payload.extend_from_slice(&symbol);
        let identifiers = Identifiers::new(self.policy.tsi, Some(outgoing.file.toi));
        let packet = Packet {
            // Only where nothing follows: receivers give up an object that is not complete then.
            closes_object: is_last && outgoing.left == 1,
            // Extensions that were just written are whole.
            extensions: Extensions::new(&extensions).unwrap_or_default(),
            payload: &payload,
            ..Packet::new(identifiers, encoding.id())
        };
        packet.emit(buf);
        self.table.on_symbol();
        let (message, is_first) = (outgoing.message, id.block == 0 && id.symbol == 0);
        let is_repair = !std::mem::take(&mut outgoing.is_new);
        if is_last {
            self.end_pass();
        }
        let to_group = context.to_group();
        Some(match is_first {
            true => context.events.data_sent(to_group, message, buf.len(), is_repair),
            false => {
                context.events.control("symbol", message);
                to_group
            }
        })
    }

    /// Ends a pass: the next file is sent, and this one again later.
    fn end_pass(&mut self) {
        self.pass = None;
        let Some(mut outgoing) = self.carousel.pop_front() else { return };
        outgoing.left -= 1;
        if outgoing.left > 0 {
            self.carousel.push_back(outgoing);
        }
        match self.carousel.is_empty() {
            // The last table may have been lost.
            true => self.table.repeat(),
            false => self.table.announce_between(),
        }
    }

    fn emit_close(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let Phase::Closing(left) = self.phase else { return None };
        if context.timers.armed(Timer::Close).is_some() {
            return None;
        }
        let identifiers = Identifiers::new(self.policy.tsi, None);
        Packet { closes_session: true, ..Packet::new(identifiers, 0) }.emit(buf);
        context.events.control("close", 0u64);
        self.phase = match left {
            0 | 1 => Phase::Closed,
            left => {
                context.timers.arm(Timer::Close, context.now + self.policy.close_interval);
                Phase::Closing(left - 1)
            }
        };
        Some(context.to_group())
    }

    /// Renews the table before anything that it does not list.
    fn update_table(&mut self, context: &Context) {
        let is_last = self.phase != Phase::Open;
        self.table.update(context.now, is_last, self.carousel.iter().map(|outgoing| &outgoing.file));
    }

    fn has_work(&self) -> bool {
        !self.carousel.is_empty()
            || self.table.is_due()
            || matches!(self.phase, Phase::Finishing | Phase::Closing(_))
    }
}

impl Part for FluteSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.carousel.len() as u64)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let state = match self.phase {
            Phase::Open => "Open",
            Phase::Finishing => "Finishing",
            Phase::Closing(_) => "Closing",
            Phase::Closed => "Closed",
        };
        tell(ObservedState { of: STATES[0].of, about: 0, state, turn: 0 });
    }

    // Nothing comes back in FLUTE.
    fn handle_datagram(&mut self, context: &mut Context, _datagram: Received<'_>) {
        context.events.dropped(DropReason::Foreign);
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(at) = self.pace.ready_at(context.now) {
            if self.has_work() {
                context.timers.arm(Timer::Pace, at);
            }
            return None;
        }
        if !self.carousel.is_empty() {
            self.update_table(context);
        }
        let transmit = self.emit_table(context, buf).or_else(|| self.emit_symbol(context, buf));
        if transmit.is_none() && self.phase == Phase::Finishing {
            self.phase = Phase::Closing(self.policy.close_packets);
        }
        let transmit = transmit.or_else(|| self.emit_close(context, buf));
        if transmit.is_some() {
            self.pace.spend(context.now, buf.len() as u64 + self.policy.link_overhead);
        }
        transmit
    }

    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.phase != Phase::Open {
            return Err(OfferError::Finished);
        }
        let held: u64 = self.carousel.iter().map(|outgoing| outgoing.object.len() as u64).sum();
        let is_full =
            held + payload.len() as u64 > self.policy.buffer || self.carousel.len() >= MAX_FILES / 2;
        if is_full && !self.carousel.is_empty() {
            return Err(OfferError::Full);
        }
        let outgoing = self.outgoing(payload)?;
        self.carousel.push_back(outgoing);
        self.table.change();
        self.next += 1;
        Ok(MessageId(self.next - 1))
    }

    fn finish(&mut self, _context: &mut Context) {
        if self.phase == Phase::Open {
            self.phase = Phase::Finishing;
            self.table.change();
        }
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Closed
    }
}

/// Maximum bytes of an object, by which errors explain the limits of its code.
const MAX_OBJECT: usize = 1 << 30;
