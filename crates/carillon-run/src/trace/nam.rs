//! Trace in the format of nam, the network animator of ns-2 (ns-2 manual, chapter "Nam Trace").
//!
//! The file begins with the network: nodes, links with a queue at each end, or one LAN. Then follow the steps of each
//! packet on each link: it enters the queue (`+`), leaves it (`-`), starts (`h`), and is received (`r`) or dropped
//! (`d`). The color of a packet is its kind. Losses and collisions are annotated.
//!
//! nam requires ascending times, and a frame's arrival is known when it is sent. Lines therefore wait until the
//! simulation has passed their time.
//!
//! Left out: states of machines and timers; a [`Recording`](super::Recording) has them. nam has no place for a packet
//! that is lost on a link; it is dropped half way. A station of a LAN reports no queue, so that its frames enter it
//! when they start.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use carillon_core::{
    Bytes, Dest, Event, Format, Frame, LinkDirection, NodeId, Observer, PacketKind, PacketSummary, Passage,
    Time,
};

use super::recording::{NetworkKind, NodeRole, RecordedNetwork};
use crate::scenario::{Scenario, ScenarioNetwork};

/// Writer of a nam trace.
///
/// The first error ends the trace and is kept for [`Nam::finish`]; the run goes on.
#[derive(Debug)]
pub struct Nam<W: Write> {
    out: W,
    error: Option<io::Error>,
    format: &'static Format,
    marks_originals: bool,
    network: RecordedNetwork,
    /// Time by which a network reports a frame after it has started.
    delay: Duration,
    /// Lines of times that the simulation has not passed, by time and order.
    pending: BTreeMap<(Time, u64), Step>,
    order: u64,
    /// Frame of the next event.
    next: Option<Described>,
    /// Frame that was sent last; its loss or destination may follow.
    sent: Option<Sent>,
    /// Datagrams of late, so that a datagram has one number on all links.
    datagrams: VecDeque<Datagram>,
    numbers: u64,
    annotations: u64,
}

/// Frame as the network describes it.
#[derive(Clone, Debug)]
struct Described {
    link: Option<LinkDirection>,
    passage: Option<Passage>,
    packet: Packet,
}

/// Datagram in a frame.
#[derive(Clone, Debug)]
struct Packet {
    number: u64,
    name: &'static str,
    kind: PacketKind,
    size: u32,
}

/// Frame that was sent, on a link or on the LAN.
#[derive(Debug)]
struct Sent {
    /// Time at which it entered the queue.
    enters: Time,
    from: u32,
    frame: Described,
}

#[derive(Debug)]
struct Datagram {
    bytes: Bytes,
    number: u64,
    summary: Option<PacketSummary>,
}

/// Line of the trace.
#[derive(Debug)]
enum Step {
    /// Step of a packet between two nodes, where the LAN counts as a node.
    Packet {
        letter: char,
        from: u32,
        to: u32,
        packet: Packet,
    },
    Annotation(String),
}

impl<W: Write> Nam<W> {
    /// Writes the trace of a run of this scenario, beginning with its network.
    ///
    /// `out` needs a buffer.
    pub fn new(scenario: &Scenario, out: W) -> Self {
        let (protocol, delay) = (
            scenario.protocol,
            match &scenario.network {
                ScenarioNetwork::Lan(lan) => lan.propagation_delay,
                ScenarioNetwork::Graph(_) => Duration::ZERO,
            },
        );
        let mut nam = Nam {
            out,
            error: None,
            format: protocol.packets.format,
            marks_originals: protocol.study.marks_originals,
            network: RecordedNetwork::of(scenario),
            delay,
            pending: BTreeMap::new(),
            order: 0,
            next: None,
            sent: None,
            datagrams: VecDeque::new(),
            numbers: 0,
            annotations: 0,
        };
        nam.error = nam.write_network(protocol.name).err();
        nam
    }

