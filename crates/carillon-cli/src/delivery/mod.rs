//! Parts that `send`, `recv` and `send --join` share besides the transfer itself: arguments, output, notices,
//! signals, traces.

mod args;
mod clock;
mod evidence;
mod host_address;
mod lines;
mod messages;
mod metrics;
mod observer;
mod option_args;
mod output;
mod paths;
mod progress;
mod service;
mod space_check;
mod stop;
mod stranger_packets;
mod system;
#[cfg_attr(not(feature = "laboratory"), path = "no_trace.rs")]
mod trace;
mod wait_notices;

pub use args::{NetworkArgs, is_text_terminal, read_key};
pub use clock::utc_now;
pub use evidence::{Evidence, reported_by_network, unroutable_sources};
pub use host_address::host_address;
pub use lines::Lines;
pub use messages::{
    EndpointContext, NO_RECEIVER_LIST, OPEN, advice, does_not_wait, enable_timestamps, explain, host, listed,
    notice, notice_text,
};
pub use metrics::{MetricsArgs, MetricsEndpoint};
pub use observer::{Watch, record};
pub use option_args::{OptionArgs, SendersOnly};
pub use output::{
    Human, Rate, SenderBars, Ticker, bar, bar_style, lost_json, outcome_text, print_json, print_table,
    seal_drops_json,
};
pub use paths::{
    deleted_json, followed_out_json, losses_json, paths_json, say_skip_count, skipped_json, unstored_json,
    with_path,
};
pub use progress::PlainProgress;
pub use service::{change_text, interface_json, open_service, tell_interface_changes};
pub use space_check::SpaceCheck;
pub use stop::Stop;
pub use system::tell_ready;
pub use wait_notices::WaitNotices;

pub use carillon_transfer::options::seconds;
