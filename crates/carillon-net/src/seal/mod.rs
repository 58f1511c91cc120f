//! Seals: authenticated encryption of every datagram of an endpoint with a key (AES-GCM), with replay protection.
//!
//! The format is in `docs/reference/seal-and-signature.md`, reasons in `docs/explanation/security.md`. Each endpoint
//! draws a random *salt* when it starts, derives a key of its own from salt and group key, and uses a counter as
//! nonce. Header, source and destination are authenticated with the content. An endpoint accepts data of another one
//! only after that has *proven* its presence by answering a fresh greeting; otherwise a recording of an earlier
//! session would be accepted.
//!
//! Where addresses are translated on the way, one end learns by which addresses the other one knows both ends, and
//! [names](Seal::rename) them so.
//!
//! Not covered: secrecy from former members (that takes a new key).

mod key;
mod peer;
mod table;
#[cfg(test)]
mod tests;
mod window;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use carillon_core::{DropReason, Time};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

pub use key::{Key, KeyError, KeyFile};
use peer::{Peer, Place, Salt};
use table::PeerTable;
use window::Window;

/// Bytes that a seal adds to a datagram.
pub const SEAL_BYTES: usize = HEADER + TAG;

/// Returns true if the datagram begins like a sealed one.
#[must_use]
pub fn is_sealed(datagram: &[u8]) -> bool {
    datagram.len() >= SEAL_BYTES && datagram[0] == MAGIC && Kind::of(datagram[1]).is_some()
}

/// Kind of a sealed datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A datagram to the group.
    Group = 0,
    /// A datagram to one endpoint.
    One = 1,
    /// A greeting, to one endpoint.
    Greeting = 2,
}

/// Addresses of both ends as the other one knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) own: SocketAddr,
    pub(crate) theirs: SocketAddr,
}

/// Seals what an endpoint sends and opens what it receives.
#[derive(Debug)]
pub(crate) struct Seal {
    group_key: Key,
    salt: Salt,
    key: LessSafeKey,
    /// Counter of the last sealed datagram.
    counter: u64,
    /// Maximum counter of a salt.
    limit: u64,
    address: Place,
    group: Place,
    /// Endpoint that knows both ends by other addresses, and these, because addresses are translated on the way.
    renamed: Option<(Place, Place, Place)>,
    /// Endpoints that have proven their presence.
    proven: PeerTable<Proven>,
    /// Endpoints with the key that were challenged and have not answered.
    asked: PeerTable<Challenged>,
    greetings: VecDeque<(SocketAddr, Vec<u8>)>,
}

/// A sealed datagram that has arrived.
struct Arrival<'a> {
    now: Time,
    source: SocketAddr,
    /// Endpoint that claims to have sealed it.
    id: Peer,
    kind: Kind,
    counter: u64,
    /// Authenticated header and addresses.
    aad: [u8; ASSOCIATED],
    datagram: &'a mut [u8],
}

impl Arrival<'_> {
    /// Decrypts the content in place, if it is authentic.
    fn unseal(&mut self, key: &LessSafeKey) -> Result<(), DropReason> {
        let sealed = &mut self.datagram[HEADER..];
        let opened = key.open_in_place(nonce(self.counter), Aad::from(self.aad), sealed);
        opened.map(drop).map_err(|_| DropReason::Unauthentic)
    }

    /// Range of the content in the datagram.
    fn content(&self) -> Range<usize> {
        HEADER..self.datagram.len() - TAG
    }

    fn content_bytes(&self) -> &[u8] {
        &self.datagram[self.content()]
    }

    /// Index of its replay window.
    fn window(&self) -> usize {
        usize::from(self.kind != Kind::Group)
    }
}

#[derive(Debug)]
struct Proven {
    key: LessSafeKey,
    /// Replay windows for multicast and unicast.
    windows: [Window; 2],
    check: Check,
}

impl Proven {
    /// Ends the open check, which has found this counter, and moves the windows there.
    fn resume(&mut self, now: Time, counter: u64) {
        let Some(open) = self.check.open.take() else { return };
        let windows = self.windows.iter_mut().zip(&open.since);
        let moved = windows.fold(false, |moved, (window, since)| window.resume(counter, since) | moved);
        self.check.outdated = 0;
        self.check.pause = if moved { MIN_PAUSE } else { (self.check.pause * 2).min(MAX_PAUSE) };
        self.check.at = now + self.check.pause;
    }
}