    /// Writes the lines that wait, and returns the writer or the first error.
    ///
    /// # Errors
    ///
    /// Fails if a write has failed.
    pub fn finish(mut self) -> io::Result<W> {
        self.settle_sent(None);
        self.write_until(Time::MAX);
        match self.error.take() {
            Some(error) => Err(error),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    /// Writes the configuration: version, colors, nodes, and links or the LAN.
    fn write_network(&mut self, protocol: &str) -> io::Result<()> {
        let mut text = String::from("V -t * -v 1.0a5 -a 0\n");
        for (number, color) in COLORS.iter().enumerate() {
            let _ = writeln!(text, "c -t * -i {number} -n {color}");
        }
        for node in self.network.nodes() {
            let (id, (shape, color)) = (node.id, look(node.role));
            let _ = writeln!(text, "n -t * -a {id} -s {id} -S UP -v {shape} -c {color} -i {color}");
        }
        if self.network.kind() == NetworkKind::Lan {
            let (lan, delay) = (self.lan(), self.delay.as_secs_f64());
            let rate = self.network.bit_rate().unwrap_or_default();
            let _ = writeln!(text, "X -t * -n {lan} -r {rate} -D {delay:.9} -o left");
            for (node, side) in self.network.nodes().iter().zip(["up", "down"].into_iter().cycle()) {
                let _ = writeln!(text, "L -t * -s {lan} -d {} -o {side}", node.id);
            }
        }
        let mut declared = std::collections::BTreeSet::new();
        for link in self.network.links() {
            let (a, b) = (link.a, link.b);
            // nam has one link between two nodes, and events name the ends only.
            if !declared.insert((a.min(b), a.max(b))) {
                continue;
            }
            let rate = link.rate.unwrap_or_default();
            let delay = link.latency_ns.unwrap_or_default() as f64 / 1e9;
            let _ = writeln!(text, "l -t * -s {a} -d {b} -S UP -r {rate} -D {delay:.9} -c black");
            let _ = writeln!(text, "q -t * -s {a} -d {b} -a 0.5\nq -t * -s {b} -d {a} -a 0.5");
        }
        let step = if self.network.kind() == NetworkKind::Lan { "100us" } else { "2ms" };
        let _ = writeln!(text, "v -t 0.000000000 -e set_rate_ext {step} 1");
        self.out.write_all(text.as_bytes())?;
        let colors = PacketKind::VARIANTS.map(|kind| format!("{} {}", COLORS[color(kind)], kind.name()));
        self.annotate(Time::ZERO, format!("{protocol}: {}", colors.join(", ")));
        Ok(())
    }

    /// Number of the LAN, after those of its stations.
    fn lan(&self) -> u32 {
        self.network.nodes().len() as u32
    }

    fn push(&mut self, time: Time, step: Step) {
        self.order += 1;
        self.pending.insert((time, self.order), step);
    }

    fn annotate(&mut self, time: Time, text: String) {
        self.push(time, Step::Annotation(text));
    }

    fn packet(&mut self, time: Time, letter: char, from: u32, to: u32, packet: &Packet) {
        self.push(time, Step::Packet { letter, from, to, packet: packet.clone() });
    }

    /// Adds the steps of a packet on one link.
    fn pass(&mut self, enters: Time, passage: Passage, from: u32, to: u32, packet: &Packet) {
        self.packet(enters, '+', from, to, packet);
        self.packet(passage.starts, '-', from, to, packet);
        self.packet(passage.starts, 'h', from, to, packet);
        self.packet(passage.arrives, 'r', from, to, packet);
    }

    /// Adds the steps of the frame that was sent last, which is not lost on its link. On a LAN it goes to `dest`.
    fn settle_sent(&mut self, dest: Option<&Dest>) {
        let Some(Sent { enters, from, frame: Described { link, passage: Some(passage), packet } }) =
            self.sent.take()
        else {
            return;
        };
        if let Some(LinkDirection { to, .. }) = link {
            self.pass(enters, passage, from, to.0, &packet);
            return;
        }
        let lan = self.lan();
        self.pass(enters, passage, from, lan, &packet);
        let receivers = match dest {
            Some(Dest::Node(node)) => node.0..node.0 + 1,
            _ => 0..lan,
        };
        for to in receivers.filter(|&to| to != from && to < lan) {
            self.pass(enters, passage, lan, to, &packet);
        }
    }

    /// Drops a packet that has arrived at this time, at the interface of its receiver.
    fn drop_on_arrival(&mut self, now: Time, from: u32, receiver: u32, number: u64) {
        let arrivals = self.pending.range_mut((now, 0)..=(now, u64::MAX));
        for step in arrivals.map(|(_, step)| step) {
            if let Step::Packet { letter: letter @ 'r', from: at, to, packet } = step
                && (*at, *to, packet.number) == (from, receiver, number)
            {
                *letter = 'd';
                return;
            }
        }
    }

    /// Writes the lines before a time.
    fn write_until(&mut self, time: Time) {
        while let Some(entry) = self.pending.first_entry()
            && (entry.key().0 < time || time == Time::MAX)
        {
            let ((at, _), step) = entry.remove_entry();
            if self.error.is_none() {
                self.error = self.write_step(at, &step).err();
            }
        }
    }

    fn write_step(&mut self, time: Time, step: &Step) -> io::Result<()> {
        let nanos = time.as_nanos();
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        match step {
            Step::Packet { letter, from, to, packet: Packet { number, name, kind, size } } => {
                let color = color(*kind);
                write!(self.out, "{letter} -t {seconds}.{nanos:09} -s {from} -d {to} -p {name} -e {size} ")?;
                writeln!(self.out, "-c {color} -i {number} -a {color}")
            }
            Step::Annotation(text) => {
                self.annotations += 1;
                let number = self.annotations;
                write!(self.out, "v -t {seconds}.{nanos:09} -e sim_annotation ")?;
                writeln!(self.out, "{seconds}.{nanos:09} {number} {text}")
            }
        }
    }

    /// Datagram of a frame, with its number.
    fn packet_of(&mut self, frame: &Frame<'_>) -> Packet {
        let same = |known: &&Datagram| std::ptr::eq(&raw const known.bytes[..], &raw const frame.bytes[..]);
        let (number, summary) = match self.datagrams.iter().rev().find(same) {
            Some(known) => (known.number, known.summary),
            None => {
                self.numbers += 1;
                let (number, summary) = (self.numbers, (self.format.summary)(frame.bytes));
                if self.datagrams.len() >= KEPT_DATAGRAMS {
                    self.datagrams.pop_front();
                }
                self.datagrams.push_back(Datagram { bytes: frame.bytes.clone(), number, summary });
                (number, summary)
            }
        };
        let (name, kind) =
            summary.map_or(("data", PacketKind::Control), |summary| (summary.name, summary.kind));
        let kind = match kind {
            PacketKind::Data if self.marks_originals && !frame.original => PacketKind::Repair,
            kind => kind,
        };
        Packet { number, name, kind, size: frame.bytes.len() as u32 }
    }

    /// Handles an event of a frame.
    fn on_frame(&mut self, time: Time, node: u32, event: &Event, mut frame: Described) {
        match *event {
            Event::FrameSent { bytes } => {
                frame.packet.size = bytes;
                self.sent = Some(Sent { enters: time, from: node, frame });
            }
            Event::FrameLost { receiver, .. } => {
                let lan = self.lan();
                match (frame.link, frame.passage, receiver) {
                    // On the link, after it was sent.
                    (Some(link), Some(passage), _) => {
                        let (from, to) = (link.from.0, link.to.0);
                        let packet = self.sent.take().map_or(frame.packet, |sent| sent.frame.packet);
                        let half = passage.arrives.since(passage.starts) / 2;
                        self.packet(time, '+', from, to, &packet);
                        self.packet(passage.starts, '-', from, to, &packet);
                        self.packet(passage.starts, 'h', from, to, &packet);
                        self.packet(passage.starts + half, 'd', from, to, &packet);
                    }
                    // At the receiver's interface, right after its arrival. A link that is down takes no frame.
                    (Some(link), None, Some(receiver)) => {
                        self.drop_on_arrival(time, link.from.0, receiver.0, frame.packet.number);
                    }
                    // At an interface of the LAN: of a receiver, or of the sender before the frame was sent.
                    (None, _, Some(receiver)) => {
                        self.drop_on_arrival(time, lan, receiver.0, frame.packet.number);
                    }
                    (_, _, None) => {
                        for letter in ['+', '-', 'h', 'd'] {
                            self.packet(time, letter, node, lan, &frame.packet);
                        }
                    }
                }
            }
            Event::FrameDiscarded => {
                let to = frame.link.map_or(self.lan(), |link| link.to.0);
                self.packet(time, '+', node, to, &frame.packet);
                self.packet(time, 'd', node, to, &frame.packet);
            }
            _ => {}
        }
    }
}

impl<W: Write + Send> Observer for Nam<W> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        let frame = self.next.take();
        if self.error.is_some() {
            return;
        }
        let is_lost_on_link =
            matches!((event, &frame), (Event::FrameLost { .. }, Some(frame)) if frame.passage.is_some());
        if !is_lost_on_link {
            self.settle_sent(None);
        }
        let reported = Time::from_nanos(time.as_nanos().saturating_sub(self.delay.as_nanos() as u64));
        self.write_until(reported);
        if let Some(frame) = frame {
            self.on_frame(time, node.0, event, frame);
        }
        let text = match *event {
            Event::Collision { frames } => format!("collision of {frames} frames"),
            Event::LossFound { message, .. } => format!("node {} misses message {}", node.0, message.0),
            Event::LossRepaired { message, .. } => {
                format!("node {} gets message {} repaired", node.0, message.0)
            }
            Event::LossFinal { message, .. } => format!("node {} gives up message {}", node.0, message.0),
            _ => return,
        };
        self.annotate(time, text);
    }

