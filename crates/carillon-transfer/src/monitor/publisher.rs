//! The end's side of a monitor: when to tell, how fast it goes, and what it waits for.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use carillon_core::{Application, Duration, Machine, Observer, Time};
use carillon_net::{Backpressure, Driver};

use super::snapshot::TOO_MANY_PEERS;
use super::{Monitor, Snapshot, Traffic};
use crate::tally::Tally;

/// Why a sender sends nothing more just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Input,
    Rate,
    Interface,
    /// The protocol takes no more.
    Protocol,
}

/// What an end of this name tells a monitor.
#[derive(Debug)]
pub(crate) struct Publisher {
    monitor: Monitor,
    role: &'static str,
    name: String,
    /// What this end had told of transfers before.
    before: Option<Before>,
    next: Time,
    history: VecDeque<Sample>,
    kernel_drops: (Time, Option<u64>),
    meter: Meter,
}

/// What counts on from one transfer to the next.
#[derive(Debug)]
struct Before {
    bytes: u64,
    files: u64,
    transfers: (u64, u64),
    repairs: u64,
    dropped: BTreeMap<&'static str, u64>,
}

/// Bytes at some time: of all, on the way, and of each by name.
#[derive(Debug)]
struct Sample {
    at: Time,
    bytes: u64,
    sent: u64,
    each: BTreeMap<String, u64>,
}

/// How long it was kept from sending, and by what, since it was last told.
#[derive(Debug, Default)]
struct Meter {
    looked: Time,
    causes: [Duration; 4],
    began: Time,
    waited: Duration,
}

impl Publisher {
    pub fn new(monitor: &Option<Monitor>, role: &'static str, name: &str) -> Option<Self> {
        let monitor = monitor.clone()?;
        // Another end may have told it something that does not go on.
        let before = monitor.latest().filter(|last| last.role == role).map(|last| Before {
            bytes: last.bytes,
            files: last.files.unwrap_or(0),
            transfers: last.transfers.unwrap_or((0, 0)),
            repairs: last.repairs.unwrap_or(0),
            dropped: last.traffic.as_ref().map(|traffic| traffic.dropped.clone()).unwrap_or_default(),
        });
        Some(Publisher {
            monitor,
            role,
            name: name.to_owned(),
            before,
            next: Time::ZERO,
            history: VecDeque::new(),
            kernel_drops: (Time::ZERO, None),
            meter: Meter::default(),
        })
    }

    /// Whether it is time to tell.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Takes note of what keeps it from sending.
    pub fn look(&mut self, now: Time, cause: Cause) {
        let since = now.since(std::mem::replace(&mut self.meter.looked, now));
        self.meter.causes[cause as usize] += since;
    }

    /// What has kept it from sending most of the time since it was last told, and the part of that time in which it was
    /// at work, of one whose driver has waited so long in all.
    pub fn hindrance(&mut self, now: Time, waited: Duration) -> (Cause, f64) {
        let Meter { causes, began, waited: before, .. } = std::mem::take(&mut self.meter);
        let elapsed = now.since(began).as_secs_f64();
        let waiting = waited.saturating_sub(before).as_secs_f64();
        self.meter = Meter { looked: now, began: now, waited, ..Meter::default() };
        let all = [Cause::Input, Cause::Rate, Cause::Interface, Cause::Protocol];
        let most = all.into_iter().max_by_key(|&cause| causes[cause as usize]).unwrap_or(Cause::Protocol);
        (most, if elapsed > 0.0 { 1.0 - waiting / elapsed } else { 0.0 })
    }

