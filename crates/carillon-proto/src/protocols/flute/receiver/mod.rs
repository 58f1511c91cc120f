//! The FLUTE receiver of one session: files by their names, from the table and from symbols that arrive in any order.

mod assembly;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, MessageId, ObservedState, Received, Role, Time,
};
use carillon_wire::alc::{Encoding, Packet, Transmission};
use carillon_wire::fdt::{Fdt, File};

use super::content::{ContentEncoding, md5};
use super::states::STATES;
use crate::blocks::{MachineContext, Part, Player};
use crate::plain::NamedFile;
use assembly::{Added, Assembly, SYMBOL_OVERHEAD};
use tables::Tables;

type Context = MachineContext<Timer>;

/// Receives the files of a session.
#[derive(Debug)]
pub struct FluteReceiver {
    tsi: u64,
    /// True if deliveries are named files, and not their contents alone.
    named: bool,
    policy: Policy,
    tables: Tables,
    /// Files of the tables that have not been delivered.
    files: BTreeMap<u128, File>,
    objects: BTreeMap<u128, Object>,
    /// Objects that have been delivered.
    delivered: BTreeSet<u128>,
    /// Bytes of the deliveries that the application has not taken.
    waiting: usize,
    phase: Phase,
}

/// Settings of the receiver.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Maximum bytes of all objects together.
    memory: usize,
    /// Maximum bytes of an object, as it is sent and as it is delivered.
    object: usize,
    close_wait: Duration,
}

/// Object without its file.
#[derive(Debug)]
struct Object {
    state: ObjectState,
    touched: Time,
}

#[derive(Debug)]
enum ObjectState {
    Assembling(Assembly),
    /// Complete, but no table has named it yet.
    Nameless(Vec<u8>),
}

/// Phase of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The sender has announced its end; late packets may follow.
    Closing,
    Closed,
}

/// Timers of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// End of the wait for late packets.
    Close,
}

impl FluteReceiver {
    /// Creates the receiver of a session with this identifier. `named` says whether it delivers
    /// [named files](NamedFile).
    pub fn new(
        tsi: u64,
        named: bool,
        build: &BuildContext,
        settings: &Config,
    ) -> Result<Player<Self>, ConfigError> {
        let memory = build.memory.min(MAX_MEMORY);
        Ok(FluteReceiver {
            tsi,
            named,
            // An object is there twice while it is put together or decoded, but then its symbols are gone.
            policy: Policy {
                memory: memory / 2,
                object: memory / 2,
                close_wait: settings.span("close_wait").at(build.bit_rate),
            },
            tables: Tables::new(settings.count("clock") as u32),
            files: BTreeMap::new(),
            objects: BTreeMap::new(),
            delivered: BTreeSet::new(),
            waiting: 0,
            phase: Phase::Open,
        }
        .play(build))
    }

    fn used(&self) -> usize {
        self.objects.values().map(Object::memory).sum::<usize>() + self.waiting
    }

    fn on_symbol(&mut self, context: &mut Context, toi: u128, packet: &Packet<'_>) -> Result<(), DropReason> {
        if self.delivered.contains(&toi) {
            return Err(DropReason::Duplicate);
        }
        let encoding = Encoding::of(packet.codepoint).ok_or(DropReason::Malformed)?;
        let (id, symbol) = encoding.split(packet.payload).ok_or(DropReason::Malformed)?;
        let room = usize::from(u16::MAX).min(symbol.len()) + SYMBOL_OVERHEAD;
        if self.used() + room > self.policy.memory && !self.make_room(context.now, toi) {
            return Err(DropReason::BufferFull);
        }
        if !self.objects.contains_key(&toi) {
            let listed = || self.files.get(&toi).and_then(File::transmission);
            let transmission = packet.extensions.transmission(encoding).or_else(listed);
            // The table may follow, and the object is sent again.
            let transmission = transmission.ok_or(DropReason::OutOfOrder)?;
            self.open(context.now, toi, transmission)?;
        }
        let Some(object) = self.objects.get_mut(&toi) else { return Err(DropReason::BufferFull) };
        object.touched = context.now;
        let ObjectState::Assembling(assembly) = &mut object.state else { return Err(DropReason::Duplicate) };
        if assembly.transmission().code.encoding() != encoding {
            return Err(DropReason::Malformed);
        }
        match (assembly.transmission().length, assembly.add(id, symbol)) {
            (0, _) | (_, Added::New) => {}
            (_, Added::Duplicate) => return Err(DropReason::Duplicate),
            (_, Added::Invalid) => return Err(DropReason::Malformed),
        }
        context.events.received("symbol", number(toi));
        if assembly.is_complete() {
            self.on_complete(context, toi);
        }
        Ok(())
    }

