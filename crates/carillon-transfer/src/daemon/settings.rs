//! Settings of a socket as the fields of an OPEN frame.

use std::time::Duration;

use carillon_core::{BitRate, Probability};
use carillon_net::Key;
use carillon_session::{Gather, HelperOptions, HelperSelection};
use carillon_wire::daemon::{FieldList, Fields};

use crate::network::{DEFAULT_UNICAST_RATE, Network};
use crate::socket::{Socket, bind};
use crate::{Error, SendOptions};

/// Encodes the settings of a socket.
pub(crate) fn told(socket: &Socket) -> Result<FieldList, Error> {
    let mut list = FieldList::new().with("group", socket.network.group.to_string());
    push_network(&mut list, &socket.network);
    let mut optional = |key: &str, value: Option<String>| push_if_set(&mut list, key, value);
    let SendOptions {
        protocol,
        settings,
        gather,
        hosts,
        helpers: HelperOptions { wanted, fanout, nearest, under, relays },
        wait,
        join_timeout,
        all_or_nothing,
        timeout,
        min_rate,
        rate,
        datagram,
        // The daemon draws its own random numbers.
        monitor: _,
        slow,
        // A stream has as many sessions as its late receivers need.
        rounds: _,
        history,
        job_name: _,
        update: _,
    } = &socket.what.options;
    optional("protocol", Some(protocol.clone()));
    for (key, value) in settings {
        optional("set", Some(format!("{key}={value}")));
    }
    gathering(gather).into_iter().for_each(|(key, value)| optional(key, Some(value)));
    for (name, host) in hosts {
        optional("host", Some(format!("{host} {name}")));
    }
    optional("relays", relays.then(|| "1".to_owned()));
    match wanted {
        HelperSelection::Nobody => {}
        HelperSelection::Count(count) => optional("helpers", Some(count.to_string())),
        HelperSelection::Names(names) => {
            names.iter().for_each(|name| optional("expect_helper", Some(name.clone())));
        }
    }
    optional("fanout", fanout.map(|fanout| fanout.to_string()));
    optional("nearest", nearest.then(|| "1".to_owned()));
    for (member, helper) in under {
        optional("under", Some(format!("{} {member}{helper}", member.len())));
    }
    optional("join_wait", wait.map(nanos));
    optional("join_timeout", Some(nanos(*join_timeout)));
    optional("all_or_nothing", all_or_nothing.then(|| "1".to_owned()));
    optional("timeout", Some(nanos(*timeout)));
    optional("min_rate", Some(min_rate.map_or(0, BitRate::bps).to_string()));
    optional("rate", rate.map(|rate| rate.bps().to_string()));
    optional("datagram", datagram.map(|bytes| bytes.to_string()));
    optional("slow", Some(slow.name().to_owned()));
    optional("history", history.map(|history| history.to_string()));
    optional("hops", Some(socket.what.hops.to_string()));
    if !socket.what.attached.is_empty() {
        list.push("attached", &socket.what.attached);
    }
    if let Some(key) = &socket.network.key {
        // The key is sent instead of its file name, as the daemon may have rights that the program has not.
        list.push("key", key.to_bytes());
    }
    match list.fits() {
        true => Ok(list),
        false => Err(Error::Daemon("names and settings exceed the size of a request".to_owned())),
    }
}

/// Adds the fields of the network, except its group and its key.
fn push_network(list: &mut FieldList, network: &Network) {
    let Network {
        group: _,
        interface,
        name,
        drop,
        seed,
        key: _,
        raw_ip,
        service: _,
        from,
        unicast_rate,
        keyless_relays,
        dscp,
        sources,
    } = network;
    let mut optional = |key: &str, value: Option<String>| push_if_set(list, key, value);
    optional("interface", interface.clone());
    optional("name", name.clone());
    optional("drop", (*drop > Probability::ZERO).then(|| drop.value().to_string()));
    optional("seed", seed.map(|seed| seed.to_string()));
    optional("from", from.map(|from| from.to_string()));
    // Earlier daemons do not know it.
    let is_default = *unicast_rate == Some(DEFAULT_UNICAST_RATE);
    let rate_bps = unicast_rate.map_or(0, BitRate::bps);
    optional("unicast_rate", (!is_default).then(|| rate_bps.to_string()));
    optional("keyless_relays", keyless_relays.then(|| "1".to_owned()));
    optional("dscp", dscp.map(|dscp| dscp.value().to_string()));
    optional("raw_ip", raw_ip.then(|| "1".to_owned()));
    sources.iter().for_each(|source| optional("source", Some(source.to_string())));
}