    /// What all ends have in common.
    pub fn begin<M, A, O>(&mut self, driver: &Driver<M, A, Tally<O>>, is_over: bool) -> Snapshot
    where
        M: Machine + ?Sized,
        A: Application<M>,
        O: Observer,
    {
        let (now, endpoint, tally) = (driver.now(), driver.endpoint(), driver.observer());
        self.next = now + INTERVAL;
        // It takes a look through a table of the system's.
        if self.kernel_drops.0 <= now || is_over {
            self.kernel_drops = (now + KERNEL_INTERVAL, endpoint.kernel_drops());
        }
        let mut traffic = Traffic { kernel_drops: self.kernel_drops.1, ..Traffic::of(endpoint) };
        let before = self.before.as_ref();
        let own = tally.dropped();
        let dropped =
            before.into_iter().flat_map(|before| before.dropped.iter().map(|(&name, &count)| (name, count)));
        for (name, count) in own.chain(dropped.filter(|(name, _)| *name != TOO_MANY_PEERS)) {
            *traffic.dropped.entry(name).or_default() += count;
        }
        let mut snapshot = Snapshot::new(self.role);
        snapshot.name = self.name.clone();
        snapshot.group = Some(endpoint.group());
        snapshot.interface = Some(endpoint.interface().name.clone());
        snapshot.traffic = Some(traffic);
        snapshot.repairs = Some(tally.repairs + before.map_or(0, |before| before.repairs));
        snapshot
    }

    /// Takes in the bytes of this transfer, and how fast they come.
    pub fn progress(&mut self, now: Time, snapshot: &mut Snapshot, bytes: u64, is_running: bool) {
        snapshot.transfer_bytes = bytes;
        snapshot.has_bytes = true;
        snapshot.bytes = bytes + self.before.as_ref().map_or(0, |before| before.bytes);
        let sent = snapshot.traffic.as_ref().map_or(0, |traffic| traffic.bytes_sent);
        let each = |view: &super::ReceiverView| Some((view.name.clone(), view.bytes?));
        let each: BTreeMap<String, u64> = snapshot.receivers.iter().filter_map(each).collect();
        let sample = Sample { at: now, bytes, sent, each };
        if !is_running {
            // What it begins with is what there was before.
            self.history = [sample].into();
            return;
        }
        if let Some(oldest) = self.history.front() {
            let span = now.since(oldest.at).as_secs_f64();
            let rate =
                |bytes: u64, before: u64| (span > 0.0).then(|| bytes.saturating_sub(before) as f64 / span);
            snapshot.rate = rate(bytes, oldest.bytes);
            snapshot.sent_rate = rate(sent, oldest.sent);
            for view in &mut snapshot.receivers {
                let before = oldest.each.get(&view.name);
                let is_receiving = view.state == "receiving";
                view.rate = view
                    .bytes
                    .zip(before)
                    .filter(|_| is_receiving)
                    .and_then(|(bytes, &before)| rate(bytes, before));
            }
        }
        if self.history.back().is_none_or(|last| now.since(last.at) >= SAMPLE_INTERVAL) {
            self.history.push_back(sample);
        }
        while self.history.len() > SAMPLES {
            self.history.pop_front();
        }
    }

    /// Takes in how many files there are and whether the transfer has ended, and how.
    pub fn completed(&self, snapshot: &mut Snapshot, files: Option<u64>, ended: Option<bool>) {
        let (before, transfers) =
            self.before.as_ref().map_or((0, (0, 0)), |before| (before.files, before.transfers));
        snapshot.files = files.map(|files| files + before);
        let is = |outcome| u64::from(ended == Some(outcome));
        snapshot.transfers = Some((transfers.0 + is(true), transfers.1 + is(false)));
    }

    pub fn put(&self, mut snapshot: Snapshot) {
        snapshot.taken = SystemTime::now();
        self.monitor.put(snapshot);
    }
}

impl From<Option<Backpressure>> for Cause {
    fn from(held: Option<Backpressure>) -> Self {
        match held {
            Some(Backpressure::Socket) => Cause::Interface,
            Some(Backpressure::Rate) => Cause::Rate,
            None => Cause::Protocol,
        }
    }
}

/// How often a monitor is told.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);
const KERNEL_INTERVAL: Duration = Duration::from_secs(1);
/// A rate is that since the oldest of these, so many seconds: receivers say a few times a second at most what they have.
const SAMPLES: usize = 5;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
