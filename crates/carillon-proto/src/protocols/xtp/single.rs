//! Associations of one message, carried by FIRST: datagrams, acknowledged datagrams and transactions.
//!
//! They follow each other under one key. Sequence numbers continue from one association to the next, so that late
//! packets are not mistaken for new ones. A receiver keeps only the start of the next association.

use bytes::Bytes;
use carillon_core::{Config, DropReason, MessageId, Received, Transmit};
use carillon_wire::xtp::{Body, Common, Data, Packet, Rates, Traffic, option};

use super::config::{ErrorControl, PARAMETERS, Paradigm, Settings};
use super::receiver::{Answer, MessageEnd, XtpReceiver};
use super::sender::XtpSender;
use super::tag::EMPTY_TAG;

/// Converts the settings of the datagram entry to those of XTP.
pub(super) fn as_xtp(datagrams: &Config) -> Config {
    let mut config = Config::defaults(PARAMETERS).with(datagrams);
    config.set(PARAMETERS, "paradigm", "datagram").expect("it is one of them");
    config
}

impl XtpSender {
    /// Emits FIRST, with the piece `carried` if given, and a status request if `asks`.
    pub(super) fn put_first(
        &mut self,
        context: &mut super::sender::Context,
        carried: Option<u64>,
        asks: bool,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let (paradigm, traffic) = (self.settings.paradigm, self.traffic());
        let request = match paradigm {
            Paradigm::Stream => option::SREQ,
            _ => self.settings.asks_for,
        };
        let mut options = if asks { request } else { 0 };
        if let Some(number) = carried {
            // An answer to this sync number covers the piece, which leaves with the request.
            self.stream.sent(number, self.sync, self.sync);
        }
        let piece = carried.and_then(|number| self.stream.piece(number));
        let Some(piece) = piece else {
            self.emit(options, 0, Body::First(self.address, traffic, Data::default()), buf);
            context.control("first", 0);
            return Transmit::now(self.dest(context));
        };
        options |= self.ends_with(piece);
        options |= match paradigm {
            Paradigm::Stream => 0,
            Paradigm::Datagram => option::WCLOSE | option::RCLOSE | option::END,
            Paradigm::AcknowledgedDatagram | Paradigm::Transaction => option::WCLOSE,
        };
        let data = Data { tag: self.tag_of(piece), bytes: &piece.bytes };
        self.emit(options, piece.seq, Body::First(self.address, traffic, data), buf);
        let (message, times) = (MessageId(piece.message), piece.times);
        context.events.data_sent(Transmit::now(self.dest(context)), message, buf.len(), times > 1)
    }

    /// Traffic segment with the service and the sender's rates.
    pub(super) fn traffic(&self) -> Traffic<'static> {
        let Settings { service, rates: (outrate, outburst), .. } = self.settings;
        let maxdata = self.settings.maxdata as u32;
        let (inrate, inburst) = (Rates::UNLIMITED, Rates::UNLIMITED);
        Traffic::rates(service, Rates { maxdata, inrate, inburst, outrate, outburst })
    }

    /// Emits the next message.
    pub(super) fn put_single(
        &mut self,
        context: &mut super::sender::Context,
        number: u64,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let asks = self.settings.errors != ErrorControl::Off;
        if asks {
            self.request_status(context);
        }
        self.put_first(context, Some(number), asks, buf)
    }

    /// Status in a packet that is no control packet: a transaction's response acknowledges the whole request.
    pub(super) fn response(&self, packet: &Packet<'_>) -> Option<Common> {
        let is_response = self.settings.paradigm == Paradigm::Transaction && packet.has(option::RCLOSE);
        match packet.body {
            Body::Data(_) if is_response => {
                Some(Common { rseq: self.stream.end_of(packet.seq), alloc: u64::MAX, echo: packet.sync })
            }
            _ => None,
        }
    }

    /// Returns true if a sent message has unanswered receivers.
    pub(super) fn awaits_answers(&self) -> bool {
        self.stream.oldest().is_some_and(|oldest| oldest.window.is_some())
    }

    /// Returns true if every receiver has this message. An answer to an earlier transmission counts.
    pub(super) fn has_all_answered(&self) -> bool {
        let end = self.stream.oldest().map(|oldest| oldest.end);
        self.settings.paradigm.is_single() && end.is_some_and(|end| self.group.rseq() >= Some(end))
    }

    /// Reports the receivers that caused a retransmission.
    pub(super) fn report_unanswered(&mut self, context: &mut super::sender::Context) {
        let Some(end) = self.stream.oldest().map(|oldest| oldest.end) else { return };
        for (index, _) in self.group.active().filter(|(_, receiver)| receiver.rseq < end) {
            context.events.repair_needed(self.group.node(index), 1);
        }
    }
}

