//! Repairs that are the exclusive or of several messages, so that one packet serves receivers with different losses.
//!
//! A receiver that misses one message of a sum recovers it with one operation per byte, far less work than an erasure
//! code. While receivers report all losses and few share the same, hardly more sums are needed than the worst
//! receiver misses messages (Larsson and Johansson 2006, "Multi-User ARQ"; Rozner et al. 2007, "ER: efficient
//! retransmission scheme").

use std::collections::BTreeMap;

use bytes::Bytes;

use super::erasure::{PREFIX, message_in};

/// Distributes messages over packets so that no receiver misses two messages of one packet; `None` if that takes more
/// than `packets`. `lacking` gives a bit set of receivers for each message; a packet has at most `degree` messages.
///
/// Greedy: messages that most receivers miss are placed first, each in the packet that serves most receivers and has
/// room. With independent losses this takes hardly more packets than the worst receiver misses.
pub fn combine(lacking: &BTreeMap<u16, u64>, degree: usize, packets: u64) -> Option<Vec<Vec<u16>>> {
    let mut by_need: Vec<(u16, u64)> = lacking.iter().map(|(&place, &who)| (place, who)).collect();
    // A message that many receivers miss fits the fewest packets, so it is placed first.
    by_need.sort_by_key(|&(place, who)| (std::cmp::Reverse(who.count_ones()), place));
    let mut shares: Vec<(u64, Vec<u16>)> = Vec::new();
    for (place, who) in by_need {
        let fits =
            |(_, (served, places)): &(usize, &(u64, Vec<u16>))| served & who == 0 && places.len() < degree;
        let fitting = shares.iter().enumerate().filter(fits);
        // Of several equal packets, take the first.
        match fitting.rev().max_by_key(|(_, (served, _))| served.count_ones()).map(|(at, _)| at) {
            Some(at) => {
                shares[at].0 |= who;
                shares[at].1.push(place);
            }
            // The caller prefers coded symbols to more packets than this.
            None if shares.len() as u64 >= packets => return None,
            None => shares.push((who, vec![place])),
        }
    }
    let mut shares: Vec<Vec<u16>> = shares.into_iter().map(|(_, places)| places).collect();
    shares.iter_mut().for_each(|places| places.sort_unstable());
    // Oldest messages first, since delivery in order waits for them.
    shares.sort_unstable();
    Some(shares)
}

/// Exclusive or of messages, each preceded by its length (16 bits) and padded with zeros.
pub fn sum<'a>(messages: impl Iterator<Item = &'a Bytes>) -> Vec<u8> {
    let mut sum = vec![0; PREFIX];
    messages.for_each(|message| add(message, &mut sum));
    sum
}

/// Message of a sum that is not among these; `None` if there is no such message.
pub fn without<'a>(sum: &[u8], messages: impl Iterator<Item = &'a Bytes>) -> Option<Bytes> {
    let mut rest = sum.to_vec();
    messages.for_each(|message| add(message, &mut rest));
    // A sum is as long as its longest message. If it is shorter, it is not a sum of these messages.
    if rest.len() > sum.len() { None } else { message_in(&rest) }
}

fn add(message: &[u8], sum: &mut Vec<u8>) {
    let end = PREFIX + message.len();
    if sum.len() < end {
        sum.resize(end, 0);
    }
    let (prefix, rest) = sum.split_at_mut(PREFIX);
    // The lengths are part of the sum, so that the receiver also recovers the length of the missing message.
    let len = (message.len() as u16).to_be_bytes();
    prefix.iter_mut().zip(len).for_each(|(byte, other)| *byte ^= other);
    rest.iter_mut().zip(message).for_each(|(byte, other)| *byte ^= other);
}

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::*;

    /// Random losses: the messages that receivers miss with a chance of one in `one_in`, and the number the worst one
    /// misses.
    fn lost(rng: &mut Rng, receivers: u32, messages: u16, one_in: u64) -> (BTreeMap<u16, u64>, u64) {
        let (mut lacking, mut each) = (BTreeMap::new(), vec![0; receivers as usize]);
        for place in 0..messages {
            for receiver in (0..receivers).filter(|_| rng.below(one_in) == 0).collect::<Vec<_>>() {
                *lacking.entry(place).or_insert(0) |= 1 << receiver;
                each[receiver as usize] += 1;
            }
        }
        (lacking, each.into_iter().max().unwrap_or_default())
    }

    #[test]
    fn no_receiver_misses_two_messages_of_one_packet() {
        let mut rng = Seeds::new(1).stream("shares");
        for _ in 0..300 {
            let (receivers, messages) = (1 + rng.below(64) as u32, rng.below(60) as u16);
            let (one_in, degree) = (1 + rng.below(20), 1 + rng.below(12) as usize);
            let (lacking, most) = lost(&mut rng, receivers, messages, one_in);
            let shares = combine(&lacking, degree, u64::MAX).expect("no bound");
            assert!(shares.len() as u64 >= most);
            let mut all: Vec<u16> = shares.iter().flatten().copied().collect();
            all.sort_unstable();
            assert!(all.iter().eq(lacking.keys()));
            for places in &shares {
                assert!(places.len() <= degree && places.is_sorted());
                let mut served = 0;
                for place in places {
                    assert_eq!(served & lacking[place], 0);
                    served |= lacking[place];
                }
            }
            let packets = shares.len() as u64;
            assert_eq!(combine(&lacking, degree, packets), Some(shares));
            assert!(packets == 0 || combine(&lacking, degree, packets - 1).is_none());
        }
    }

    #[test]
    fn packets_hardly_exceed_losses_of_worst_receiver() {
        let mut rng = Seeds::new(2).stream("shares");
        for (receivers, one_in) in [(4, 100), (4, 5), (16, 100), (16, 20), (16, 5), (64, 100), (64, 20)] {
            let (lacking, most) = lost(&mut rng, receivers, 2048, one_in);
            let packets = combine(&lacking, 64, u64::MAX).expect("no bound").len() as u64;
            assert!(packets <= most + 2, "{packets} for {most}: {receivers} receivers, one in {one_in}");
        }
    }

    #[test]
    fn sum_yields_only_its_missing_message() {
        let mut rng = Seeds::new(3).stream("sums");
        for _ in 0..300 {
            let messages: Vec<Bytes> = (0..1 + rng.below(12))
                .map(|_| {
                    let mut bytes = vec![0; rng.below(40) as usize];
                    rng.fill(&mut bytes);
                    bytes.into()
                })
                .collect();
            let whole = sum(messages.iter());
            let missing = rng.below(messages.len() as u64) as usize;
            let others =
                || messages.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, message)| message);
            assert_eq!(without(&whole, others()).as_ref(), Some(&messages[missing]));
            // A message longer than the sum cannot have been in it, and no message is longer than the sum.
            let long = Bytes::from(vec![0; 41]);
            assert_eq!(without(&whole, others().chain([&long])), None);
            let mut wild = whole.clone();
            wild[0] ^= 0x80;
            assert_eq!(without(&wild, others()), None);
        }
        assert_eq!(without(&[], std::iter::empty()), None);
    }
}
