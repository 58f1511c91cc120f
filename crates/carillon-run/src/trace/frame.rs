//! Links and packet types of the events of a trace.

use carillon_core::{Event, Format, Frame, LinkDirection};

use super::parsed::LastParsed;

/// Describes the frames of events: the link, and the type of the packet by the protocol's format.
#[derive(Debug)]
pub struct FrameNames {
    format: &'static Format,
    /// Frame of the next event: its link, if any.
    next: Option<Option<LinkDirection>>,
    /// Type of the last datagram.
    last: LastParsed<Option<String>>,
}

/// Link and packet type of an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameName<'a> {
    /// Link, if the network has links.
    pub link: Option<LinkDirection>,
    /// Type of the packet, if the event itself does not name it.
    pub packet: Option<&'a str>,
}

impl FrameNames {
    /// Names packets of a format.
    pub fn new(format: &'static Format) -> Self {
        FrameNames { format, next: None, last: LastParsed::new() }
    }

    /// Takes the frame of the next event.
    pub fn note(&mut self, frame: &Frame<'_>) {
        let &Frame { link, bytes, .. } = frame;
        self.next = Some(link);
        self.last.of(bytes, |bytes| self.format.packet_name(bytes));
    }

    /// Returns the description of an event, the first one after [`note`](FrameNames::note).
    pub fn take(&mut self, event: &Event) -> FrameName<'_> {
        let Some(link) = self.next.take() else { return FrameName::default() };
        let is_named = matches!(event, Event::Received { .. } | Event::ControlSent { .. });
        let packet = self.last.get().filter(|_| !is_named).and_then(Option::as_deref);
        FrameName { link, packet }
    }
}
