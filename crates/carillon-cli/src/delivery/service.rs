//! Services: waiting for the network, and notices about its changes. A service that waits has started for the service
//! manager: a boot without a network does not end in a failed unit.

use std::time::Duration;

use carillon_core::BitRate;
use carillon_net::{Endpoint, InterfaceChange};
use carillon_transfer::{Bound, Error, Network, NetworkChange};

use serde_json::{Value, json};

use super::messages::{EndpointContext, notice};
use super::output::print_json;
use super::stop::Stop;
use super::system::tell_ready;

/// Opens the sockets of a service. While its network is absent, prints that once and waits. Returns `None` if a
/// signal came first.
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
                    notice(listening(&bound.endpoint));
                }
                tell_ready(&format!("listening to {}", bound.endpoint.group()))?;
                return Ok(Some(bound));
            }
            Err(Error::Open(error)) if error.is_absent_network() => {
                if !std::mem::replace(&mut told, true) {
                    notice(waiting(&error.to_string()));
                    tell_ready(&waiting(&error.to_string()))?;
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

/// Describes a change of the network.
pub fn change_text(change: &NetworkChange, endpoint: &Endpoint) -> String {
    match change {
        NetworkChange::Absent(reason) => waiting(reason),
        NetworkChange::Present | NetworkChange::Moved => listening(endpoint),
    }
}

/// Event of a change of one of several interfaces.
pub fn interface_json(change: &InterfaceChange) -> Value {
    json!({ "event": "interface", "change": change.name(), "text": change.to_string() })
}

/// Reports the changes of the interfaces of an endpoint that has several.
pub fn tell_interface_changes(json: bool, endpoint: &mut Endpoint) -> anyhow::Result<()> {
    for change in endpoint.take_interface_changes() {
        notice(change.to_string());
        if json {
            print_json(&interface_json(&change))?;
        }
    }
    Ok(())
}

fn waiting(reason: &str) -> String {
    format!("{reason}; waiting for the network")
}

fn listening(endpoint: &Endpoint) -> String {
    format!("the network is up: listening to {}", EndpointContext::of(endpoint).group())
}

/// Interval between attempts to open the sockets.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
