//! Attacker that sends every packet type, recorded or synthetic, with changed fields and forged source addresses.

use std::collections::BTreeMap;

use carillon_core::{AssociationId, Helpers, NodeId, ProtocolEntry, Rng, Role, Seeds};
use carillon_testkit::fuzz::{Input, Known, packets};
use carillon_wire::Envelope;
use carillon_wire::envelope::protocol;
use carillon_wire::session::{
    Attachment, Body, Cookie, DatagramSizes, DistanceTo, Distances, Identity, Invite, MemberRole, Name,
    Nonce, Packet, Padding, Peer, PeerList, Proof, RefuseReason, RosterPage, Settings, State, Terms, Text,
    Verdict,
};

use super::world::{HELPERS, NAMES, PAYLOAD, Phase, SENDER, SentDatagram};

/// Position of the attacker: the packets it can observe and the addresses it can send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackerRole {
    /// Recorded another session, sees nothing of this one, and sends from any address.
    Blind,
    /// Observes the group and sends from its own address.
    Outsider,
    /// Observes the group and sends from any address.
    Forger,
    /// A member, which knows its own nonce and sends from its own address.
    Member,
    /// The sender itself.
    Sender,
    /// A helper, which knows its own nonce and its unicast packets, and sends from its own address.
    Helper,
}

/// Attacker roles that apply to this protocol.
pub fn all(entry: &ProtocolEntry) -> impl Iterator<Item = AttackerRole> {
    let helper = (entry.helpers != Helpers::None).then_some(AttackerRole::Helper);
    [
        AttackerRole::Blind,
        AttackerRole::Outsider,
        AttackerRole::Forger,
        AttackerRole::Member,
        AttackerRole::Sender,
    ]
    .into_iter()
    .chain(helper)
}

/// Kind of packet that an attack sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketKind {
    /// Session packet with this type number.
    Session(u8),
    /// Protocol packet with this type number, recorded in another session.
    Heard(u8),
    /// Protocol packet with synthetic fields.
    Made,
    /// Replay of a packet of this session.
    Again,
}

/// Packets recorded in another session, by kind.
pub type Recordings = BTreeMap<PacketKind, Vec<SentDatagram>>;

pub struct Attacker {
    pub role: AttackerRole,
    entry: &'static ProtocolEntry,
    /// Kinds of packets to send, in turn.
    kinds: Vec<PacketKind>,
    /// Phase to attack; `None` for all.
    phase: Option<Phase>,
    recordings: Recordings,
    /// Number of packets left to send.
    left: usize,
    burst: usize,
    turn: usize,
    rng: Rng,
    /// Observed packets of this session, for replay.
    observed: Vec<SentDatagram>,
    nonces: Vec<u64>,
    /// Terms of the sender's last INVITE.
    terms: Terms,
    /// Cookie of the sender's last challenge.
    cookie: Option<Cookie>,
    /// True to record packets by kind instead of attacking.
    recording: bool,
    /// True to truncate data.
    tiny: bool,
}

impl Attacker {
    pub fn new(
        role: AttackerRole,
        entry: &'static ProtocolEntry,
        recordings: &Recordings,
        seed: u64,
    ) -> Attacker {
        Attacker {
            role,
            entry,
            kinds: kinds(recordings),
            phase: None,
            recordings: recordings.clone(),
            left: 0,
            burst: 1,
            turn: 0,
            rng: Seeds::new(seed).part("strangers").stream(entry.name),
            observed: Vec::new(),
            nonces: vec![0, u64::MAX],
            terms: Terms(0),
            cookie: None,
            recording: false,
            tiny: false,
        }
    }

    /// Creates a passive recorder.
    pub fn recorder(entry: &'static ProtocolEntry) -> Attacker {
        Attacker { recording: true, ..Attacker::new(AttackerRole::Forger, entry, &Recordings::new(), 0) }
    }

    /// Configures an attack: phase (or all), kinds, number of packets, and packets per burst.
    pub fn attack(
        mut self,
        phase: Option<Phase>,
        kinds: &[PacketKind],
        packets: usize,
        burst: usize,
    ) -> Attacker {
        (self.phase, self.kinds, self.left, self.burst) = (phase, kinds.to_vec(), packets, burst);
        self
    }

    /// Truncates the recorded data that it sends.
    pub fn tiny(self) -> Attacker {
        Attacker { tiny: true, ..self }
    }

    pub fn into_recordings(self) -> Recordings {
        self.recordings
    }