/// Check of a proven endpoint's counter, in case another holder of the key moved the windows.
#[derive(Debug)]
struct Check {
    /// Authentic datagrams below the windows since the last check.
    outdated: u32,
    /// Earliest time of the next check.
    at: Time,
    pause: Duration,
    open: Option<OpenCheck>,
}

/// A check without an answer so far.
#[derive(Debug)]
struct OpenCheck {
    /// Random number that the answer must contain; only a receiver at the endpoint's address knows it.
    token: u64,
    sent: Time,
    /// Counters admitted since the check began, per window.
    since: [Vec<u64>; 2],
}

impl Check {
    fn new(now: Time) -> Check {
        Check { outdated: 0, at: now, pause: MIN_PAUSE, open: None }
    }

    /// Records an admitted counter; abandons a check that takes too long.
    fn admitted(&mut self, now: Time, window: usize, counter: u64) {
        let Some(open) = &mut self.open else { return };
        open.since[window].push(counter);
        // A new driver of the endpoint restarts its clock.
        let is_late = open.sent > now || now.since(open.sent) > MAX_PAUSE;
        if open.since[window].len() > MAX_SINCE || is_late {
            self.open = None;
        }
    }
}

#[derive(Debug)]
struct Challenged {
    key: LessSafeKey,
    /// Counter of the first greeting sent to it.
    since: Option<u64>,
    /// Earliest time of the next challenge.
    ask_at: Time,
    pause: Duration,
    /// Earliest time of the next answer.
    answer_at: Time,
}

/// Content of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Greeting {
    /// True if it requests an answer.
    wants: bool,
    /// Salt and counter of the answered greeting; zeros if none.
    answers: (Salt, u64),
    /// Token that the answer must repeat, and the repeated token of the answered greeting; zeros if none.
    token: u64,
    echo: u64,
}

impl Seal {
    /// Creates the seal of an endpoint at this address for this group, with a random salt.
    pub(crate) fn new(group_key: Key, address: SocketAddr, group: SocketAddr) -> std::io::Result<Seal> {
        let mut salt = [0; 12];
        SystemRandom::new().fill(&mut salt).map_err(|_| std::io::Error::other("no random numbers"))?;
        Ok(Seal::with_salt(group_key, salt, address, group))
    }

    fn with_salt(group_key: Key, salt: Salt, address: SocketAddr, group: SocketAddr) -> Seal {
        Seal {
            key: aead(&group_key.of_sender(&salt)),
            group_key,
            salt,
            counter: 0,
            limit: MAX_COUNTER,
            address: place(address),
            group: place(group),
            renamed: None,
            proven: PeerTable::new(MAX_PROVEN),
            asked: PeerTable::new(MAX_CHALLENGED),
            greetings: VecDeque::new(),
        }
    }

    /// Names both ends by these addresses in what is exchanged with the endpoint at `peer`.
    pub(crate) fn rename(&mut self, now: Time, peer: SocketAddr, Names { own, theirs }: Names) {
        self.renamed = Some((place(peer), place(own), place(theirs)));
        // Greetings so far could not be opened.
        for one in self.asked.values_mut() {
            (one.ask_at, one.pause) = (now, MIN_PAUSE);
        }
    }

    /// Addresses of this end and of the one at `peer` in seals.
    fn names(&self, peer: Place) -> (Place, Place) {
        match self.renamed {
            Some((at, own, theirs)) if at == peer => (own, theirs),
            _ => (self.address, peer),
        }
    }

    /// Returns true if an authentic datagram from this address was opened.
    pub(crate) fn has_heard(&self, source: SocketAddr) -> bool {
        let from = place(source);
        self.asked.peers().chain(self.proven.peers()).any(|(_, place)| *place == from)
    }

