use std::time::Duration;

use carillon_core::{BitRate, Bytes, Dest, MessageId, NoObserver, NodeId, Probability, Transmit};

use super::*;
use crate::graph::{Graph, GraphConfig, Link, Topology};
use crate::{Arrival, Network};

fn p(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

fn process(rule: LossRule) -> LossProcess {
    LossProcess::new(
        Arc::new(LossSection { stream: "loss.2".into(), rule }),
        LossyPlace::Interface(NodeId(1)),
    )
}

/// Fates of packets at equal intervals.
fn fates(rule: LossRule, interval: Duration, packets: u32) -> Vec<bool> {
    let mut process = process(rule);
    let at = |number: u32| Time::ZERO + interval * number;
    (0..packets).map(|number| process.loses(at(number), None, || Seeds::new(5))).collect()
}

fn share(fates: &[bool]) -> f64 {
    fates.iter().filter(|&&lost| lost).count() as f64 / fates.len() as f64
}

/// Lengths of the runs of consecutive losses.
fn bursts(fates: &[bool]) -> Vec<usize> {
    fates.split(|&lost| !lost).map(<[bool]>::len).filter(|&length| length > 0).collect()
}

const LEVELS: TwoLevel = TwoLevel {
    calm: Probability::ZERO,
    congested: Probability::ONE,
    calm_time: Duration::from_millis(900),
    congested_time: Duration::from_millis(100),
    burst: None,
};

#[test]
fn two_level_loses_its_mean_share() {
    for (calm, congested, burst) in [(0.01, 0.4, None), (0.01, 0.4, Some(3.0)), (0.0, 0.75, Some(3.0))] {
        let levels = TwoLevel { calm: p(calm), congested: p(congested), burst, ..LEVELS };
        // 5000 s have 5000 cycles of two periods: the share of the congested ones has a standard error of 0.0017.
        let fates = fates(LossRule::TwoLevel(levels), Duration::from_millis(5), 1_000_000);
        let (share, mean) = (share(&fates), levels.mean());
        assert!((share - mean).abs() < 0.0017 * 3.0, "{levels:?}: {share} and not {mean}");
    }
    assert!((TwoLevel { calm: p(0.01), congested: p(0.4), ..LEVELS }.mean() - 0.049).abs() < 1e-12);
}

#[test]
fn two_level_bursts_have_their_mean_length() {
    for burst in [1.0, 2.0, 5.0] {
        // One period, so that no change of periods cuts a burst.
        let calm_time = Duration::from_secs(1_000_000);
        let levels = TwoLevel { calm: p(0.1), calm_time, burst: Some(burst), ..LEVELS };
        let fates = fates(LossRule::TwoLevel(levels), Duration::from_millis(1), 300_000);
        let bursts = bursts(&fates);
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        // The length is geometric, with a variance of burst (burst - 1).
        let error = (burst * (burst - 1.0) / bursts.len() as f64).sqrt();
        assert!((mean - burst).abs() <= 4.0 * error, "{burst}: {mean}");
        assert!((share(&fates) - 0.1).abs() < 0.01, "{burst}: {}", share(&fates));
    }
}

#[test]
fn two_level_periods_depend_on_time_alone() {
    let slow = fates(LossRule::TwoLevel(LEVELS), Duration::from_millis(10), 10_000);
    let fast = fates(LossRule::TwoLevel(LEVELS), Duration::from_millis(1), 100_000);
    let same: Vec<bool> = fast.into_iter().step_by(10).collect();
    assert_eq!(slow, same);
    let durations = bursts(&slow);
    assert!(durations.len() > 50, "only {} congested periods", durations.len());
}

#[test]
fn everything_is_lost_at_a_rate_of_one_despite_short_bursts() {
    let levels = TwoLevel { calm: Probability::ONE, burst: Some(1.0), ..LEVELS };
    assert!(fates(LossRule::TwoLevel(levels), Duration::from_millis(1), 1000).iter().all(|&lost| lost));
    assert!(TwoLevel::is_possible(p(0.5), 1.0) && !TwoLevel::is_possible(p(0.51), 1.0));
}

#[test]
fn uniform_loses_one_packet_in_its_mean() {
    let fates = fates(LossRule::Uniform(10), Duration::from_millis(1), 100_000);
    assert!((share(&fates) - 0.1).abs() < 0.003, "{}", share(&fates));
    assert!(fates[..19].iter().any(|&lost| lost), "the first interval has at most 19 packets");
}

#[test]
fn list_counts_messages_or_packets_and_repeats() {
    let original = |message| Some(SingleLoss { source: NodeId(0), message: MessageId(message) });
    let loses = |counts, repeats, packets: &[Option<u64>]| {
        let list = LossList::new([false, true, true], counts, repeats);
        assert_eq!(list.losses(), 2);
        let mut process = process(LossRule::List(list));
        packets
            .iter()
            .map(|message| process.loses(Time::ZERO, message.and_then(original), || Seeds::new(1)))
            .collect::<Vec<_>>()
    };
    let packets = [Some(0), None, Some(1), None, Some(4), Some(1)];
    use PacketCount::{Messages, Packets};
    assert_eq!(loses(Messages, false, &packets), [false, false, true, false, false, true]);
    assert_eq!(loses(Messages, true, &packets), [false, false, true, false, true, true]);
    assert_eq!(loses(Packets, false, &packets), [false, true, true, false, false, false]);
    assert_eq!(loses(Packets, true, &packets), [false, true, true, false, true, true]);
    assert!(
        fates(LossRule::List(LossList::new([], Packets, true)), Duration::ZERO, 9).iter().all(|&lost| !lost)
    );
}

/// Fates of 3000 packets on a link with these losses.
fn on_link(model: LossModel, sections: &[Arc<LossSection>]) -> Vec<bool> {
    let mut topology = Topology::new(2);
    let ends = [NodeId(0), NodeId(1)];
    topology.add_link(Link { rate: Some(BitRate::mbps(1000)), ..Link::new(ends, Duration::from_millis(1)) });
    let mut graph = Graph::new(Arc::new(topology), GraphConfig::default(), &Seeds::new(9));
    graph.set_loss(0, NodeId(0), model);
    sections.iter().for_each(|section| graph.add_loss(0, NodeId(0), section.clone()));
    let mut arrival = Arrival::default();
    let packets = (0..3000_u64).map(|number| {
        let now = Time::ZERO + Duration::from_millis(10 * number);
        let transmit = Transmit::now(Dest::Node(NodeId(1)));
        graph.transmit(now, NodeId(0), transmit, Bytes::from_static(b"x"), &mut NoObserver);
        match graph.next_time() {
            Some((at, _)) => !graph.advance(at, &mut arrival, &mut NoObserver),
            None => true,
        }
    });
    packets.collect()
}

/// A packet survives if every section lets it pass, and each section loses the same packets with and without others.
#[test]
fn sections_of_a_link_lose_independently() {
    let section = |stream: &str, rule| Arc::new(LossSection { stream: stream.into(), rule });
    let model = LossModel::Bernoulli(p(0.2));
    let independent = section("loss.2", LossRule::Model(LossModel::Bernoulli(p(0.3))));
    let bursty =
        section("loss.3", LossRule::TwoLevel(TwoLevel { burst: Some(2.0), congested: p(0.5), ..LEVELS }));
    let alone = [
        on_link(model, &[]),
        on_link(LossModel::None, std::slice::from_ref(&independent)),
        on_link(LossModel::None, std::slice::from_ref(&bursty)),
    ];
    let expected: Vec<bool> = (0..3000).map(|at| alone.iter().any(|fates| fates[at])).collect();
    assert_eq!(on_link(model, &[independent.clone(), bursty.clone()]), expected);
    assert_eq!(on_link(model, &[bursty, independent]), expected);
    // Independent losses multiply: 0.8 times 0.7 survives.
    let both = (0..3000).filter(|&at| !alone[0][at] && !alone[1][at]).count() as f64 / 3000.0;
    assert!((both - 0.56).abs() < 4.0 * (0.56_f64 * 0.44 / 3000.0).sqrt(), "{both}");
    assert!(alone.iter().all(|fates| share(fates) > 0.02), "each loses some");
}

/// A section draws like the model of a link that draws ahead.
#[test]
fn process_of_a_model_draws_like_a_link() {
    let model = LossModel::GilbertElliott { to_bad: p(0.1), to_good: p(0.3), good: p(0.05), bad: p(0.7) };
    let section = Arc::new(LossSection { stream: "loss".into(), rule: LossRule::Model(model) });
    assert_eq!(on_link(model, &[]), on_link(LossModel::None, &[section]));
}