    /// Observes a packet of the session.
    pub fn overhear(&mut self, datagram: &SentDatagram) {
        let to_all = datagram.to.is_none();
        if self.recording {
            let list = self.recordings.entry(kind_of(&datagram.bytes)).or_default();
            // Record the first packets of each kind, and a sample of later ones.
            if list.len() < 12 || self.rng.chance(0.02) {
                list.push(datagram.clone());
            }
            return;
        }
        let own = match self.role {
            AttackerRole::Blind => return,
            AttackerRole::Outsider | AttackerRole::Forger => false,
            // A joining receiver that takes the attacker for a sender is a different attack.
            AttackerRole::Member => {
                datagram.from == MEMBER || (datagram.to == Some(MEMBER) && datagram.from == SENDER)
            }
            AttackerRole::Sender => datagram.from == SENDER || datagram.to == Some(SENDER),
            AttackerRole::Helper => datagram.from == HELPER || datagram.to == Some(HELPER),
        };
        if !to_all && !own {
            return;
        }
        match Packet::parse(&datagram.bytes).map(|packet| packet.body) {
            Ok(Body::Invite(invite)) => self.terms = invite.terms(),
            Ok(Body::Join { nonce, .. }) => self.learn(nonce.0),
            // A challenge is answered from the attacker's own address.
            Ok(Body::Challenge { cookie, .. }) if own => self.cookie = Some(cookie),
            Ok(Body::Present { proof }) => self.learn(proof.0),
            Ok(Body::Roster(page)) => page.peers.iter().for_each(|peer| self.learn(peer.identity.0)),
            _ => {}
        }
        if self.observed.len() >= 64 {
            let place = self.rng.below(64) as usize;
            self.observed.swap_remove(place);
        }
        self.observed.push(datagram.clone());
    }

    fn learn(&mut self, number: u64) {
        if !self.nonces.contains(&number) {
            self.nonces.push(number);
        }
    }

    /// Packets to send in this millisecond.
    pub fn datagrams(&mut self, phase: Phase) -> Vec<SentDatagram> {
        if self.recording || self.phase.is_some_and(|only| only != phase) || self.kinds.is_empty() {
            return Vec::new();
        }
        // In all phases, spread the packets over about seven seconds.
        let burst = match self.phase {
            None if self.burst == 1 && self.rng.chance(0.5) => 0,
            _ => self.burst.min(self.left),
        };
        self.left -= burst;
        (0..burst).map(|_| self.datagram()).collect()
    }

    fn datagram(&mut self) -> SentDatagram {
        self.turn += 1;
        let kind = self.kinds[self.turn % self.kinds.len()];
        let (mut bytes, mut to_all) = self.packet(kind);
        if self.tiny {
            bytes.truncate(bytes.len().saturating_sub(PAYLOAD - 2));
            return SentDatagram { from: SENDER, to: None, bytes };
        }
        if self.rng.chance(0.5) {
            self.change(&mut bytes);
        }
        // Sometimes swap unicast and multicast.
        to_all ^= self.rng.chance(0.2);
        let from = match self.role {
            AttackerRole::Outsider => STRANGER,
            AttackerRole::Member => MEMBER,
            AttackerRole::Sender => SENDER,
            AttackerRole::Helper => HELPER,
            AttackerRole::Blind | AttackerRole::Forger => {
                self.pick(&[STRANGER, SENDER, SENDER, NodeId(1), NodeId(2)])
            }
        };
        let one = match self.role {
            AttackerRole::Sender => self.pick(&[NodeId(1), NodeId(2), MEMBER]),
            AttackerRole::Helper => self.pick(&[SENDER, NodeId(1), NodeId(2), MEMBER, NodeId(5)]),
            _ if from == SENDER => self.pick(&[NodeId(1), NodeId(2)]),
            _ => self.pick(&[SENDER, SENDER, SENDER, NodeId(1), NodeId(2)]),
        };
        let to = if to_all { None } else { Some(one) };
        if matches!(self.role, AttackerRole::Member | AttackerRole::Helper)
            && to == Some(SENDER)
            && self.rng.chance(0.9)
        {
            self.add_token(&mut bytes);
        }
        SentDatagram { from, to, bytes }
    }

    /// Adds the member's session token, which marks a packet as its own.
    fn add_token(&mut self, bytes: &mut [u8]) {
        let ours = Envelope::parse(bytes).is_ok_and(|(envelope, _)| envelope.protocol != protocol::SESSION);
        if ours && let Some(&nonce) = self.nonces.last() {
            let token = Seeds::new(nonce).stream("session.token").bits() as u32;
            bytes[4..8].copy_from_slice(&token.to_be_bytes());
        }
    }

    /// Association of a packet: this session if known, the recorded one otherwise, and sometimes a foreign one.
    fn association(&mut self) -> AssociationId {
        match self.rng.below(8) {
            // A random association never equals this one.
            0 => AssociationId(ASSOCIATION.0 + 1 + self.rng.below(30) as u32),
            _ if self.role == AttackerRole::Blind => OTHER_ASSOCIATION,
            _ => ASSOCIATION,
        }
    }

