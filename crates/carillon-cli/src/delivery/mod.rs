//! What `send`, `recv` and `send --join` share besides the transfer itself: arguments, what is shown and said, signals,
//! traces.

mod args;
mod lines;
mod output;
mod overheard;
mod patience;
mod stop;
mod watch;
mod words;

pub use args::{DEFAULT_GROUP, NetworkArgs, is_text_terminal, random, seconds};
pub use lines::Lines;
pub use output::{
    Human, Rate, SenderBars, Ticker, bar, bar_style, outcome_name, outcome_reason, outcome_text, print_json,
    print_table,
};
pub use patience::Patience;
pub use stop::Stop;
pub use watch::{Watch, keep_peers, step};
pub use words::{NOBODY_EXPECTED, Whereabouts, advice, host, say, say_text, waits_for_nobody};
