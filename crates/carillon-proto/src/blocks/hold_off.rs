//! Suppression of repeated repairs within a short time.

use std::time::Duration;

use carillon_core::Time;

/// Time of the last repair of a message to each destination. Many receivers that miss the same message request it at
/// about the same time, and each packet after a gap could cause the request again.
#[derive(Clone, Debug)]
pub struct HoldOff<D = ()>(Vec<(D, Time)>);

impl<D> Default for HoldOff<D> {
    fn default() -> Self {
        HoldOff(Vec::new())
    }
}

impl<D: Copy + PartialEq> HoldOff<D> {
    /// Returns true if nothing was sent to this destination within `span`.
    pub fn is_over(&self, now: Time, to: D, span: Duration) -> bool {
        self.0.iter().all(|&(there, at)| there != to || now.since(at) >= span)
    }

    /// Records a repair to this destination, and forgets entries older than `span`.
    pub fn note(&mut self, now: Time, to: D, span: Duration) {
        // One entry per recent destination bounds the list, which is searched in full.
        self.0.retain(|&(there, at)| there != to && now.since(at) < span);
        self.0.push((to, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_off_agrees_with_list_of_sent_repairs() {
        let mut rng = carillon_core::Seeds::new(1).stream("hold-off");
        for span in [0, 1, 7].map(Duration::from_millis) {
            let (mut hold, mut all, mut now) = (HoldOff::default(), Vec::new(), Time::ZERO);
            for _ in 0..2000 {
                now += Duration::from_millis(rng.below(3));
                let to = rng.below(4);
                let just = all.iter().any(|&(there, at): &(u64, Time)| there == to && now.since(at) < span);
                assert_eq!(hold.is_over(now, to, span), !just);
                if rng.below(2) == 0 {
                    hold.note(now, to, span);
                    all.push((to, now));
                }
                assert!(hold.0.len() <= 4, "one for each destination");
            }
        }
    }
}
