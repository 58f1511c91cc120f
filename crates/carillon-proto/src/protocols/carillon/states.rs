//! State machines of the protocol, which its page draws.

use carillon_core::States;

/// State machines.
pub(super) const STATES: &[States] = &[
    States {
        of: "sender, a block",
        transitions: &[
            ("[*]", "Filling", "its first message goes out"),
            ("Filling", "News", "long enough, too old, quiet, or the last / close it"),
            ("[*]", "News", "a block of one message goes out"),
            ("Filling", "Asked", "quiet, or the last / close it, POLL"),
            ("Filling", "Repairing", "long enough, too old, quiet, or the last, and redundancy / close it"),
            ("[*]", "Repairing", "a block of one message goes out, and redundancy"),
            ("News", "Asked", "POLL"),
            (
                "Asked",
                "Repairing",
                "the round is over, and a member is missing something / decide what to send",
            ),
            ("News", "Repairing", "an earlier round is over, and a member is missing something"),
            ("Repairing", "News", "all that is due has gone out"),
            ("Asked", "[*]", "all have confirmed it"),
            ("News", "[*]", "all have confirmed it"),
            ("Repairing", "[*]", "all have confirmed it, or the others have left"),
            ("Filling", "[*]", "no member is left"),
        ],
    },
    States {
        of: "receiver, a block",
        transitions: &[
            ("[*]", "Open", "DATA of it"),
            ("[*]", "Lacking", "its length is known"),
            ("Open", "Lacking", "its length is known"),
            ("Open", "Whole", "its last message, which tells its length"),
            ("Lacking", "Whole", "as many messages and symbols as its length / make the missing ones"),
            ("[*]", "Whole", "a block of one message"),
            ("Whole", "[*]", "those before it are delivered, and it is"),
            ("Open", "[*]", "its last message, with nothing lacking before / deliver it"),
            ("Lacking", "[*]", "as many as its length, with nothing lacking before / deliver it"),
        ],
    },
];