    fn packet(&mut self, kind: PacketKind) -> (Vec<u8>, bool) {
        let association = self.association();
        let mut buf = Vec::new();
        match kind {
            PacketKind::Session(number) => {
                let to_all = matches!(number, 1 | 9 | 10 | 19);
                self.session_packet(number, association, &mut buf);
                (buf, to_all)
            }
            PacketKind::Heard(_) => {
                let list = &self.recordings[&kind];
                let observed = &list[self.rng.below(list.len() as u64) as usize];
                (renumbered(&observed.bytes, association), observed.to.is_none())
            }
            PacketKind::Again if self.observed.is_empty() => (vec![0; 30], true),
            PacketKind::Again => {
                let observed = &self.observed[self.rng.below(self.observed.len() as u64) as usize];
                (observed.bytes.clone(), observed.to.is_none())
            }
            PacketKind::Made => {
                let mut random = [0; 64];
                self.rng.fill(&mut random);
                let known = Known::new(association, SENDER, self.entry.name);
                packets::own(self.entry.packets.format)(&mut Input::new(&random), &known, &mut buf);
                (buf, self.rng.chance(0.5))
            }
        }
    }

    fn session_packet(&mut self, number: u8, association: AssociationId, buf: &mut Vec<u8>) {
        let nonce = self.pick(&self.nonces.clone());
        let helped = self.entry.helpers != Helpers::None;
        let other = if helped { HELPERS[0] } else { "mallory" };
        let name = Name::new(self.pick(&[NAMES[0], NAMES[1], NAMES[2], "source", other])).unwrap();
        let text = Text::new(self.pick(&["", "so it is said"])).unwrap();
        let bytes = self.pick(&[0, 1, PAYLOAD as u64, u64::MAX]);
        let state = self.pick(&[
            State::Gathering,
            State::Assembling,
            State::Running,
            State::Closing,
            State::Finished,
            State::Aborted,
        ]);
        let (extreme, mut list) = (extremes(self.entry), Vec::new());
        let edition = self.pick(&[1, 2, 3, u32::MAX]);
        let nonce = Nonce(nonce);
        // Draw the terms only for packets that carry them, so that other attacks keep their random numbers.
        let terms = match number {
            3 | 14 => self.pick(&[self.terms, Terms(0)]),
            _ => Terms(0),
        };
        let body = match number {
            1 => Body::Invite(Invite {
                state,
                max_payload: self.pick(&[PAYLOAD as u32, 1, 1 << 24]),
                progress_interval: self.pick(&[0, 250, u16::MAX]),
                relays: self.rng.chance(0.2),
                sizes: self.pick(&[DatagramSizes::default(), DatagramSizes { longest: 1472, least: 576 }]),
                protocol: Name::new(self.entry.name).unwrap(),
                sender: name,
                settings: Settings::new(self.pick(&["", &extreme])).unwrap(),
                reason: text,
                job: None,
                asks: false,
                job_name: None,
            }),
            2 => Body::Join {
                nonce,
                receive_buffer: 1,
                part: match self.rng.chance(0.3) {
                    true if helped => MemberRole::Helps,
                    true => MemberRole::Offers,
                    false => MemberRole::Receives,
                },
                largest: self.pick(&[0, 1, 576, u16::MAX]),
                name,
                attached: Attachment::default(),
                cookie: self.cookie,
                origin: None,
                list: None,
            },
            3 => Body::Welcome { nonce, member: self.pick(&[0, 1, u32::MAX]), terms },
            4 => {
                let reason =
                    self.pick(&[RefuseReason::Expelled, RefuseReason::AlreadyStarted, RefuseReason::Nonce]);
                Body::Refuse { nonce, reason, text }
            }
            5 => Body::Progress { nonce, bytes },
            6 => {
                let verdict = self.pick(&[Verdict::Failed, Verdict::Verified, Verdict::Damaged]);
                Body::Report { nonce, bytes, verdict, text }
            }
            7 => Body::ReportAck { nonce },
            8 => Body::Leave { nonce, text },
            9 => {
                let total = 1 + self.rng.below(5) as u16;
                let gone = self.rng.chance(0.5);
                let peers: Vec<Peer<'_>> = (0..total)
                    .map(|_| {
                        let identity = Identity(self.pick(&self.nonces.clone()));
                        let parts = [
                            MemberRole::Receives,
                            MemberRole::Offers,
                            MemberRole::Helps,
                            MemberRole::ReceivesAndHelps,
                        ];
                        let part = self.pick(&parts);
                        let parent = if helped { self.pick(&[0, 0, 1, 2, 1023]) } else { 0 };
                        Peer { identity, part, gone, parent, name }
                    })
                    .collect();
                PeerList::encode(peers, &mut list);
                let peers = PeerList::new(&list).unwrap();
                Body::Roster(RosterPage { edition, total, first: 0, peers })
            }
            10 => Body::Present { proof: Proof(nonce.0) },
            11 => Body::Ready { nonce, edition },
            12 => Body::Decline { name, text },
            13 => Body::Ask { nonce },
            14 => Body::Answer { nonce, state, terms, text },
            15 => Body::Measure { edition },
            16 => Body::Probe { token: nonce.0 },
            17 => Body::Echo { token: nonce.0 },
            20 => Body::Challenge { nonce, cookie: Cookie(nonce.0) },
            19 => Body::Size(Padding(self.pick(&[0, 60, 1400]))),
            _ => {
                let micros = self.pick(&[0, 900, u32::MAX]);
                Distances::encode([0, 1, 2, 1023].map(|rank| DistanceTo { rank, micros }), &mut list);
                Body::Distances { nonce, edition, distances: Distances::new(&list).unwrap() }
            }
        };
        Packet { association, body }.emit(buf);
    }