impl XtpReceiver {
    /// Handles a packet of an association of one message.
    pub(super) fn handle_single(
        &mut self,
        context: &mut super::receiver::Context,
        packet: &Packet<'_>,
        datagram: Received<'_>,
    ) {
        match packet.body {
            Body::First(_, traffic, data) if traffic.service == self.settings.service => {
                let from = datagram.bytes.len() - data.bytes.len();
                self.on_single(context, packet, data, datagram.bytes.slice(from..));
            }
            // END of a transaction.
            Body::Cntl(_) if packet.has(option::END) && self.is_asked && self.unread.is_empty() => {
                context.received("cntl", self.messages);
                self.is_asked = false;
            }
            // The sender abandoned this receiver.
            Body::Diag(_) => {
                context.received("diag", self.messages);
                self.is_abandoned = true;
            }
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    /// Handles a FIRST with its message.
    fn on_single(
        &mut self,
        context: &mut super::receiver::Context,
        packet: &Packet<'_>,
        data: Data<'_>,
        bytes: Bytes,
    ) {
        self.echo = self.echo.max(packet.sync);
        if self.settings.errors == ErrorControl::Off {
            return self.on_unrepaired(context, packet, data, bytes);
        }
        let (next, end) = (self.stream.next(), packet.seq.saturating_add(bytes.len() as u64));
        self.closed = Some(end);
        if packet.seq > next {
            // The sender has continued without this receiver.
            context.events.dropped(DropReason::OutOfOrder);
        } else if bytes.is_empty() || (packet.seq < next && end > next) {
            context.events.dropped(DropReason::Malformed);
        } else if packet.seq < next {
            context.events.dropped(DropReason::Duplicate);
        } else if end > self.limit() {
            context.events.dropped(DropReason::BufferFull);
        } else {
            context.received("first", self.messages);
            self.is_asked = true;
            self.stream.start_at(end);
            self.on_ordered_bytes(context, bytes, Some(MessageEnd::plain(data.tag == Some(EMPTY_TAG))));
            if self.status_waits_for_user() {
                // The answer follows when the user has read the message, or when the sender asks again.
                self.status_when_read = Some(end);
                return self.answer_when_read();
            }
        }
        self.answer(context, Answer::Status);
    }

    /// Emits the answer: an acknowledgment with END, a response, or only the status while the user has not read the
    /// message.
    pub(super) fn put_single_answer(&mut self, context: &mut super::receiver::Context, buf: &mut Vec<u8>) {
        let rseq = self.stream.next() - if self.status_waits_for_user() { self.unread_bytes } else { 0 };
        let closes = self.closed.is_some_and(|end| rseq >= end);
        let common = Common { rseq, alloc: self.limit(), echo: self.echo };
        let both = option::RCLOSE | option::WCLOSE;
        let responses = self.messages - self.unread.len() as u64;
        match self.settings.paradigm {
            Paradigm::Transaction if closes => {
                // A response takes one byte of its stream, as an empty message does.
                let data = Data { tag: Some(EMPTY_TAG), bytes: &[0] };
                let seq = responses.saturating_sub(1);
                self.emit(both | option::EOM, self.echo, seq, Body::Data(data), buf);
                context.control("response", self.messages);
            }
            _ => {
                self.emit(if closes { both | option::END } else { 0 }, 0, 0, Body::Cntl(common), buf);
                context.control("cntl", self.messages);
            }
        }
    }

    /// Returns true if the status waits until the user has read the message (DREQ).
    fn status_waits_for_user(&self) -> bool {
        self.settings.asks_for == option::DREQ
    }

    /// Reports messages lost that the sender does not resend.
    pub(super) fn report_lost(&mut self, context: &mut super::receiver::Context, until: u64) {
        for message in (self.messages..until).map(MessageId) {
            context.events.loss_found(context.sender, message);
            context.events.loss_final(context.sender, message);
        }
    }
}
