//! State machines of the protocol, which its page draws.

use carillon_core::States;

use crate::blocks::reformation::VIEWS;

/// State machines.
pub(super) const STATES: &[States] = &[TOKEN, VIEWS];

/// State diagram of the token at one site.
pub(super) const TOKEN: States = States {
    of: "member",
    transitions: &[
        ("[*]", "Here", "first of the list"),
        ("[*]", "Elsewhere", "any other site"),
        ("[*]", "Reformation", "lost its state"),
        ("Elsewhere", "Here", "lacks nothing up to a transfer to it, application not behind"),
        ("Elsewhere", "Passing", "the same, and passes it on at once"),
        ("Here", "Here", "next message of a source / ACK that keeps the token"),
        ("Here", "Passing", "next message / ACK that passes it on"),
        ("Here", "Passing", "nothing to acknowledge, something to commit / transfer"),
        ("Here", "Here", "nothing to do for confirm_timeout / CONFIRM"),
        ("Passing", "Passing", "transfer_timeout / the ACK again"),
        ("Passing", "Elsewhere", "next site's ACK or CONFIRM"),
        ("Passing", "Reformation", "R repetitions, no sign of life"),
        ("Here", "Reformation", "INVITE, or nothing heard"),
        ("Elsewhere", "Reformation", "INVITE, or nothing heard"),
        ("Reformation", "Elsewhere", "list in force"),
        ("Reformation", "Here", "list in force, own ballot"),
    ],
};
