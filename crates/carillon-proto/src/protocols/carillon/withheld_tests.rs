//! Messages that do not go out unless somebody lacks them.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, Delivery, Dest, GroupId, Machine, MessageId, NodeId, PortId, Received, Receiver,
    Rng, Scope, Seeds, Sender, Time,
};
use carillon_testkit::{SENDER, peer_context};

use super::{CarillonReceiver, CarillonSender, ENTRY};

/// A sender and receivers that hear everything at once, but for this part of it.
struct Net {
    sender: Box<dyn Machine>,
    receivers: Vec<Box<dyn Machine>>,
    loss: f64,
    rng: Rng,
    now: Time,
    /// Datagrams that the sender has sent.
    sent: u64,
    /// What each receiver has delivered.
    delivered: Vec<Vec<Bytes>>,
}

impl Net {
    fn new(receivers: u32, loss: f64) -> Net {
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

    fn sender(&mut self) -> &mut dyn Sender {
        self.sender.as_sender().expect("a sender")
    }

    fn receiver(&mut self, at: usize) -> &mut dyn Receiver {
        self.receivers[at].as_receiver().expect("a receiver")
    }

    /// Goes on until the sender holds nothing any more.
    fn settle(&mut self) {
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
            // What it had to say it has said.
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

fn received<'a>(source: NodeId, destination: &'a Dest, bytes: &'a Bytes) -> Received<'a> {
    Received { source, destination, ingress: PortId(0), scope: Scope::GLOBAL, bytes }
}

fn message(number: u64) -> Bytes {
    Bytes::from(format!("{number:0100}"))
}

/// So many messages are withheld, of which each receiver has those that fit; how many packets went out.
fn withheld(receivers: u32, loss: f64, messages: u64, has: impl Fn(usize, u64) -> bool) -> u64 {
    let mut net = Net::new(receivers, loss);
    // One that says what follows.
    net.sender().offer(Time::ZERO, message(0)).expect("there is room");
    net.settle();
    let (now, before) = (net.now, net.sent);
    for number in 1..=messages {
        for at in (0..receivers as usize).filter(|&at| has(at, number)) {
            net.receiver(at).supply(now, MessageId(number), message(number));
        }
        assert_eq!(net.sender().withhold(now, message(number)), Ok(MessageId(number)));
    }
    net.settle();
    // They are followed by others as ever.
    let now = net.now;
    net.sender().offer(now, message(messages + 1)).expect("there is room");
    net.sender().finish(now);
    net.settle();
    assert!(net.sender().is_finished());
    for delivered in &net.delivered {
        assert!(delivered.iter().eq((0..=messages + 1).map(message).collect::<Vec<_>>().iter()));
    }
    net.sent - before
}

#[test]
fn what_all_have_does_not_go_out() {
    // Whole blocks.
    let packets = withheld(3, 0.0, 192, |_, _| true);
    // The last message, questions.
    assert!(packets < 20, "{packets} packets");
}

#[test]
fn only_what_somebody_lacks_goes_out() {
    let packets = withheld(1, 0.0, 200, |_, number| number % 10 != 0);
    assert!((20..50).contains(&packets), "{packets} packets for 20 messages");
    // Sums serve two that lack others.
    let packets = withheld(2, 0.0, 200, |at, number| number % 10 != at as u64);
    assert!((20..60).contains(&packets), "{packets} packets for 20 messages each");
}

#[test]
fn who_has_nothing_gets_everything_through_losses() {
    let packets = withheld(2, 0.1, 300, |at, number| at == 0 && number % 3 != 0);
    assert!((300..420).contains(&packets), "{packets} packets for 300 messages");
}

/// The first of the block goes out: nothing is quiet then, and nothing else would have it asked about.
#[test]
fn a_block_that_is_full_of_them_is_asked_about_at_once() {
    let mut net = Net::new(1, 0.0);
    net.sender().offer(Time::ZERO, message(0)).expect("there is room");
    (1..32).for_each(|number| _ = net.sender().withhold(Time::ZERO, message(number)).expect("there is room"));
    net.settle();
    assert_eq!(net.delivered[0].len(), 32);
}