    /// Seals a datagram to `to` and appends it to a buffer; returns its counter.
    pub(crate) fn seal(&mut self, kind: Kind, to: SocketAddr, content: &[u8], buffer: &mut Vec<u8>) -> u64 {
        if self.counter >= self.limit {
            self.renew();
        }
        self.counter += 1;
        let header = header(kind, &self.salt, self.counter);
        let (from, to) = match kind {
            Kind::Group => (self.address, self.group),
            Kind::One | Kind::Greeting => self.names(place(to)),
        };
        let start = buffer.len() + HEADER;
        buffer.extend_from_slice(&header);
        buffer.extend_from_slice(content);
        let (nonce, aad) = (nonce(self.counter), associated(&header, &from, &to));
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(aad), &mut buffer[start..]);
        buffer.extend_from_slice(tag.expect("a datagram is shorter than AES-GCM takes").as_ref());
        self.counter
    }

    /// Opens a datagram in place. Returns the range of its content, `None` for a greeting, or the reason for dropping
    /// it. A datagram that is not authentic changes no state.
    pub(crate) fn open(
        &mut self,
        now: Time,
        source: SocketAddr,
        multicast: bool,
        datagram: &mut [u8],
    ) -> Result<Option<Range<usize>>, DropReason> {
        let (kind, salt, counter) = parse(datagram)?;
        if (kind == Kind::Group) != multicast {
            return Err(DropReason::Unauthentic);
        }
        if salt == self.salt {
            return Err(DropReason::Replayed);
        }
        if counter > MAX_COUNTER {
            // No endpoint uses counters this large.
            return Err(DropReason::Unauthentic);
        }
        // Source and destination are authenticated, so a datagram cannot be redirected.
        let from = place(source);
        let (own, theirs) = self.names(from);
        let to = if multicast { self.group } else { own };
        let aad = associated(&datagram[..HEADER], &theirs, &to);
        let mut arrival = Arrival { now, source, id: (salt, from), kind, counter, aad, datagram };
        let greets = match self.open_proven(&mut arrival) {
            Some(greets) => greets?,
            None => self.open_unproven(&mut arrival).map(|()| kind == Kind::Greeting)?,
        };
        if kind != Kind::Greeting {
            return Ok(Some(arrival.content()));
        }
        if greets {
            let greeting = Greeting::parse(arrival.content_bytes()).ok_or(DropReason::Unproven)?;
            self.on_greeting(now, arrival.id, counter, source, greeting);
        }
        Ok(None)
    }

    /// Opens a datagram of an endpoint that has proven its presence; `None` for another endpoint. Returns true for a
    /// greeting that is not the answer to a check.
    fn open_proven(&mut self, arrival: &mut Arrival<'_>) -> Option<Result<bool, DropReason>> {
        let peer = self.proven.get_mut(&arrival.id)?;
        // 1. Check the counter before the costly decryption.
        let (now, counter, at) = (arrival.now, arrival.counter, arrival.window());
        let window = &mut peer.windows[at];
        let refused = match window.admits(counter) {
            Ok(()) if window.is_jump(counter) => Some(DropReason::Unproven),
            admits => admits.err(),
        };
        // A counter outside the window may mean that a forger has moved it: such datagrams start a check.
        let doubts = matches!(refused, Some(DropReason::Unproven | DropReason::Outdated))
            && is_due(peer.check.at, now);
        let answers = arrival.kind == Kind::Greeting && peer.check.open.is_some();
        if let Some(reason) = refused.filter(|_| !doubts && !answers) {
            return Some(Err(reason));
        }
        if let Err(reason) = arrival.unseal(&peer.key) {
            return Some(Err(reason));
        }
        if answers
            && let Some(greeting) = Greeting::parse(arrival.content_bytes())
            && peer.check.open.as_ref().is_some_and(|open| open.token == greeting.echo)
        {
            // 2. The answer to a check tells the real counter: move the windows there.
            peer.resume(now, counter);
            return Some(Ok(false));
        }
        if let Some(reason) = refused {
            peer.check.outdated += u32::from(reason == DropReason::Outdated);
            if doubts && (reason == DropReason::Unproven || peer.check.outdated >= MIN_OUTDATED) {
                let checked = self.check(now, arrival.id, arrival.source);
                return Some(Err(checked.err().unwrap_or(reason)));
            }
            return Some(Err(reason));
        }
        // 3. Authentic and new: mark the counter as seen.
        peer.windows[at].mark(counter);
        peer.check.admitted(now, at, counter);
        self.proven.heard(&arrival.id);
        Some(Ok(arrival.kind == Kind::Greeting))
    }

    /// Opens a datagram of an endpoint that has not proven its presence. Only a greeting is accepted.
    fn open_unproven(&mut self, arrival: &mut Arrival<'_>) -> Result<(), DropReason> {
        let (now, id) = (arrival.now, arrival.id);
        if let Some(peer) = self.asked.get_mut(&id) {
            arrival.unseal(&peer.key)?;
            self.asked.heard(&id);
        } else {
            // An unknown endpoint: remember it only if its datagram is authentic, as salts can be invented.
            let key = aead(&self.group_key.of_sender(&id.0));
            arrival.unseal(&key)?;
            let new = Challenged { key, since: None, ask_at: now, pause: MIN_PAUSE, answer_at: now };
            self.asked.insert(id, new);
        }
        if arrival.kind != Kind::Greeting {
            // Data is not accepted before the endpoint has proven its presence.
            self.ask(now, id, arrival.source);
            return Err(DropReason::Unproven);
        }
        Ok(())
    }

    /// Takes the next greeting to send: destination and sealed bytes.
    pub(crate) fn next_greeting(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.greetings.pop_front()
    }

    /// Starts a check of a proven endpoint's counter, because another holder of the key may have used its salt.
    fn check(&mut self, now: Time, id: Peer, at: SocketAddr) -> Result<(), DropReason> {
        let mut token = [0; 8];
        SystemRandom::new().fill(&mut token).map_err(|_| DropReason::Unproven)?;
        let token = u64::from_be_bytes(token).max(1);
        let Some(peer) = self.proven.get_mut(&id) else { return Ok(()) };
        (peer.check.at, peer.check.outdated) = (now + peer.check.pause, 0);
        peer.check.open = Some(OpenCheck { token, sent: now, since: [Vec::new(), Vec::new()] });
        self.greet(at, Greeting { wants: true, answers: ([0; 12], 0), token, echo: 0 });
        Ok(())
    }

    fn on_greeting(&mut self, now: Time, from: Peer, counter: u64, at: SocketAddr, greeting: Greeting) {
        let (salt, last) = (self.salt, self.counter);
        let answer = Greeting { wants: false, answers: (from.0, counter), token: 0, echo: greeting.token };
        let Some(peer) = self.asked.get_mut(&from) else {
            // A proven peer has lost its state of this endpoint, or never had it.
            if greeting.wants {
                self.greet(at, answer);
            }
            return;
        };
        let (to, number) = greeting.answers;
        let is_now = to == salt && peer.since.is_some_and(|since| (since..=last).contains(&number));
        if is_now {
            if let Some(Challenged { key, .. }) = self.asked.remove(&from) {
                // Datagrams it sent earlier may have been recorded.
                let windows = [Window::above(counter), Window::above(counter)];
                self.proven.insert(from, Proven { key, windows, check: Check::new(now) });
            }
            if greeting.wants {
                self.greet(at, answer);
            }
        } else if greeting.wants && is_due(peer.answer_at, now) {
            peer.answer_at = now + ANSWER_PAUSE;
            peer.ask_at = now + peer.pause;
            let own = self.greet(at, Greeting { wants: true, ..answer });
            self.asked_since(&from, own);
        }
    }

    /// Challenges an endpoint to prove its presence, unless it was challenged recently.
    fn ask(&mut self, now: Time, id: Peer, at: SocketAddr) {
        let Some(peer) = self.asked.get_mut(&id) else { return };
        if !is_due(peer.ask_at, now) {
            return;
        }
        peer.ask_at = now + peer.pause;
        peer.pause = (peer.pause * 2).min(MAX_PAUSE);
        let own = self.greet(at, Greeting { wants: true, answers: ([0; 12], 0), token: 0, echo: 0 });
        self.asked_since(&id, own);
    }

    /// Records that answers to this greeting and later ones prove its presence.
    fn asked_since(&mut self, id: &Peer, counter: u64) {
        if let Some(peer) = self.asked.get_mut(id) {
            peer.since.get_or_insert(counter);
        }
    }

    fn greet(&mut self, to: SocketAddr, greeting: Greeting) -> u64 {
        let mut sealed = Vec::with_capacity(GREETING + SEAL_BYTES);
        let counter = self.seal(Kind::Greeting, to, &greeting.emit(), &mut sealed);
        // A greeting that does not fit into the queue is repeated later.
        if self.greetings.len() < MAX_QUEUED_GREETINGS {
            self.greetings.push_back((to, sealed));
        }
        counter
    }

    /// Continues like a restarted endpoint, with a new salt: it has to prove its presence again.
    fn renew(&mut self) {
        let mut hasher = blake3::Hasher::new_derive_key(NEXT_SALT);
        // Randomness protects a copied machine; otherwise the derived salt suffices.
        let mut fresh = [0; 32];
        let _ = SystemRandom::new().fill(&mut fresh);
        hasher.update(&self.group_key.to_bytes()).update(&self.salt).update(&fresh);
        self.salt.copy_from_slice(&hasher.finalize().as_bytes()[..12]);
        self.key = aead(&self.group_key.of_sender(&self.salt));
        self.counter = 0;
        self.asked.values_mut().for_each(|peer| peer.since = None);
    }
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Group, Kind::One, Kind::Greeting].into_iter().find(|kind| kind.byte() == byte)
    }

    /// First header byte: version and kind.
    fn byte(self) -> u8 {
        VERSION << 4 | self as u8
    }
}

