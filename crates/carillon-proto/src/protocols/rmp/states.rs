//! State machines of the protocol, which its page draws.

use carillon_core::States;

use crate::blocks::reformation::VIEWS;

/// State machines.
pub(super) const STATES: &[States] = &[TOKEN, States { transitions: &TRANSITIONS, ..VIEWS }];

/// Transitions of the views, and the way into the view in force by a list.
const TRANSITIONS: [(&str, &str, &str); VIEWS.transitions.len() + 1] = {
    let mut all = [("Outside", "InView", "WELCOME: a list has admitted it"); VIEWS.transitions.len() + 1];
    let mut at = 0;
    while at < VIEWS.transitions.len() {
        all[at] = VIEWS.transitions[at];
        at += 1;
    }
    all
};

/// State diagram of the token at one member.
pub(super) const TOKEN: States = States {
    of: "member",
    transitions: &[
        ("[*]", "Here", "first of the ring"),
        ("[*]", "Elsewhere", "any other member"),
        ("[*]", "Reformation", "lost its state"),
        ("Elsewhere", "Here", "holds all slots up to a pass to it, application not behind"),
        ("Elsewhere", "Passing", "the same, with messages to order / ACK"),
        ("Here", "Here", "nothing to order for confirm_timeout / CONFIRM"),
        ("Here", "Passing", "messages to order / ACK"),
        ("Here", "Passing", "messages wait for resilience, or the group is idle / null ACK"),
        ("Here", "Passing", "a member joins or leaves / NEW LIST"),
        ("Passing", "Passing", "pass_timeout / the ACK again"),
        ("Passing", "Elsewhere", "next site's ACK or CONFIRM"),
        ("Passing", "Reformation", "R repetitions, no sign of life"),
        ("Here", "Reformation", "INVITE, or nothing received"),
        ("Elsewhere", "Reformation", "INVITE, or nothing received"),
        ("Reformation", "Elsewhere", "view in force"),
        ("Reformation", "Here", "view in force, own ballot"),
    ],
};
