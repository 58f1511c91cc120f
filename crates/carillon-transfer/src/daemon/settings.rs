//! Settings of a socket as the fields of an OPEN frame.

use std::time::Duration;

use carillon_net::Key;
use carillon_wire::daemon::{FieldList, Fields};

use crate::Error;
use crate::options::{OPTIONS, Scope};
use crate::socket::{Socket, bind};

/// Encodes the settings of a socket: the options of the table, then what is not text.
///
/// The daemon draws its own random numbers, and a stream has as many sessions as its late receivers need.
pub(crate) fn told(socket: &Socket) -> Result<FieldList, Error> {
    let mut list = FieldList::new();
    for (name, value) in socket.settings().fields(OPTIONS, Scope::Socket) {
        list.push(name, value);
    }
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

/// Parses the fields into a socket.
pub(super) fn socket(fields: Fields<'_>) -> Result<Socket, String> {
    let group = fields.text("group").ok_or("no group is named")?;
    let mut socket =
        bind(group.parse().map_err(|_| format!("the group {group:?} is not an address with a port"))?);
    for (key, value) in fields.iter() {
        match key {
            "group" => {}
            "attached" => socket = socket.attach(value),
            "key" => {
                let bytes: [u8; 32] = value.try_into().map_err(|_| "the key is none".to_owned())?;
                socket = socket.key(Key::from_bytes(bytes));
            }
            _ => {
                let text = std::str::from_utf8(value).map_err(|_| format!("{key} is not valid UTF-8"))?;
                socket = socket.option(key, text).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(socket)
}

pub(super) fn nanos(time: Duration) -> String {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use carillon_core::BitRate;
    use carillon_session::{HelperOptions, HelperSelection};

    use super::*;
    use crate::SendOptions;

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
        let socket = bind(group).option("broadcast", "1").expect("a setting");
        assert_eq!(socket.network.group.to_string(), "255.255.255.255:4567");
        let list = told(&socket).expect("it fits");
        assert_eq!(
            self::socket(list.fields()).expect("it is understood").network.group,
            socket.network.group
        );
        assert!(bind(group).option("broadcast", "no").is_err());
    }

    /// Fields in the order and with the values that programs of earlier releases send.
    #[test]
    fn fields_keep_their_order_and_form() {
        let group = "239.1.2.3:4567".parse().expect("an address");
        let list = told(&bind(group).name("a").rate(BitRate::mbps(8)).unicast_rate(None)).expect("it fits");
        let fields: Vec<_> =
            list.fields().iter().map(|(key, value)| (key.to_owned(), value.to_vec())).collect();
        let expected = [
            ("group", "239.1.2.3:4567"),
            ("name", "a"),
            ("unicast_rate", "0"),
            ("protocol", "carillon"),
            ("settle", "2000000000"),
            ("join_timeout", "60000000000"),
            ("timeout", "5000000000"),
            ("min_rate", "16000"),
            ("rate", "8000000"),
            ("slow", "lane"),
            ("hops", "1"),
        ];
        assert_eq!(fields, expected.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())));
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
