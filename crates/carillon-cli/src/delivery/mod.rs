//! File delivery: files and streams as messages of any protocol of the registry.
//!
//! [`Outgoing`] and [`Incoming`] are the applications at the two ends of a session, [`Contribution`]
//! that of a further sender. They speak the records of [`carillon_wire::file`] and do the disk I/O; the session and its protocol know
//! nothing of files, and nothing here knows a protocol. The page is `docs/delivery.md`.

mod args;
mod contents;
mod contribution;
mod descent;
mod draft;
mod incoming;
mod intake;
#[cfg(test)]
mod intake_tests;
mod leftovers;
mod live;
mod manifest;
mod names;
mod outgoing;
mod output;
mod overheard;
mod patience;
mod stdin;
mod stop;
mod target;
mod watch;
mod words;

pub use args::{DEFAULT_GROUP, NetworkArgs, is_text_terminal, random, seconds};
pub use contribution::Contribution;
pub use incoming::Incoming;
pub use intake::{Problem, Sink};
pub use live::Live;
pub use manifest::{Manifest, Symlinks};
pub use names::shown;
pub use outgoing::Outgoing;
pub use output::{
    Human, Rate, SenderBars, Ticker, bar, bar_style, outcome_name, outcome_reason, outcome_text, print_json,
    print_table,
};
pub use patience::Patience;
pub use stop::Stop;
pub use target::Target;
pub use watch::{Watch, keep_peers, step};
pub use words::{NOBODY_EXPECTED, Whereabouts, advice, host, say, say_text, waits_for_nobody};