impl Greeting {
    fn emit(self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[0] = u8::from(self.wants);
        bytes[1..13].copy_from_slice(&self.answers.0);
        bytes[13..21].copy_from_slice(&self.answers.1.to_be_bytes());
        bytes[21..29].copy_from_slice(&self.token.to_be_bytes());
        bytes[29..].copy_from_slice(&self.echo.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Greeting> {
        let (&flags, rest) = bytes.split_first()?;
        let (salt, rest) = rest.split_first_chunk::<12>()?;
        let (numbers, []) = rest.as_chunks::<8>() else { return None };
        let numbers = numbers.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect::<Vec<_>>();
        // Earlier releases send no tokens.
        let (counter, token, echo) = match numbers[..] {
            [counter] => (counter, 0, 0),
            [counter, token, echo] => (counter, token, echo),
            _ => return None,
        };
        (flags <= 1).then_some(Greeting { wants: flags == 1, answers: (*salt, counter), token, echo })
    }
}

fn parse(datagram: &[u8]) -> Result<(Kind, Salt, u64), DropReason> {
    let kind = match datagram {
        [MAGIC, kind, ..] => Kind::of(*kind).ok_or(DropReason::Unsealed)?,
        _ => return Err(DropReason::Unsealed),
    };
    let (salt, rest) = datagram[2..].split_first_chunk::<12>().ok_or(DropReason::Unauthentic)?;
    let (counter, rest) = rest.split_first_chunk::<8>().ok_or(DropReason::Unauthentic)?;
    if rest.len() < TAG {
        return Err(DropReason::Unauthentic);
    }
    Ok((kind, *salt, u64::from_be_bytes(*counter)))
}

fn header(kind: Kind, salt: &Salt, counter: u64) -> [u8; HEADER] {
    let mut header = [MAGIC; HEADER];
    header[1] = kind.byte();
    header[2..14].copy_from_slice(salt);
    header[14..].copy_from_slice(&counter.to_be_bytes());
    header
}

/// Associated data: authenticated besides the content.
fn associated(header: &[u8], from: &Place, to: &Place) -> [u8; ASSOCIATED] {
    let mut all = [0; ASSOCIATED];
    all[..HEADER].copy_from_slice(header);
    all[HEADER..HEADER + 18].copy_from_slice(from);
    all[HEADER + 18..].copy_from_slice(to);
    all
}

/// Returns true if a time at most [`MAX_PAUSE`] ahead has passed. A new driver restarts the clock, which counts as due.
fn is_due(at: Time, now: Time) -> bool {
    at <= now || at.since(now) > MAX_PAUSE
}

fn place(address: SocketAddr) -> Place {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut place = [0; 18];
    place[..16].copy_from_slice(&ip.octets());
    place[16..].copy_from_slice(&address.port().to_be_bytes());
    place
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn aead(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("AES-256 has keys of 32 bytes"))
}

/// The first byte of a sealed datagram; the session's packets begin with 0xCA.
const MAGIC: u8 = 0x5E;
const VERSION: u8 = 1;
const HEADER: usize = 22;
/// Bytes that are authenticated besides the content: the header and two addresses.
const ASSOCIATED: usize = HEADER + 36;
const TAG: usize = 16;
const GREETING: usize = 37;

/// Maximum datagrams per key, 98 TB in frames of 1500 bytes. The advantage against AES-GCM is s^2 / 2^129 after s
/// blocks: 2^-33 with this many of the longest datagrams.
const MAX_COUNTER: u64 = 1 << 36;

/// Datagrams below the windows before a check, as some are late at the beginning.
const MIN_OUTDATED: u32 = 4;

/// Maximum counters recorded during a check.
const MAX_SINCE: usize = 4096;

/// Maximum proven endpoints: twice the members of the largest session, 1.1 KB each.
const MAX_PROVEN: usize = 8192;

/// Maximum endpoints with the key and without proof. This many recordings can be replayed at a time before one of
/// them displaces a present endpoint that has not answered yet.
const MAX_CHALLENGED: usize = 1024;

/// Maximum number of queued greetings.
const MAX_QUEUED_GREETINGS: usize = 1024;

/// Pause between greetings to an endpoint that does not answer: longer than a round trip in a local network, doubled
/// each time.
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// Maximum pause between greetings.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Pause between answers to an endpoint without proof: shorter than its pause between challenges.
const ANSWER_PAUSE: Duration = Duration::from_millis(5);

/// Context of BLAKE3's `derive_key` for a derived salt.
const NEXT_SALT: &str = "carillon 2026-11-23 seal 1: salt after a salt";