/// Fields that say for which receivers a sender waits.
fn gathering(gather: &Gather) -> Vec<(&'static str, String)> {
    match gather {
        Gather::Count(count) => vec![("receivers", count.to_string())],
        Gather::Names(names) => names.iter().map(|name| ("expect", name.clone())).collect(),
        Gather::Wait(time) => vec![("wait", nanos(*time))],
        Gather::Silent(time) => vec![("silent", nanos(*time))],
        // Messages cannot be sent again, so their session never starts sooner.
        Gather::Settle(time) | Gather::Quiet(time) => vec![("settle", nanos(*time))],
        // Only later sessions use these settings.
        Gather::Again { .. } => Vec::new(),
    }
}

fn push_if_set(list: &mut FieldList, key: &str, value: Option<String>) {
    if let Some(value) = value {
        list.push(key, value);
    }
}

/// Parses the fields into a socket.
pub(super) fn socket(fields: Fields<'_>) -> Result<Socket, String> {
    let group = fields.text("group").ok_or("no group is named")?;
    let mut socket =
        bind(group.parse().map_err(|_| format!("the group {group:?} is not an address with a port"))?);
    for (key, value) in fields.iter() {
        if key == "attached" {
            socket = socket.attach(value);
            continue;
        }
        if key == "key" {
            let bytes: [u8; 32] = value.try_into().map_err(|_| "the key is none".to_owned())?;
            socket = socket.key(Key::from_bytes(bytes));
            continue;
        }
        let text = std::str::from_utf8(value).map_err(|_| format!("{key} is not valid UTF-8"))?;
        socket = with(socket, key, text).ok_or_else(|| format!("{key}: {text:?} is not a valid value"))?;
    }
    Ok(socket)
}

/// Applies one field; `None` if it is unknown or invalid.
pub(crate) fn with(mut socket: Socket, key: &str, text: &str) -> Option<Socket> {
    let options = &mut socket.what.options;
    match key {
        "group" => {}
        "interface" => return Some(socket.interface(text)),
        "name" => return Some(socket.name(text)),
        "drop" => return Some(socket.drop_arriving(text.parse().ok()?)),
        "seed" => return Some(socket.seed(text.parse().ok()?)),
        "from" => return Some(socket.from_sender(text.parse().ok()?)),
        "unicast_rate" => return Some(socket.unicast_rate(BitRate::new(text.parse().ok()?))),
        "keyless_relays" => socket.network.keyless_relays = text == "1",
        "source" => socket.network.sources.push(text.parse().ok()?),
        "dscp" => return Some(socket.dscp(text.parse().ok()?)),
        "broadcast" => return (text == "1").then(|| socket.broadcast()),
        "raw_ip" => return (text == "1").then(|| socket.raw_ip()),
        "protocol" => text.clone_into(&mut options.protocol),
        "set" => {
            let (key, value) = text.split_once('=')?;
            options.settings.push((key.to_owned(), value.to_owned()));
        }
        "receivers" => options.gather = Gather::Count(text.parse().ok()?),
        "expect" => match &mut options.gather {
            Gather::Names(names) => drop(names.insert(text.to_owned())),
            gather => *gather = Gather::Names([text.to_owned()].into()),
        },
        "wait" => options.gather = Gather::Wait(time(text)?),
        "silent" => options.gather = Gather::Silent(time(text)?),
        "settle" => options.gather = Gather::Settle(time(text)?),
        "host" => {
            let (host, name) = text.split_once(' ')?;
            options.hosts.insert(name.to_owned(), host.parse().ok()?);
        }
        "relays" => options.helpers.relays = text == "1",
        "helpers" => options.helpers.wanted = HelperSelection::Count(text.parse().ok()?),
        "expect_helper" => match &mut options.helpers.wanted {
            HelperSelection::Names(names) => drop(names.insert(text.to_owned())),
            helping => *helping = HelperSelection::Names([text.to_owned()].into()),
        },
        "fanout" => options.helpers.fanout = Some(text.parse().ok()?),
        "nearest" => options.helpers.nearest = text == "1",
        "under" => {
            let (len, names) = text.split_once(' ')?;
            let (member, helper) = names.split_at_checked(len.parse().ok()?)?;
            options.helpers.under.insert(member.to_owned(), helper.to_owned());
        }
        "join_wait" => options.wait = Some(time(text)?),
        "all_or_nothing" => options.all_or_nothing = text == "1",
        "join_timeout" => options.join_timeout = time(text)?,
        "timeout" => options.timeout = time(text)?,
        "min_rate" => options.min_rate = BitRate::new(text.parse().ok()?),
        "rate" => options.rate = Some(BitRate::new(text.parse().ok()?)?),
        "slow" => options.slow = text.parse().ok()?,
        "history" => options.history = Some(text.parse().ok()?),
        "datagram" => options.datagram = Some(text.parse().ok()?),
        "hops" => socket.what.hops = text.parse().ok()?,
        _ => return None,
    }
    Some(socket)
}

