//! Links and packet types of the events of a trace.

use carillon_core::{Bytes, Event, Format, Frame, LinkDirection};

/// Describes the frames of events: the link, and the type of the packet by the protocol's format.
///
/// Equal datagrams in a row are parsed once, such as the copies of a multicast packet on its way.
#[derive(Debug)]
pub struct FrameNames {
    format: &'static Format,
    /// Frame of the next event: its link, if any.
    next: Option<Option<LinkDirection>>,
    /// Last datagram and its type. The datagram is kept, so that no other one can have its address.
    last: Option<(Bytes, Option<String>)>,
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
        FrameNames { format, next: None, last: None }
    }

    /// Takes the frame of the next event.
    pub fn note(&mut self, frame: &Frame<'_>) {
        let &Frame { link, bytes, .. } = frame;
        self.next = Some(link);
        let is_last = |(last, _): &(Bytes, _)| std::ptr::eq(&raw const last[..], &raw const bytes[..]);
        if !self.last.as_ref().is_some_and(is_last) {
            self.last = Some((bytes.clone(), self.format.packet_name(bytes)));
        }
    }

    /// Returns the description of an event, the first one after [`note`](FrameNames::note).
    pub fn take(&mut self, event: &Event) -> FrameName<'_> {
        let Some(link) = self.next.take() else { return FrameName::default() };
        let is_named = matches!(event, Event::Received { .. } | Event::ControlSent { .. });
        let packet = self.last.as_ref().filter(|_| !is_named).and_then(|(_, name)| name.as_deref());
        FrameName { link, packet }
    }
}