    /// Begins an object.
    fn open(&mut self, now: Time, toi: u128, transmission: Transmission) -> Result<(), DropReason> {
        if self.objects.len() >= MAX_OBJECTS || transmission.length > self.policy.object as u64 {
            return Err(DropReason::BufferFull);
        }
        let assembly = Assembly::new(transmission).ok_or(DropReason::Malformed)?;
        self.objects.insert(toi, Object { state: ObjectState::Assembling(assembly), touched: now });
        Ok(())
    }

    /// Drops the object that has been silent longest, if that is long enough and it is another one.
    fn make_room(&mut self, now: Time, toi: u128) -> bool {
        let oldest = self.objects.iter().min_by_key(|(_, object)| object.touched);
        let Some((&oldest, object)) = oldest else { return false };
        let is_idle = oldest != toi && now.since(object.touched) >= IDLE;
        if is_idle {
            self.objects.remove(&oldest);
        }
        is_idle
    }

    /// Takes a complete object apart from its symbols, and delivers it if a table names it.
    fn on_complete(&mut self, context: &mut Context, toi: u128) {
        let Some(object) = self.objects.remove(&toi) else { return };
        let bytes = match object.state {
            ObjectState::Assembling(assembly) => assembly.into_object(),
            ObjectState::Nameless(bytes) => bytes,
        };
        let Some(file) = self.files.get(&toi) else {
            let state = ObjectState::Nameless(bytes);
            self.objects.insert(toi, Object { state, ..object });
            return;
        };
        match content(file, bytes, self.policy.object) {
            Some(content) => self.deliver(context, toi, content),
            // It is sent again, perhaps without the damage.
            None => context.events.dropped(DropReason::Malformed),
        }
    }

    fn deliver(&mut self, context: &mut Context, toi: u128, content: Vec<u8>) {
        let Some(file) = self.files.remove(&toi) else { return };
        let payload = match self.named {
            true => NamedFile { name: file.location, content: content.into() }.into_message(),
            false => content.into(),
        };
        self.waiting += payload.len();
        self.delivered.insert(toi);
        if self.delivered.len() > MAX_DELIVERED {
            self.delivered.pop_first();
        }
        context.deliver_sent(number(toi), payload);
    }

    fn on_table(&mut self, context: &mut Context, packet: &Packet<'_>) -> Result<(), DropReason> {
        let table = self.tables.add(context.now, packet)?;
        context.events.received("fdt", 0u64);
        if let Some(fdt) = table {
            self.merge(context, fdt);
        }
        Ok(())
    }

    /// Adds the files of a table.
    fn merge(&mut self, context: &mut Context, fdt: Fdt) {
        let new: Vec<File> =
            fdt.files.into_iter().filter(|file| !self.delivered.contains(&file.toi)).collect();
        let size = |file: &File| file.location.len() + FILE_OVERHEAD;
        let total = self.files.values().chain(&new).map(size).sum::<usize>();
        if total > MAX_TABLE_BYTES {
            // Forged tables may list other files without end: only those of the last one are kept.
            self.files.clear();
        }
        for file in new {
            let (toi, length) = (file.toi, file.transfer_length.or(file.content_length));
            self.files.insert(toi, file);
            let is_empty = length == Some(0) && !self.objects.contains_key(&toi);
            let is_whole = self.objects.get(&toi).is_some_and(|object| !object.is_assembling());
            if is_empty {
                let state = ObjectState::Nameless(Vec::new());
                self.objects.insert(toi, Object { state, touched: context.now });
            }
            if is_empty || is_whole {
                self.on_complete(context, toi);
            }
        }
    }

