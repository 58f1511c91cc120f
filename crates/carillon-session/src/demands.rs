//! Demands: what a sender needs receivers to permit, beyond the protocol of the session.
//!
//! They stand among the settings of an invitation, as `demand.NAME=yes`. A receiver that does not permit or know a
//! demand declines the invitation and says why. Nothing has been sent by then.

use carillon_wire::session::Settings;

/// Demand that a receiver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Name in invitations: letters and digits.
    pub name: &'static str,
    /// Reason for declining; `None` permits it.
    pub refusal: Option<&'static str>,
}

/// Settings of an invitation that state these demands.
pub(super) fn settings(demands: &[&'static str]) -> impl Iterator<Item = (String, String)> {
    demands.iter().map(|name| (format!("{PREFIX}{name}"), "yes".to_owned()))
}

/// Settings of the protocol in an invitation.
pub(super) fn protocol_settings<'a>(settings: &Settings<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    settings.pairs().filter(|(key, _)| !key.starts_with(PREFIX))
}

/// Checks the demands of an invitation.
pub(super) fn check(settings: &Settings<'_>, known: &[Demand]) -> Result<(), String> {
    for name in settings.pairs().filter_map(|(key, _)| key.strip_prefix(PREFIX)) {
        match known.iter().find(|demand| demand.name == name) {
            None => return Err(format!("the sender demands \"{name}\", which this release does not know")),
            Some(Demand { refusal: Some(reason), .. }) => return Err((*reason).to_owned()),
            Some(Demand { refusal: None, .. }) => {}
        }
    }
    Ok(())
}

const PREFIX: &str = "demand.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_are_permitted_refused_or_unknown() {
        let text = Settings::encode(settings(&["delete"]).chain([("rate".to_owned(), "5".to_owned())]));
        assert_eq!(text, "demand.delete=yes\nrate=5");
        let invited = Settings::new(&text).expect("settings");
        assert_eq!(protocol_settings(&invited).collect::<Vec<_>>(), [("rate", "5")]);
        let demand = |refusal| [Demand { name: "delete", refusal }];
        assert_eq!(check(&invited, &demand(None)), Ok(()));
        assert_eq!(check(&invited, &demand(Some("never"))), Err("never".to_owned()));
        assert!(check(&invited, &[]).is_err_and(|text| text.contains("does not know")));
    }
}
