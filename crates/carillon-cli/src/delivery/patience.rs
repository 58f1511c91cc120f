//! What a receiver says when nothing happens: once each, after a few seconds.

use carillon_core::{Duration, Time};
use carillon_net::{Driver, Endpoint};
use carillon_proto::session::{ReceiverPhase, ReceiverSession};

use super::{Incoming, Sink, Watch, Whereabouts};

/// Notices that a receiver waits in vain.
#[derive(Debug)]
pub struct Patience {
    place: Whereabouts,
    /// What it is waiting for, and since when.
    waiting: Option<(Wait, Time)>,
    told: Vec<Wait>,
    listening: bool,
}

/// What a receiver can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// An invitation.
    Invitation,
    /// An answer to its wish to join.
    Welcome,
    /// The contents of a file.
    Data,
}

impl Patience {
    /// Of a receiver at this endpoint.
    pub fn new(endpoint: &Endpoint) -> Patience {
        Patience { place: Whereabouts::of(endpoint), waiting: None, told: Vec::new(), listening: false }
    }

    /// Looks what is happening; returns what is to be said.
    pub fn look(&mut self, driver: &mut Driver<ReceiverSession, Incoming, Watch>) -> Option<String> {
        let now = driver.now();
        let wait = awaited(driver).filter(|wait| !self.told.contains(wait));
        let listening = wait == Some(Wait::Invitation);
        if self.listening != listening {
            self.listening = listening;
            driver.observer_mut().listen(listening);
        }
        let Some(wait) = wait else {
            self.waiting = None;
            return None;
        };
        let since = match self.waiting {
            // The clock starts anew with each transfer.
            Some((same, since)) if same == wait && since <= now => since,
            _ => now,
        };
        self.waiting = Some((wait, since));
        if now.since(since) < LONG {
            return None;
        }
        self.told.push(wait);
        let session = driver.machine();
        let name = session.sender_name().unwrap_or("the sender");
        Some(match wait {
            Wait::Invitation => self.place.uninvited(&driver.observer().strangers(driver.endpoint())),
            Wait::Welcome => {
                let address = session.sender_node().and_then(|node| driver.endpoint().peer(node));
                self.place.unanswered(name, address)
            }
            Wait::Data => self.place.no_data(name, session.max_payload().unwrap_or_default()),
        })
    }
}

fn awaited(driver: &Driver<ReceiverSession, Incoming, Watch>) -> Option<Wait> {
    let (session, incoming) = (driver.machine(), driver.application());
    match session.phase() {
        ReceiverPhase::Seeking => Some(Wait::Invitation),
        ReceiverPhase::Joining => Some(Wait::Welcome),
        // A stream may pause as long as it likes; a file has contents at once.
        ReceiverPhase::Running
            if session.has_started()
                && incoming.bytes() == 0
                && incoming.total() != Some(0)
                && (incoming.intakes().next().is_none() || incoming.total().is_some())
                && matches!(incoming.sink(), Sink::Files(_)) =>
        {
            Some(Wait::Data)
        }
        _ => None,
    }
}

/// So long it waits before it says so.
const LONG: Duration = Duration::from_secs(3);
