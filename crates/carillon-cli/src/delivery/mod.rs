//! What `send`, `recv` and `send --join` share besides the transfer itself: arguments, what is shown and said, signals,
//! traces.

mod args;
mod clock;
mod evidence;
mod lines;
mod numbers;
mod output;
mod overheard;
mod paths;
mod patience;
mod progress;
mod room;
mod seconds;
mod service;
mod stop;
mod watch;
mod words;

pub use args::{NetworkArgs, is_text_terminal, read_key};
pub use clock::utc_now;
pub use evidence::{Evidence, reported_by_network, unroutable_sources};
pub use lines::Lines;
pub use numbers::{Numbers, NumbersArgs};
pub use output::{
    Human, Rate, SenderBars, Ticker, bar, bar_style, lost_json, outcome_text, print_json, print_table,
    seal_drops_json,
};
pub use paths::{followed_out_json, say_skip_count, skipped_json, unstored_json, with_path};
pub use patience::Patience;
pub use progress::PlainProgress;
pub use room::Room;
pub use seconds::seconds;
pub use service::{change_text, open_service};
pub use stop::Stop;
pub use watch::{Watch, record};
pub use words::{
    NO_RECEIVER_LIST, OPEN, Whereabouts, advice, explain, host, say, say_text, say_time, waits_for_nobody,
};
