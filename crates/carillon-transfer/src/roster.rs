//! Changes of the member list at an end that joined, as events.

use carillon_session::ReceiverSession;

/// Detects new members and lost members of a session.
#[derive(Debug, Default)]
pub(crate) struct RosterWatch {
    named: bool,
    gone: usize,
}

impl RosterWatch {
    /// Returns the names of all members once, when they are known.
    pub fn members(&mut self, session: &ReceiverSession) -> Option<Vec<String>> {
        let members = session.roster();
        if std::mem::replace(&mut self.named, !members.is_empty()) || members.is_empty() {
            return None;
        }
        Some(members.iter().map(|member| member.name.clone()).collect())
    }

    /// Returns names and reasons of all lost members if their number has grown since the last call.
    pub fn gone(&mut self, session: &ReceiverSession) -> Vec<(String, String)> {
        let lost =
            || session.roster().iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
        let count = lost().count();
        if std::mem::replace(&mut self.gone, count) >= count {
            return Vec::new();
        }
        lost().map(|(name, reason)| (name.clone(), reason.clone())).collect()
    }
}
