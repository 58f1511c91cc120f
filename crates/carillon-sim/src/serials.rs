//! Serial numbers of the events of one part of a world, in the order in which the whole world would queue them.
//!
//! Events of equal time happen in the order in which they were queued. A part of a world knows that order for its own
//! events only. The order among all parts is known at the end of each window, when the merge numbers what every part
//! has queued in it.

/// Place of a queued event in [`Serials`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Slot of an event in a world that is not divided.
    pub(crate) const OF_WHOLE: Slot = Slot(u32::MAX);
}

/// Event that a part has queued in the current window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Event in a queue of the part.
    Own(Slot),
    /// Packet for another part, with its index among those of this window.
    Crossing(u32),
}

/// Serial numbers of queued events.
#[derive(Debug, Default)]
pub(crate) struct Serials {
    numbers: Vec<u64>,
    free: Vec<Slot>,
    /// Slots of events that happened in this window. They keep their numbers until the merge has read them.
    spent: Vec<Slot>,
    queued: Vec<Queued>,
}

/// Number of an event that was queued in the current window, so after all events that have one.
const UNKNOWN: u64 = u64::MAX;

impl Serials {
    /// Notes an event that is queued now.
    pub(crate) fn queue(&mut self) -> Slot {
        let slot = self.add(UNKNOWN);
        self.queued.push(Queued::Own(slot));
        slot
    }

    /// Notes an event for another part.
    pub(crate) fn queue_crossing(&mut self, index: usize) {
        self.queued.push(Queued::Crossing(index as u32));
    }

    /// Adds an event with a known number, from another part.
    pub(crate) fn add(&mut self, number: u64) -> Slot {
        match self.free.pop() {
            Some(slot) => {
                self.numbers[slot.0 as usize] = number;
                slot
            }
            None => {
                self.numbers.push(number);
                Slot(self.numbers.len() as u32 - 1)
            }
        }
    }

    /// Notes that an event happens now.
    pub(crate) fn take(&mut self, slot: Slot) {
        self.spent.push(slot);
    }

    /// Number of an event.
    pub(crate) fn number(&self, slot: Slot) -> u64 {
        self.numbers[slot.0 as usize]
    }

    /// Sets the number of an event of this window.
    pub(crate) fn set(&mut self, slot: Slot, number: u64) {
        self.numbers[slot.0 as usize] = number;
    }

    /// Number of events queued in this window so far.
    pub(crate) fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Event with this index among those queued in this window.
    pub(crate) fn queued_at(&self, index: usize) -> Queued {
        self.queued[index]
    }

    /// Forgets the first `count` events queued in this window, which have their numbers. Returns the number of packets
    /// for other parts among them. Slots stay in use until the window ends.
    pub(crate) fn forget(&mut self, count: usize) -> usize {
        let is_crossing = |queued: &Queued| matches!(queued, Queued::Crossing(_));
        let crossings = self.queued.drain(..count).filter(is_crossing).count();
        for queued in &mut self.queued {
            if let Queued::Crossing(index) = queued {
                *index -= crossings as u32;
            }
        }
        crossings
    }

    /// Ends the window: the slots of past events may be used again.
    pub(crate) fn end_window(&mut self) {
        self.queued.clear();
        self.free.append(&mut self.spent);
    }
}
