//! A child: keeps what comes, and says what it has when it is asked.

use carillon_core::{BuildContext, Config, Delivery, Dest, DropReason, Received, Role, Transmit};
use carillon_wire::pf::Packet;

use super::intake::Intake;
use crate::blocks::{Part, Player, Scene};

/// Delivers in order; responds when a poll names it.
#[derive(Debug)]
pub struct PfReceiver {
    intake: Intake,
}

impl PfReceiver {
    /// A child of the sender.
    pub fn new(context: &BuildContext, settings: &Config) -> Player<Self> {
        let identity = context.identities.own(context.node) as u32;
        let intake = Intake::new(identity, context.most_messages(settings.count("window")));
        PfReceiver { intake }.play(context)
    }
}

/// A packet of the parent at a child that delivers.
pub(crate) fn take<T: Ord + Copy>(
    intake: &mut Intake,
    scene: &mut Scene<T>,
    packet: &Packet<'_>,
    datagram: &Received<'_>,
) {
    let before = intake.window.expected();
    let heard = match intake.on_packet(packet) {
        Ok(heard) => heard,
        Err(reason) => return scene.events.dropped(reason),
    };
    if let Some(skipped) = heard.skipped {
        scene.events.loss_found(scene.sender, before);
        for (number, payload) in skipped.survivors {
            scene.deliver_sent(number, payload);
        }
    }
    let Packet::Data { payload, .. } = packet else { return scene.received("poll", heard.number) };
    let missed = !intake.window.early().is_empty();
    let begin = datagram.bytes.len() - payload.len();
    match intake.keep(heard.number, datagram.bytes.slice(begin..)) {
        Err(reason) => scene.events.dropped(reason),
        Ok(()) => {
            scene.received("data", heard.number);
            if heard.number > intake.window.expected() && !missed {
                scene.events.loss_found(scene.sender, intake.window.expected());
            }
        }
    }
    while let Some((number, payload)) = intake.window.pop() {
        scene.deliver_sent(number, payload);
    }
}

impl Part for PfReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.intake.window.held())
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        match scene.of_sender(datagram.source, Packet::parse(datagram.bytes)) {
            None => {}
            Some(Packet::Resp(_)) => scene.events.dropped(DropReason::Foreign),
            Some(packet) => take(&mut self.intake, scene, &packet, &datagram),
        }
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let left = self.intake.left();
        let last = self.intake.response(left, |packet| packet.emit(scene.association, buf))?;
        scene.control("resp", last);
        Some(Transmit::now(Dest::Node(scene.sender)))
    }

    fn poll_delivery(&mut self, scene: &mut Scene) -> Option<Delivery> {
        let delivery = scene.poll_delivery()?;
        self.intake.window.fetched();
        Some(delivery)
    }
}
