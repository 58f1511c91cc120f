//! Who else takes part, told as it becomes known.

use carillon_proto::session::ReceiverSession;

/// Members and their losses, at one who takes part.
#[derive(Debug, Default)]
pub(crate) struct RosterWatch {
    named: bool,
    gone: usize,
}

impl RosterWatch {
    /// All members, when they are known.
    pub fn members(&mut self, session: &ReceiverSession) -> Option<Vec<String>> {
        let members = session.roster();
        if std::mem::replace(&mut self.named, !members.is_empty()) || members.is_empty() {
            return None;
        }
        Some(members.iter().map(|member| member.name.clone()).collect())
    }

    /// Those who are gone, if there are more than before: names and reasons. Told again, they are no news.
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
