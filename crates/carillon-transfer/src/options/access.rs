//! Access to fields that several options set, or with a text of their own.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use carillon_core::{BitRate, Probability};
use carillon_session::{Gather, HelperSelection};

use super::values::{Value, datagram, is_set, ranged, rate_or_zero};
use super::{Notation, Settings};
use crate::network::DEFAULT_UNICAST_RATE;

/// Adds interfaces.
pub(super) fn add_interface(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    let interface = &mut settings.network.interface;
    *interface = Some(match interface.take() {
        Some(before) => format!("{before},{text}"),
        None => text.to_owned(),
    });
    Ok(())
}

/// Adds addresses of sources.
pub(super) fn add_sources(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    let sources: Result<Vec<IpAddr>, String> =
        text.split(',').map(|source| Value::parse(source.trim(), notation)).collect();
    settings.network.sources.extend(sources?);
    Ok(())
}

pub(super) fn sources(settings: &Settings) -> Vec<String> {
    settings.network.sources.iter().map(Value::exact).collect()
}

pub(super) fn share_to_drop(settings: &Settings) -> Vec<String> {
    let share = settings.network.drop;
    (share > Probability::ZERO).then(|| share.exact()).into_iter().collect()
}

pub(super) fn set_rate_of_copies(
    settings: &mut Settings,
    text: &str,
    notation: Notation,
) -> Result<(), String> {
    settings.network.unicast_rate = rate_or_zero(text, notation)?;
    Ok(())
}

/// Rate of unicast copies, unless it is the default, which earlier daemons do not know.
pub(super) fn rate_of_copies(settings: &Settings) -> Vec<String> {
    let rate = settings.network.unicast_rate;
    let is_default = rate == Some(DEFAULT_UNICAST_RATE);
    (!is_default).then(|| rate_or_zero_exact(rate)).into_iter().collect()
}

pub(super) fn set_min_rate(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.send.min_rate = rate_or_zero(text, notation)?;
    Ok(())
}

pub(super) fn rate_or_zero_exact(rate: Option<BitRate>) -> String {
    rate.map_or(0, BitRate::bps).to_string()
}

pub(super) fn set_datagram(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.send.datagram = Some(datagram(text, notation)?);
    Ok(())
}

pub(super) fn set_fanout(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    settings.send.helpers.fanout = Some(ranged(text, 1, u32::MAX.into())? as usize);
    Ok(())
}

/// Replaces the address of the group, and keeps its port.
pub(super) fn broadcast(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    if is_set(text)? {
        let group = &mut settings.network.group;
        *group = SocketAddr::new(Ipv4Addr::BROADCAST.into(), group.port());
    }
    Ok(())
}

pub(super) fn add_parameter(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as window=64")?;
    settings.send.settings.push((key.to_owned(), value.to_owned()));
    Ok(())
}

pub(super) fn parameters(settings: &Settings) -> Vec<String> {
    settings.send.settings.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

pub(super) fn add_expected(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    match &mut settings.send.gather {
        Gather::Names(names) => drop(names.insert(text.to_owned())),
        gather => *gather = Gather::Names(BTreeSet::from([text.to_owned()])),
    }
    Ok(())
}

/// Values of the option that says for which receivers a sender waits; none if it is another one than `name`.
pub(super) fn gathering(settings: &Settings, name: &str) -> Vec<String> {
    let (said, values) = match &settings.send.gather {
        Gather::Count(count) => ("receivers", vec![count.to_string()]),
        Gather::Names(names) => ("expect", names.iter().cloned().collect()),
        Gather::Wait(time) => ("wait", vec![time.exact()]),
        Gather::Silent(time) => ("silent", vec![time.exact()]),
        // Messages cannot be sent again, so their session never starts sooner.
        Gather::Settle(time) | Gather::Quiet(time) => ("settle", vec![time.exact()]),
        // Only later sessions use these settings.
        Gather::Again { .. } => return Vec::new(),
    };
    if said == name { values } else { Vec::new() }
}

pub(super) fn add_host(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    let (host, name) = text.split_once(' ').ok_or("expected ADDRESS NAME")?;
    settings.send.hosts.insert(name.to_owned(), Value::parse(host, notation)?);
    Ok(())
}

pub(super) fn hosts(settings: &Settings) -> Vec<String> {
    settings.send.hosts.iter().map(|(name, host)| format!("{host} {name}")).collect()
}

pub(super) fn set_helpers(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    settings.send.helpers.wanted = HelperSelection::Count(Value::parse(text, notation)?);
    Ok(())
}

pub(super) fn helpers(settings: &Settings) -> Vec<String> {
    match &settings.send.helpers.wanted {
        HelperSelection::Count(count) => vec![count.to_string()],
        HelperSelection::Nobody | HelperSelection::Names(_) => Vec::new(),
    }
}

pub(super) fn add_helper(settings: &mut Settings, text: &str, _: Notation) -> Result<(), String> {
    match &mut settings.send.helpers.wanted {
        HelperSelection::Names(names) => drop(names.insert(text.to_owned())),
        wanted => *wanted = HelperSelection::Names(BTreeSet::from([text.to_owned()])),
    }
    Ok(())
}

pub(super) fn expected_helpers(settings: &Settings) -> Vec<String> {
    match &settings.send.helpers.wanted {
        HelperSelection::Names(names) => names.iter().cloned().collect(),
        HelperSelection::Nobody | HelperSelection::Count(_) => Vec::new(),
    }
}

/// Places a member below a helper. In exact notation the names may contain any character.
pub(super) fn add_place(settings: &mut Settings, text: &str, notation: Notation) -> Result<(), String> {
    let (member, helper) = match notation {
        Notation::Text => {
            let (member, helper) = text.split_once('=').ok_or("expected NAME=HELPER, such as alice=h1")?;
            (member.trim(), helper.trim())
        }
        Notation::Exact => {
            let place =
                text.split_once(' ').and_then(|(len, names)| names.split_at_checked(len.parse().ok()?));
            place.ok_or("expected a length, a space and two names")?
        }
    };
    settings.send.helpers.under.insert(member.to_owned(), helper.to_owned());
    Ok(())
}

pub(super) fn places(settings: &Settings) -> Vec<String> {
    let under = &settings.send.helpers.under;
    under.iter().map(|(member, helper)| format!("{} {member}{helper}", member.len())).collect()
}
