//! Tape: what an observer of one part of a world would have seen, to be played to the observer of the whole world.

use std::ops::Range;

use carillon_core::{
    Bytes, Dest, Event, Frame, Handling, LinkDirection, NodeId, Notice, Observer, Passage, Time,
};

/// Recorded calls of an observer. They leave out what the observer of the whole world does not watch.
#[derive(Debug, Default)]
pub struct Tape {
    calls: Vec<(NodeId, Call)>,
    wants: Wants,
}

/// Subjects that the observer of the whole world watches.
#[derive(Clone, Copy, Debug, Default)]
struct Wants {
    held: bool,
    packets: bool,
    receptions: bool,
    frames: bool,
}

/// Call of an observer at a node. It is small, since each packet on a link has some.
#[derive(Debug)]
enum Call {
    Event(Event),
    Notice(Notice),
    Held(u64),
    Handled(Handling),
    Datagram(Box<(Dest, Bytes)>),
    /// Frame of this many bytes that was sent, of which only the times are wanted.
    Sent(u32, Passage),
    /// Event of a frame that is wanted as a whole.
    Frame(Box<FrameEvent>),
}

/// Event of a frame, with its [`Frame`].
#[derive(Debug)]
struct FrameEvent {
    event: Event,
    link: Option<LinkDirection>,
    bytes: Bytes,
    passage: Option<Passage>,
    original: bool,
}

const _: () = assert!(size_of::<(NodeId, Call)>() <= 40);

impl Tape {
    /// Empty tape for an observer.
    pub fn of(observer: &dyn Observer) -> Self {
        let wants = Wants {
            held: observer.watches_held(),
            packets: observer.watches_packets(),
            receptions: observer.watches_receptions(),
            frames: observer.watches_frames(),
        };
        Tape { calls: Vec::new(), wants }
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if the tape has no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the calls, and leaves an empty tape for the same observer, with the memory of a used one.
    pub fn take(&mut self, mut used: Tape) -> Tape {
        used.calls.clear();
        used.wants = self.wants;
        std::mem::replace(self, used)
    }

    /// Takes the first `count` calls, with the memory of a used tape.
    pub fn take_some(&mut self, count: usize, mut used: Tape) -> Tape {
        used.calls.clear();
        used.calls.extend(self.calls.drain(..count));
        used
    }

    /// Plays some of the calls to an observer. They were all made at this time.
    pub fn play(&self, calls: Range<usize>, time: Time, observer: &mut (impl Observer + ?Sized)) {
        for (node, call) in &self.calls[calls] {
            let node = *node;
            match call {
                Call::Event(event) => observer.event(time, node, event),
                Call::Notice(notice) => observer.notice(time, node, notice),
                Call::Held(messages) => observer.held(time, node, *messages),
                Call::Handled(handling) => observer.handled(time, node, *handling),
                Call::Datagram(datagram) => observer.datagram(time, node, &datagram.0, &datagram.1),
                Call::Sent(bytes, passage) => {
                    let nothing = Bytes::new();
                    let frame = Frame::new(None, &nothing).passing(*passage);
                    observer.frame_event(time, node, &Event::FrameSent { bytes: *bytes }, &frame);
                }
                Call::Frame(frame) => {
                    let FrameEvent { event, link, bytes, passage, original } = &**frame;
                    let frame = Frame { link: *link, bytes, passage: *passage, original: *original };
                    observer.frame_event(time, node, event, &frame);
                }
            }
        }
    }

    fn add(&mut self, node: NodeId, call: Call) {
        self.calls.push((node, call));
    }
}

impl Observer for Tape {
    fn event(&mut self, _: Time, node: NodeId, event: &Event) {
        self.add(node, Call::Event(event.clone()));
    }

    fn notice(&mut self, _: Time, node: NodeId, notice: &Notice) {
        self.add(node, Call::Notice(*notice));
    }

    fn watches_held(&self) -> bool {
        self.wants.held
    }

    fn held(&mut self, _: Time, node: NodeId, messages: u64) {
        self.add(node, Call::Held(messages));
    }

    fn watches_packets(&self) -> bool {
        self.wants.packets
    }

    fn handled(&mut self, _: Time, node: NodeId, handling: Handling) {
        self.add(node, Call::Handled(handling));
    }

    fn watches_receptions(&self) -> bool {
        self.wants.receptions
    }

    fn watches_frames(&self) -> bool {
        self.wants.frames
    }

    fn frame_event(&mut self, _: Time, node: NodeId, event: &Event, frame: &Frame<'_>) {
        let call = match (event, frame.passage) {
            _ if self.wants.frames => {
                let (event, bytes) = (event.clone(), frame.bytes.clone());
                let Frame { link, passage, original, .. } = *frame;
                Call::Frame(Box::new(FrameEvent { event, link, bytes, passage, original }))
            }
            (Event::FrameSent { bytes }, Some(passage)) => Call::Sent(*bytes, passage),
            _ => Call::Event(event.clone()),
        };
        self.add(node, call);
    }

    fn datagram(&mut self, _: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.add(from, Call::Datagram(Box::new((to.clone(), bytes.clone()))));
    }
}
