//! What services do until their network is there, and what they say when it changes.

use std::time::Duration;

use carillon_core::BitRate;
use carillon_net::Endpoint;
use carillon_transfer::{Bound, Error, Network, NetworkChange};

use super::stop::Stop;
use super::words::{Whereabouts, say};

/// Opens the sockets of a service; while its network is absent, says so once and waits. `None` if a signal came first.
pub fn open_service(
    network: &Network,
    stop: &Stop,
    ttl: u8,
    rate: Option<BitRate>,
) -> anyhow::Result<Option<Bound>> {
    let mut told = false;
    loop {
        match network.open(true, ttl, rate) {
            Ok(bound) => {
                if told {
                    say(listening(&bound.endpoint));
                }
                return Ok(Some(bound));
            }
            Err(Error::Open(error)) if error.is_absent_network() => {
                if !std::mem::replace(&mut told, true) {
                    say(waiting(&error.to_string()));
                }
            }
            Err(error) => return Err(error.into()),
        }
        if stop.asked() {
            return Ok(None);
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// A change of the network in words.
pub fn change_text(change: &NetworkChange, endpoint: &Endpoint) -> String {
    match change {
        NetworkChange::Absent(reason) => waiting(reason),
        NetworkChange::Present | NetworkChange::Moved => listening(endpoint),
    }
}

fn waiting(reason: &str) -> String {
    format!("{reason}; waiting for the network")
}

fn listening(endpoint: &Endpoint) -> String {
    format!("the network is there: listening to {}", Whereabouts::of(endpoint).group())
}

/// Time between two attempts to open the sockets.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
