//! Messages that have come and are not acknowledged yet, by source.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_wire::chang_maxemchuk::Id;

/// For each source, the number that comes next in the order, and the messages from there on.
///
/// Not a `Reception`: a message that loses its place in the order when the view changes is expected again, and one
/// does not go back.
#[derive(Debug)]
pub(super) struct Inbox {
    sources: Vec<Source>,
    /// How many messages of one source may be unacknowledged.
    window: u64,
    /// How many more are kept of a source whose acknowledgments are missing here, as long as none of
    /// its messages is: it sends on while this site has not heard that it may.
    ahead: u64,
    /// The source of the message acknowledged last here: the others have their turn first.
    turn: usize,
}

#[derive(Debug, Default)]
struct Source {
    expected: u64,
    waiting: BTreeMap<u64, Bytes>,
}

/// What a message is to a site that hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has its place in the order already.
    Acknowledged,
    /// It is or has been kept until it is acknowledged.
    Waiting,
    /// Messages of its source before it are missing.
    Ahead,
}

impl Inbox {
    /// Nothing has come from any of these sources.
    pub fn new(sources: usize, window: u64, ahead: u64) -> Self {
        Inbox { sources: (0..sources).map(|_| Source::default()).collect(), window, ahead, turn: 0 }
    }

    /// The number of a source's next message in the order.
    pub fn expected(&self, source: u16) -> u64 {
        self.sources[usize::from(source)].expected
    }

    /// What a message of this name is here.
    pub fn place(&self, id: Id) -> Place {
        let Source { expected, waiting } = &self.sources[usize::from(id.source)];
        match id.number.checked_sub(*expected) {
            None => Place::Acknowledged,
            Some(ahead) if ahead < self.window => Place::Waiting,
            Some(ahead) if ahead < self.window + self.ahead && waiting.contains_key(&(id.number - 1)) => {
                Place::Waiting
            }
            Some(_) => Place::Ahead,
        }
    }

    /// Keeps a message whose [`Inbox::place`] is to wait; returns whether it is new.
    pub fn keep(&mut self, id: Id, payload: Bytes) -> bool {
        let waiting = &mut self.sources[usize::from(id.source)].waiting;
        waiting.insert(id.number, payload).is_none()
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.sources.iter().map(|source| source.waiting.len()).sum()
    }

    /// A message that waits.
    pub fn get(&self, id: Id) -> Option<&Bytes> {
        self.sources[usize::from(id.source)].waiting.get(&id.number)
    }

    /// The message to acknowledge next: the sources that have one take turns.
    pub fn next(&self) -> Option<Id> {
        let sources = self.sources.len();
        (1..=sources).map(|step| (self.turn + step) % sources).find_map(|source| {
            let Source { expected, waiting } = &self.sources[source];
            waiting.contains_key(expected).then_some(Id { source: source as u16, number: *expected })
        })
    }

    /// A message has lost its place in the order, and those of its source after it before it did.
    pub fn on_dropped(&mut self, id: Id) {
        self.sources[usize::from(id.source)].expected = id.number;
    }

    /// The number of each source's next message.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.sources.iter().map(|source| source.expected)
    }

    /// Forgets all: these are the numbers of the sources' next messages.
    pub fn restart(&mut self, numbers: &[u64]) {
        for (source, &expected) in self.sources.iter_mut().zip(numbers) {
            *source = Source { expected, waiting: BTreeMap::new() };
        }
    }

    /// Forgets what waits too far beyond, and what has its place.
    pub fn tidy(&mut self) {
        let most = self.window + self.ahead;
        for Source { expected, waiting } in &mut self.sources {
            waiting.retain(|number, _| (*expected..*expected + most).contains(number));
        }
    }

    /// A message has got its place in the order.
    pub fn on_ordered(&mut self, id: Id) {
        self.turn = usize::from(id.source);
        let source = &mut self.sources[usize::from(id.source)];
        source.expected = id.number + 1;
        source.waiting.remove(&id.number);
    }
}
