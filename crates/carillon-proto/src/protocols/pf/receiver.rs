//! Child that stores messages and responds to polls.

use carillon_core::{BuildContext, Config, Delivery, Dest, DropReason, Received, Role, Transmit};
use carillon_wire::pf::Packet;

use super::intake::Intake;
use crate::blocks::{MachineContext, Part, Player};

/// Receiver that delivers in order and responds to polls that name it.
#[derive(Debug)]
pub struct PfReceiver {
    intake: Intake,
}

impl PfReceiver {
    /// Creates a child of the sender.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        let identity = build.identities.own(build.node) as u32;
        let intake = Intake::new(identity, build.max_messages(settings.count("window")));
        PfReceiver { intake }.play(build)
    }
}

/// Handles a packet of the parent at a child that delivers to an application.
pub(crate) fn take<T: Ord + Copy>(
    intake: &mut Intake,
    context: &mut MachineContext<T>,
    packet: &Packet<'_>,
    datagram: &Received<'_>,
) {
    let before = intake.window.expected();
    let message = match intake.on_packet(packet) {
        Ok(message) => message,
        Err(reason) => return context.events.dropped(reason),
    };
    if let Some(skipped) = message.skipped {
        context.events.loss_found(context.sender, before);
        for (number, payload) in skipped.survivors {
            context.deliver_sent(number, payload);
        }
    }
    let Packet::Data { payload, .. } = packet else { return context.received("poll", message.number) };
    // A gap is recorded once, when its first message beyond arrives.
    let missed = !intake.window.early().is_empty();
    let begin = datagram.bytes.len() - payload.len();
    match intake.keep(message.number, datagram.bytes.slice(begin..)) {
        Err(reason) => context.events.dropped(reason),
        Ok(()) => {
            context.received("data", message.number);
            if message.number > intake.window.expected() && !missed {
                context.events.loss_found(context.sender, intake.window.expected());
            }
        }
    }
    while let Some((number, payload)) = intake.window.pop() {
        context.deliver_sent(number, payload);
    }
}

impl Part for PfReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.intake.window.held())
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        match context.of_sender(datagram.source, Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Resp(_)) => context.events.dropped(DropReason::Foreign),
            Some(packet) => take(&mut self.intake, context, &packet, &datagram),
        }
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let left = self.intake.left();
        let last = self.intake.response(left, |packet| packet.emit(context.association, buf))?;
        context.control("resp", last);
        Some(Transmit::now(Dest::Node(context.sender)))
    }

    fn poll_delivery(&mut self, context: &mut MachineContext) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.intake.window.fetched();
        Some(delivery)
    }
}
