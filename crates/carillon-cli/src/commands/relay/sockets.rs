//! Sockets of a relay, which wait for the network.

use std::time::Duration;

use carillon_net::OpenError;

use crate::delivery::{notice, tell_ready};

/// Opens the sockets of a relay; while an interface is absent, says so once and waits. `None` if it was stopped first.
pub(super) fn open<T>(
    ready: &str,
    stopped: &dyn Fn() -> bool,
    sockets: impl Fn() -> Result<T, OpenError>,
) -> anyhow::Result<Option<T>> {
    let mut told = false;
    while !stopped() {
        match sockets() {
            Ok(opened) => {
                tell_ready(ready)?;
                return Ok(Some(opened));
            }
            Err(error) if error.is_absent_network() => {
                if !std::mem::replace(&mut told, true) {
                    let text = format!("{error}; waiting for the network");
                    notice(&text);
                    tell_ready(&text)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(LONGEST_STEP);
    }
    Ok(None)
}

/// Maximum time of one step, so that signals are noticed soon.
pub(super) const LONGEST_STEP: Duration = Duration::from_millis(100);

/// Interval at which the interfaces are checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Requested size of the receive buffer, in bytes.
pub(super) const RECEIVE_BUFFER: usize = 4 << 20;
