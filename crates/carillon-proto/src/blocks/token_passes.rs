//! Passes of a rotating token, as one site counts them.
//!
//! Counting passes gives both rules of Chang and Maxemchuk (Segovia 1996, section 2.9). When the token was accepted `L`
//! times after an entry of the order, `L` further sites hold it. When the token has gone around, all sites hold it.

/// Entry of a total order that a token site made. It may pass the token on.
pub trait Turn: Copy {
    /// Position in the order.
    fn timestamp(&self) -> u64;

    /// Rank of the token site.
    fn site(&self) -> u16;

    /// Rank of the next token site; the same if the token stays.
    fn next(&self) -> u16;

    /// Returns true if the entry is a message.
    fn has_message(&self) -> bool;
}

/// Passes of the token since the view began.
#[derive(Clone, Debug)]
pub struct TokenPasses<T> {
    count: u64,
    /// Entries since the last pass.
    pub since: u64,
    /// Number of passes before the last message.
    before_last_message: Option<u64>,
    /// Last entry of the view.
    pub last: Option<T>,
    /// Timestamp below which each site has accepted all entries, from its confirmations and its own entries.
    pub confirmed: Vec<u64>,
}

impl<T: Turn> TokenPasses<T> {
    /// Creates the count for a new view of a group of `sites` sites, without entries.
    pub fn new(sites: usize) -> Self {
        TokenPasses { count: 0, since: 0, before_last_message: None, last: None, confirmed: vec![0; sites] }
    }

    /// Counts the next entry and returns the number of passes before it.
    pub fn on_entry(&mut self, entry: T) -> u64 {
        let before = self.count;
        // A site may make an entry only after it has accepted all earlier ones.
        self.confirm(entry.site(), entry.timestamp());
        self.last = Some(entry);
        if entry.has_message() {
            self.before_last_message = Some(before);
        }
        self.since += 1;
        if entry.next() != entry.site() {
            self.count += 1;
            self.since = 0;
        }
        before
    }

    /// Records that a site has accepted all entries below a timestamp.
    pub fn confirm(&mut self, site: u16, below: u64) {
        let confirmed = &mut self.confirmed[usize::from(site)];
        *confirmed = below.max(*confirmed);
    }

    /// Returns true if the site to which the last entry passed the token is known to have accepted it, or if the
    /// token stayed.
    pub fn is_last_accepted(&self) -> bool {
        let accepted = |last: T| self.confirmed[usize::from(last.next())] > last.timestamp();
        self.last.is_none_or(|last| last.next() == last.site() || accepted(last))
    }

    /// Number of accepted passes. Only the last can be open, because the next entry comes from the site that accepted
    /// the token.
    pub fn accepted(&self) -> u64 {
        self.count - u64::from(!self.is_last_accepted())
    }

    /// Accepted passes since the last message of this view, or `None` without a message. The pass of the entry with
    /// that message counts.
    pub fn accepted_since_last_message(&self) -> Option<u64> {
        Some(self.accepted() - self.before_last_message?.min(self.accepted()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timestamp, site, next site, message.
    type Entry = (u64, u16, u16, bool);

    impl Turn for Entry {
        fn timestamp(&self) -> u64 {
            self.0
        }

        fn site(&self) -> u16 {
            self.1
        }

        fn next(&self) -> u16 {
            self.2
        }

        fn has_message(&self) -> bool {
            self.3
        }
    }

    #[test]
    fn passes_agree_with_a_list_of_entries() {
        for seed in 0..50 {
            let mut rng = carillon_core::Seeds::new(seed).stream("passes");
            let sites = 2 + rng.below(4) as u16;
            let (mut passes, mut entries) = (TokenPasses::<Entry>::new(sites.into()), Vec::<Entry>::new());
            for timestamp in 0..100 {
                let site = entries.last().map_or(0, |last| last.2);
                let next = if rng.chance(0.5) { site } else { (site + 1) % sites };
                let count =
                    |entries: &[Entry]| entries.iter().filter(|entry| entry.1 != entry.2).count() as u64;
                let entry = (timestamp, site, next, rng.chance(0.3));
                assert_eq!(passes.on_entry(entry), count(&entries));
                entries.push(entry);
                assert_eq!(passes.is_last_accepted(), next == site);
                if rng.chance(0.5) {
                    passes.confirm(next, timestamp + 1);
                    assert!(passes.is_last_accepted());
                }
                let accepted = count(&entries) - u64::from(!passes.is_last_accepted());
                assert_eq!(passes.accepted(), accepted);
                let since = entries
                    .iter()
                    .rposition(|entry| entry.3)
                    .map(|at| accepted - count(&entries[..at]).min(accepted));
                assert_eq!(passes.accepted_since_last_message(), since);
            }
        }
    }
}
