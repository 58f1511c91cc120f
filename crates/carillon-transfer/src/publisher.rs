//! Publishes snapshots of an end: interval, rates, and the limiting factor.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use carillon_core::{Application, Duration, Machine, Observer, Time};
use carillon_monitor::{Monitor, ReceiverView, Snapshot, Traffic};
use carillon_net::{Backpressure, Driver, Endpoint};

use crate::tally::Tally;

/// Reason why a sender sends nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Input,
    Rate,
    Interface,
    /// The protocol accepts no more data.
    Protocol,
}

/// Builds the snapshots of one end for its monitor.
#[derive(Debug)]
pub(crate) struct Publisher {
    monitor: Monitor,
    role: &'static str,
    name: String,
    /// Totals of this end's earlier transfers.
    before: Option<Before>,
    next: Time,
    history: VecDeque<Sample>,
    kernel_drops: (Time, Option<u64>),
    meter: Meter,
}

/// Totals that continue from one transfer to the next.
#[derive(Debug)]
struct Before {
    bytes: u64,
    files: u64,
    transfers: (u64, u64),
    repairs: u64,
    dropped: BTreeMap<&'static str, u64>,
}

/// Byte counters at one time: delivered, sent, and per receiver.
#[derive(Debug)]
struct Sample {
    at: Time,
    bytes: u64,
    sent: u64,
    each: BTreeMap<String, u64>,
}

/// Time per limiting factor since the last snapshot.
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
        // The previous snapshot may come from another role, without totals to continue.
        let before = monitor.latest().filter(|last| last.role == role).map(|last| Before {
            bytes: last.amounts.bytes,
            files: last.amounts.files.unwrap_or(0),
            transfers: last.amounts.transfers.unwrap_or((0, 0)),
            repairs: last.amounts.repairs.unwrap_or(0),
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

    /// Returns true if a snapshot is due.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Adds the time since the last call to the current limiting factor.
    pub fn look(&mut self, now: Time, cause: Cause) {
        let since = now.since(std::mem::replace(&mut self.meter.looked, now));
        self.meter.causes[cause as usize] += since;
    }

    /// Returns the factor that limited the sender for most of the interval, and the share of the interval in which
    /// the sender was busy. `waited` is the driver's total waiting time.
    pub fn hindrance(&mut self, now: Time, waited: Duration) -> (Cause, f64) {
        let Meter { causes, began, waited: before, .. } = std::mem::take(&mut self.meter);
        let elapsed = now.since(began).as_secs_f64();
        let waiting = waited.saturating_sub(before).as_secs_f64();
        self.meter = Meter { looked: now, began: now, waited, ..Meter::default() };
        let all = [Cause::Input, Cause::Rate, Cause::Interface, Cause::Protocol];
        let most = all.into_iter().max_by_key(|&cause| causes[cause as usize]).unwrap_or(Cause::Protocol);
        (most, if elapsed > 0.0 { 1.0 - waiting / elapsed } else { 0.0 })
    }

    /// Begins a snapshot with the fields that all ends have.
    pub fn begin<M, A, O>(&mut self, driver: &Driver<M, A, Tally<O>>, is_over: bool) -> Snapshot
    where
        M: Machine + ?Sized,
        A: Application<M>,
        O: Observer,
    {
        let (now, endpoint, tally) = (driver.now(), driver.endpoint(), driver.observer());
        self.next = now + INTERVAL;
        // Reading this counter scans a table of the kernel.
        if self.kernel_drops.0 <= now || is_over {
            self.kernel_drops = (now + KERNEL_INTERVAL, endpoint.kernel_drops());
        }
        let mut traffic = traffic_of(endpoint);
        traffic.kernel_drops = self.kernel_drops.1;
        let before = self.before.as_ref();
        let own = tally.dropped();
        let dropped =
            before.into_iter().flat_map(|before| before.dropped.iter().map(|(&name, &count)| (name, count)));
        for (name, count) in own.chain(dropped.filter(|(name, _)| !SOCKET_REASONS.contains(name))) {
            *traffic.dropped.entry(name).or_default() += count;
        }
        let mut snapshot = Snapshot::new(self.role);
        snapshot.name = self.name.clone();
        snapshot.group = Some(endpoint.group());
        let interfaces: Vec<&str> = endpoint.interfaces().map(|one| &*one.name).collect();
        snapshot.interface = Some(interfaces.join(", "));
        snapshot.traffic = Some(traffic);
        snapshot.amounts.repairs = Some(tally.repairs + before.map_or(0, |before| before.repairs));
        snapshot
    }

    /// Sets byte counters and rates.
    pub fn progress(&mut self, now: Time, snapshot: &mut Snapshot, bytes: u64, is_running: bool) {
        snapshot.amounts.transfer_bytes = bytes;
        snapshot.amounts.has_bytes = true;
        snapshot.amounts.bytes = bytes + self.before.as_ref().map_or(0, |before| before.bytes);
        let sent = snapshot.traffic.as_ref().map_or(0, |traffic| traffic.bytes_sent);
        let each = |view: &ReceiverView| Some((view.name.clone(), view.bytes?));
        let each: BTreeMap<String, u64> = snapshot.receivers.iter().filter_map(each).collect();
        let sample = Sample { at: now, bytes, sent, each };
        if !is_running {
            // Bytes from an earlier attempt count as present at the start.
            self.history = [sample].into();
            return;
        }
        if let Some(oldest) = self.history.front() {
            let span = now.since(oldest.at).as_secs_f64();
            let rate =
                |bytes: u64, before: u64| (span > 0.0).then(|| bytes.saturating_sub(before) as f64 / span);
            snapshot.amounts.rate = rate(bytes, oldest.bytes);
            snapshot.amounts.sent_rate = rate(sent, oldest.sent);
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

    /// Sets the file count and the result of the transfer.
    pub fn completed(&self, snapshot: &mut Snapshot, files: Option<u64>, ended: Option<bool>) {
        let (before, transfers) =
            self.before.as_ref().map_or((0, (0, 0)), |before| (before.files, before.transfers));
        snapshot.amounts.files = files.map(|files| files + before);
        let is = |outcome| u64::from(ended == Some(outcome));
        snapshot.amounts.transfers = Some((transfers.0 + is(true), transfers.1 + is(false)));
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

/// Counters of this endpoint, without the drops of its state machine.
fn traffic_of(endpoint: &Endpoint) -> Traffic {
    let stats = endpoint.stats();
    let headers = if endpoint.group().is_ipv4() { 20 + 8 } else { 40 + 8 };
    let mut traffic = Traffic::default();
    traffic.datagrams_sent = stats.datagrams_sent;
    traffic.bytes_sent = stats.bytes_sent;
    traffic.ip_bytes_sent = stats.bytes_sent + headers * stats.datagrams_sent;
    traffic.datagrams_received = stats.datagrams_received;
    traffic.bytes_received = stats.bytes_received;
    traffic.dropped = [(TOO_MANY_PEERS, stats.refused_peers), (OTHER_SOURCE, stats.other_sources)].into();
    traffic.send_errors = stats.send_errors + stats.unroutable;
    traffic
}

/// Reasons counted by the sockets, which outlive a transfer.
const SOCKET_REASONS: [&str; 2] = [TOO_MANY_PEERS, OTHER_SOURCE];
const TOO_MANY_PEERS: &str = "too_many_peers";
const OTHER_SOURCE: &str = "other_source";
/// Interval between two snapshots.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);
const KERNEL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of samples for a rate, one per second. Receivers report their bytes only a few times a second.
const SAMPLES: usize = 5;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
