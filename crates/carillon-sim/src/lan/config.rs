//! Parameters of a shared medium, an Ethernet or a radio.

use std::num::NonZeroU32;
use std::time::Duration;

use carillon_core::{BitRate, Probability};

use crate::network::TimerRule;

/// Parameters of the medium.
#[derive(Clone, Debug)]
pub struct LanConfig {
    /// Bit rate.
    pub bit_rate: BitRate,
    /// Interframe gap: idle bit times before each transmission.
    pub interframe_gap_bits: u64,
    /// Propagation delay between any two stations; at most half a slot.
    pub propagation_delay: Duration,
    /// Bytes that a frame adds to a datagram: 14 of header and 4 of frame check sequence.
    pub frame_overhead: u32,
    /// Minimum frame in bytes; shorter ones are padded.
    pub min_frame: u32,
    /// Duration of a collision in bit times.
    pub collision_bits: u64,
    /// Back-off slot in bit times.
    pub slot_bits: u64,
    /// Maximum number of attempts, after which a frame is discarded.
    pub max_attempts: u32,
    /// Limit of the back-off exponent: the wait after attempt i is drawn from 0 to 2^min(i, limit) slots.
    pub backoff_limit: u32,
    /// True if the range includes its upper end, as the thesis words it. Standard Ethernet excludes it, and only then
    /// do the thesis's own numbers result.
    pub backoff_inclusive: bool,
    /// Maximum number of frames in a station's port, including the one in contention; a machine with more to send
    /// waits, as at a full socket. `None` is the thesis's transmit queue, which has no bound (section 3.2).
    pub port_queue: Option<NonZeroU32>,
    /// Loss probability at each interface, for each transmission attempt and each reception (section 3.4).
    pub loss: Probability,
    /// Further losses of this kind, with the name of their streams.
    pub further_loss: Vec<(Probability, String)>,
    /// Rule for the handling of timers.
    pub timers: TimerRule,
    /// Half-duplex radio instead of an Ethernet; the fields about collisions and back-off then have no effect.
    pub radio: Option<RadioConfig>,
}

impl Default for LanConfig {
    fn default() -> Self {
        LanConfig {
            bit_rate: BitRate::mbps(10),
            interframe_gap_bits: 0,
            propagation_delay: Duration::ZERO,
            frame_overhead: 18,
            min_frame: 64,
            collision_bits: 32,
            slot_bits: 512,
            max_attempts: 16,
            backoff_limit: 10,
            backoff_inclusive: false,
            port_queue: None,
            loss: Probability::ZERO,
            further_loss: Vec::new(),
            timers: TimerRule::Exact,
            radio: None,
        }
    }
}

/// Parameters of a radio, beside those that it shares with an Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioConfig {
    /// Time in which a station turns from receiving to sending, and back.
    pub turnaround: Duration,
    /// Range of the random number of slots before a station senses the channel.
    pub contention_slots: u64,
}
