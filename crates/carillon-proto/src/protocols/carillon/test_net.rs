//! A sender and receivers, driven by hand.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, Delivery, Dest, GroupId, Machine, NodeId, PortId, Received, Receiver, Rng, Scope,
    Seeds, Sender, Time,
};
use carillon_testkit::{SENDER, peer_context};

use super::{CarillonReceiver, CarillonSender, ENTRY};

/// Sender and receivers on links without delay that lose a share of the packets.
pub(super) struct Net {
    pub sender: Box<dyn Machine>,
    pub receivers: Vec<Box<dyn Machine>>,
    loss: f64,
    rng: Rng,
    pub now: Time,
    /// Number of datagrams the sender has sent.
    pub sent: u64,
    /// Messages that each receiver has delivered.
    pub delivered: Vec<Vec<Bytes>>,
}

impl Net {
    pub fn new(receivers: u32, loss: f64) -> Net {
        let nodes: Vec<NodeId> = (0..=receivers).map(NodeId).collect();
        let mut settings = Config::defaults(ENTRY.parameters);
        for (key, value) in [("past_limit", "wait"), ("block", "32")] {
            settings.set(ENTRY.parameters, key, value).expect("a setting");
        }
        let context = |rank| {
            let members = nodes[1..].into();
            BuildContext { members, ..peer_context(&nodes, rank, false) }
        };
        Net {
            sender: Box::new(CarillonSender::new(&context(0), &settings).expect("it can be made")),
            receivers: (1..=receivers as usize)
                .map(|rank| -> Box<dyn Machine> {
                    Box::new(CarillonReceiver::new(&context(rank), &settings))
                })
                .collect(),
            loss,
            rng: Seeds::new(1).stream("loss"),
            now: Time::ZERO,
            sent: 0,
            delivered: vec![Vec::new(); receivers as usize],
        }
    }

    pub fn sender(&mut self) -> &mut dyn Sender {
        self.sender.as_sender().expect("a sender")
    }

    pub fn receiver(&mut self, at: usize) -> &mut dyn Receiver {
        self.receivers[at].as_receiver().expect("a receiver")
    }

    /// Advances the time until the sender holds no message.
    pub fn settle(&mut self) {
        let group = Dest::group(GroupId(0));
        for _ in 0..100_000 {
            let mut buf = Vec::new();
            while self.sender.poll_transmit(self.now, &mut buf).is_some() {
                self.sent += 1;
                let bytes = Bytes::from(std::mem::take(&mut buf));
                for receiver in &mut self.receivers {
                    if !self.rng.chance(self.loss) {
                        receiver.handle_datagram(self.now, received(SENDER, &group, &bytes));
                    }
                }
            }
            // The sender must not have anything left to transmit at this instant.
            assert_eq!(self.sender.poll_transmit(self.now, &mut buf), None, "{:?}", self.sender);
            for (at, receiver) in self.receivers.iter_mut().enumerate() {
                receiver.handle_timeout(self.now);
                while let Some(Delivery { payload, .. }) =
                    receiver.as_receiver().and_then(|it| it.poll_delivery())
                {
                    self.delivered[at].push(payload);
                }
                while receiver.poll_transmit(self.now, &mut buf).is_some() {
                    let node = NodeId(at as u32 + 1);
                    let bytes = Bytes::from(std::mem::take(&mut buf));
                    self.sender.handle_datagram(self.now, received(node, &Dest::Node(SENDER), &bytes));
                }
            }
            if self.sender.held() == Some(0) {
                return;
            }
            self.now += Duration::from_micros(500);
            self.sender.handle_timeout(self.now);
        }
        panic!("it does not end: {:?}", self.sender);
    }
}

pub(super) fn received<'a>(source: NodeId, destination: &'a Dest, bytes: &'a Bytes) -> Received<'a> {
    Received { source, destination, ingress: PortId(0), scope: Scope::GLOBAL, bytes }
}

pub(super) fn message(number: u64) -> Bytes {
    Bytes::from(format!("{number:0100}"))
}