    /// Changes a header field or the length.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self.rng.below(10) {
            0 => bytes.truncate(self.rng.below(bytes.len() as u64) as usize),
            1 => bytes.extend_from_slice(&[0xff; 9]),
            _ => {
                let at = self.rng.below(bytes.len().min(MAX_HEADER_LEN) as u64) as usize;
                let width = self.pick(&[1, 2, 4, 8]).min(bytes.len() - at);
                let field = &mut bytes[at..at + width];
                match self.rng.below(5) {
                    0 => field.fill(0),
                    1 => field.fill(0xff),
                    2 => self.rng.fill(field),
                    // A value next to the original.
                    3 => field[width - 1] = field[width - 1].wrapping_add(1),
                    _ => field[0] ^= 1 << self.rng.below(8),
                }
            }
        }
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.rng.below(values.len() as u64) as usize]
    }
}

/// Kinds of packets available with these recordings.
pub fn kinds(recordings: &Recordings) -> Vec<PacketKind> {
    let session = (1..=20).map(PacketKind::Session);
    let observed = recordings.keys().copied().filter(|kind| matches!(kind, PacketKind::Heard(_)));
    session.chain(observed).chain([PacketKind::Made, PacketKind::Again]).collect()
}

fn kind_of(bytes: &[u8]) -> PacketKind {
    match Envelope::parse(bytes) {
        Ok((envelope, _)) if envelope.protocol == protocol::SESSION => {
            PacketKind::Session(envelope.packet_type)
        }
        Ok((envelope, _)) => PacketKind::Heard(envelope.packet_type),
        // PGM has its own header, with the type in the fifth byte.
        Err(_) => PacketKind::Heard(bytes.get(4).copied().unwrap_or_default()),
    }
}

/// Renumbers a packet of the recorded session to this session.
fn renumbered(bytes: &[u8], association: AssociationId) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let number = association.0.to_be_bytes();
    if Envelope::parse(bytes).is_ok() {
        copy[4..8].copy_from_slice(&number);
    } else if let Some(field) = copy.get_mut(10..14) {
        // In PGM the end of the global source identifier, and the ports derived from it.
        field.copy_from_slice(&number);
        let shift = (association.0 as u16).wrapping_sub(OTHER_ASSOCIATION.0 as u16);
        for at in [0, 2] {
            let port = u16::from_be_bytes([copy[at], copy[at + 1]]);
            if port >= 20_000 {
                copy[at..at + 2].copy_from_slice(&port.wrapping_add(shift).to_be_bytes());
            }
        }
    }
    copy
}

/// Settings with the shortest durations and the largest counts that the parameters accept.
fn extremes(entry: &ProtocolEntry) -> String {
    let mut all = String::new();
    for parameter in
        entry.parameters.iter().filter(|parameter| !["n", "resilience"].contains(&parameter.name))
    {
        let value = match parameter.kind {
            carillon_core::Kind::Span => "1 ns".to_owned(),
            carillon_core::Kind::Count { max, .. } => max.to_string(),
            _ => continue,
        };
        let one = Settings::encode([(parameter.name, value)]);
        if all.len() + one.len() < Settings::MAX_LEN {
            all = if all.is_empty() { one } else { format!("{all}\n{one}") };
        }
    }
    all
}

/// Returns true if any member may send to all others.
pub fn has_peers(entry: &ProtocolEntry) -> bool {
    entry.roles.contains(&Role::Peer)
}

/// Session under attack.
pub const ASSOCIATION: AssociationId = AssociationId(7);
pub const OTHER_ASSOCIATION: AssociationId = AssociationId(0x4_0008);
const STRANGER: NodeId = NodeId(66);
const MEMBER: NodeId = NodeId(3);
/// First helper.
const HELPER: NodeId = NodeId(1 + NAMES.len() as u32);
/// Length of the longest header, within which fields are changed.
const MAX_HEADER_LEN: usize = 44;