    fn watches_buffers(&self) -> bool {
        true
    }

    fn watches_frames(&self) -> bool {
        true
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if self.error.is_none() {
            let packet = self.packet_of(frame);
            self.next = Some(Described { link: frame.link, passage: frame.passage, packet });
        }
    }

    fn datagram(&mut self, _time: Time, _from: NodeId, to: &Dest, _bytes: &Bytes) {
        // A LAN tells the destination of the frame that it has just sent; a routed network tells it before.
        if self.sent.as_ref().is_some_and(|sent| sent.frame.link.is_none()) {
            self.settle_sent(Some(to));
        }
    }
}

/// Number of a kind's color.
fn color(kind: PacketKind) -> usize {
    PacketKind::VARIANTS.iter().position(|&of| of == kind).unwrap_or_default()
}

/// Shape and color of a node.
fn look(role: NodeRole) -> (&'static str, &'static str) {
    match role {
        NodeRole::Source => ("hexagon", "blue"),
        NodeRole::Receiver => ("circle", "black"),
        NodeRole::Router => ("box", "gray"),
        NodeRole::Helper => ("hexagon", "purple"),
        NodeRole::Node => ("circle", "gray"),
    }
}

/// X11 color of each kind of packet, in the order of [`PacketKind::VARIANTS`]. They differ for color-blind viewers too.
const COLORS: [&str; 5] = ["blue", "orange", "magenta", "cyan4", "gray"];

/// Number of datagrams that are recognized on further links.
const KEPT_DATAGRAMS: usize = 256;