pub(super) fn nanos(time: Duration) -> String {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_string()
}

fn time(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_matches_its_fields() {
        let group = "239.1.2.3:4567".parse().expect("an address");
        let mut options = SendOptions {
            hosts: [("a b".to_owned(), "10.0.0.1".parse().expect("an address"))].into(),
            helpers: HelperOptions {
                wanted: HelperSelection::Names(["h1".to_owned(), "h2".to_owned()].into()),
                fanout: Some(3),
                nearest: true,
                under: [("a b".to_owned(), "h 1".to_owned())].into(),
                relays: true,
            },
            min_rate: None,
            wait: Some(Duration::from_secs(4)),
            all_or_nothing: true,
            datagram: Some(9000),
            history: Some(crate::files::History::Time(Duration::from_millis(1500))),
            ..SendOptions::default()
        };
        options.settings.push(("window".to_owned(), "a=b".to_owned()));
        let socket = bind(group)
            .options(options)
            .interface("lo")
            .name("näme")
            .key(Key::from_bytes([0xfe; 32]))
            .seed(7)
            .drop_arriving("0.25".parse().expect("a probability"))
            .protocol("pgm")
            .expect(["a b", "c"])
            .timeout(Duration::from_millis(1500))
            .join_timeout(Duration::from_secs(3))
            .rate(BitRate::mbps(8))
            .from_sender("10.0.0.1:7654".parse().expect("an address"))
            .unicast_rate(None)
            .dscp("af11".parse().expect("a code point"))
            .sources(["10.0.0.1", "fd77::1"].map(|source| source.parse().expect("an address")))
            .hops(4)
            .attach([0xff, 0]);
        let list = told(&socket).expect("it fits");
        let again = self::socket(list.fields()).expect("it is understood");
        assert_eq!(format!("{again:?}"), format!("{socket:?}"));
        assert_eq!(again.network.key, socket.network.key, "which is not printed");
    }

    #[test]
    fn broadcast_keeps_the_port_of_the_group() {
        let group = "239.1.2.3:4567".parse().expect("an address");
        let socket = with(bind(group), "broadcast", "1").expect("a setting");
        assert_eq!(socket.network.group.to_string(), "255.255.255.255:4567");
        let list = told(&socket).expect("it fits");
        assert_eq!(
            self::socket(list.fields()).expect("it is understood").network.group,
            socket.network.group
        );
        assert!(with(bind(group), "broadcast", "no").is_none());
    }

    #[test]
    fn unknown_settings_are_named() {
        let refused = |list: FieldList| socket(list.fields()).expect_err("it is wrong");
        let list = || FieldList::new().with("group", "239.1.2.3:4567");
        assert!(refused(FieldList::new()).contains("no group"));
        assert!(refused(FieldList::new().with("group", "here")).contains("here"));
        assert!(refused(list().with("rate", "0")).contains("rate"));
        assert!(refused(list().with("colour", "red")).contains("colour"));
        assert!(refused(list().with("under", "99 a")).contains("under"));
        assert!(refused(list().with("name", [0xff])).contains("name is not valid UTF-8"));
        assert!(refused(list().with("key", [0xff; 31])).contains("key is none"));
    }
}
