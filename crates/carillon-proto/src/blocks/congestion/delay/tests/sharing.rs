//! Two flows on one bottleneck.

use super::*;

/// Two flows share a bottleneck and poll with every packet; the second begins a second later. Returns the share
/// of each between the tenth and the twentieth second. With a bound, the second flow has that many packets in
/// flight.
fn sharing_a_bottleneck(spacing: u64, room: u64, delay: u64, bound: Option<u64>) -> [f64; 2] {
    struct Flow {
        path: Path,
        serial: u64,
        arrived: u32,
        counted: u32,
        under_way: std::collections::VecDeque<(u64, Mark, u64, u64, bool)>,
    }
    let flow =
        || Flow { path: Path::new(), serial: 0, arrived: 0, counted: 0, under_way: Default::default() };
    let mut flows = [flow(), flow()];
    // Random jitter, so that no flow always finds the place that another packet has just left.
    let mut random = carillon_core::Seeds::new(1).stream("jitter");
    let (mut free, mut now) = (0, 0);
    while now < 20_000_000 {
        for (number, flow) in flows.iter_mut().enumerate() {
            let window = bound.filter(|_| number == 1).unwrap_or(flow.path.window());
            while now >= number as u64 * 1_000_000 && (flow.under_way.len() as u64) < window {
                flow.serial += 1;
                let fits = u64::max(free, now) - now <= room * spacing;
                if fits {
                    free = free.max(now) + spacing;
                }
                // A loss is noticed a little later than the packet would have arrived.
                let answer = free.max(now) + 2 * delay + u64::from(!fits) + random.below(2 * spacing);
                flow.under_way.push_back((now, flow.path.mark(), flow.serial, answer, fits));
            }
        }
        let first = |flow: &&mut Flow| flow.under_way.front().map_or(u64::MAX, |next| next.3);
        let flow = flows.iter_mut().min_by_key(first).expect("two");
        let (asked, then, serial, answer, fits) = flow.under_way.pop_front().expect("something is under way");
        now = now.max(answer);
        if fits {
            flow.arrived += 1;
            flow.counted += u32::from(now > 10_000_000);
            let (since, arrived) = (flow.serial - serial, flow.arrived);
            flow.path.on_answer(at(now), Answer { asked: at(asked), then, serial, since, arrived });
        }
    }
    flows.map(|flow| f64::from(flow.counted) * spacing as f64 / 10e6)
}

#[test]
fn two_flows_reach_equal_shares_in_any_order() {
    // 100 and 10 Mbit/s, near and far, with queues longer and shorter than the ones tried.
    for (spacing, delay) in [(120, 100), (120, 25_000), (1200, 100), (1200, 25_000)] {
        for room in [50, 170, 1000].into_iter().step_by(carillon_testkit::sampling_step(2)) {
            let shares = sharing_a_bottleneck(spacing, room, delay, None);
            let least = shares[0].min(shares[1]);
            assert!(
                least > 0.25 && shares[0] + shares[1] > 0.9,
                "spacing {spacing}, delay {delay}, room {room}: {shares:?}"
            );
        }
    }
}

/// Like a BBR flow, which has some two dozen packets in flight at a round-trip time of 0.2 ms.
#[test]
fn small_near_flow_keeps_third_of_fair_share() {
    let shares = sharing_a_bottleneck(120, 170, 100, Some(24));
    assert!(shares[1] > 0.5 / 3.0 && shares[0] + shares[1] > 0.99, "{shares:?}");
}