    fn on_end(&mut self, context: &mut Context) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closing;
            context.timers.arm(Timer::Close, context.now + self.policy.close_wait);
        }
        if self.files.is_empty() && self.objects.is_empty() {
            self.close(context);
        }
    }

    /// Ends the session. What is not complete is lost.
    fn close(&mut self, context: &mut Context) {
        self.phase = Phase::Closed;
        context.timers.cancel(Timer::Close);
        let lost: BTreeSet<u128> = self.files.keys().chain(self.objects.keys()).copied().collect();
        for toi in lost {
            context.events.loss_found(context.sender, number(toi));
            context.events.loss_final(context.sender, MessageId(number(toi)));
        }
        (self.files, self.objects) = (BTreeMap::new(), BTreeMap::new());
    }
}

impl Object {
    fn memory(&self) -> usize {
        OBJECT_OVERHEAD
            + match &self.state {
                ObjectState::Assembling(assembly) => assembly.memory(),
                ObjectState::Nameless(bytes) => bytes.len(),
            }
    }

    fn is_assembling(&self) -> bool {
        matches!(self.state, ObjectState::Assembling(_))
    }
}

/// Contents of a file from its object; `None` if they are not valid or too long.
fn content(file: &File, object: Vec<u8>, max: usize) -> Option<Vec<u8>> {
    // Senders differ in whether the digest is that of the object or of its decoded contents.
    let is_intact = file.md5.is_none_or(|digest| md5(&object) == digest);
    let content = ContentEncoding::named(&file.encoding)?.decode(object, max)?;
    let is_intact = is_intact || file.md5.is_none_or(|digest| md5(&content) == digest);
    let has_length = file.content_length.is_none_or(|length| length == content.len() as u64);
    (is_intact && has_length).then_some(content)
}

/// Number of the message that an object carries.
fn number(toi: u128) -> u64 {
    (toi as u64).wrapping_sub(1)
}

impl Part for FluteReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.objects.len() as u64)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let state = match self.phase {
            Phase::Open => "Open",
            Phase::Closing => "Closing",
            Phase::Closed => "Closed",
        };
        tell(ObservedState { of: STATES[1].of, about: 0, state, turn: 0 });
    }

    fn on_timer(&mut self, context: &mut Context, Timer::Close: Timer) {
        self.close(context);
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Ok(packet) = Packet::parse(datagram.bytes) else {
            return context.events.dropped(DropReason::Malformed);
        };
        if packet.identifiers.tsi() != Some(self.tsi) {
            return context.events.dropped(DropReason::Foreign);
        }
        if datagram.source != context.sender || self.phase == Phase::Closed {
            return context.events.dropped(DropReason::NotAMember);
        }
        let handled = match packet.identifiers.toi() {
            _ if packet.payload.is_empty() => Ok(()),
            Some(Packet::FDT) => self.on_table(context, &packet),
            Some(toi) => self.on_symbol(context, toi, &packet),
            None => Ok(()),
        };
        if let Err(reason) = handled {
            context.events.dropped(reason);
        }
        match packet.closes_session {
            true => self.on_end(context),
            // Late packets of this session, or the first ones of another with the same identifier.
            false if self.phase == Phase::Closing => {
                context.timers.arm(Timer::Close, context.now + self.policy.close_wait);
            }
            false => {}
        }
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.waiting -= delivery.payload.len();
        Some(delivery)
    }

    /// The session is complete when it has ended, or when a table has said that it lists all files that are left, and
    /// all have arrived.
    fn is_complete(&self) -> bool {
        self.phase == Phase::Closed || self.tables.are_complete() && self.files.is_empty()
    }
}

/// Maximum memory, whatever the host allows.
const MAX_MEMORY: usize = usize::MAX >> 8;
/// Maximum number of objects in assembly.
const MAX_OBJECTS: usize = 1024;
/// Maximum number of delivered objects that are remembered, so that they are not delivered again.
const MAX_DELIVERED: usize = 65_536;
/// Maximum bytes of the files that tables list.
const MAX_TABLE_BYTES: usize = 4 << 20;
/// Bytes by which a file in a table is counted, besides its name.
const FILE_OVERHEAD: usize = 256;
/// Bytes by which an object is counted, besides its symbols.
const OBJECT_OVERHEAD: usize = 256;
/// Time without a symbol after which an object may make room for others.
const IDLE: Duration = Duration::from_secs(5);
