use super::values::{Value, value};
use super::*;

/// Settings with this option set to this text.
fn with(name: &str, text: &str, notation: Notation) -> Result<Settings, OptionError> {
    let mut settings = Settings::default();
    let scope = if ["rounds", "job"].contains(&name) { Scope::Send } else { Scope::Socket };
    settings.set(OPTIONS, scope, name, text, notation)?;
    Ok(settings)
}

/// The default of an option in the documentation is that of the settings.
#[test]
fn documented_defaults_are_those_of_the_settings() {
    let expected = format!("{:?}", Settings::default());
    let mut checked = 0;
    for entry in OPTIONS.iter().filter(|entry| !entry.default.is_empty()) {
        let settings = with(entry.name, entry.default, Notation::Text).expect(entry.name);
        assert_eq!(format!("{settings:?}"), expected, "{}", entry.name);
        checked += 1;
    }
    assert!(checked > 8);
}

#[test]
fn every_name_and_flag_is_unique() {
    let count = |name: fn(&OptionEntry) -> Option<&'static str>| {
        let names: Vec<_> = OPTIONS.iter().filter_map(name).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    };
    count(|entry| Some(entry.name));
    count(|entry| entry.argument.map(|argument| argument.flag));
    assert!(OPTIONS.iter().all(|entry| !entry.scopes.is_empty()));
}

/// Values in text notation and in exact notation that are equal.
#[test]
fn notations_differ_in_units_only() {
    let same = [
        ("timeout", "1.5", "1500000000"),
        ("rate", "8 Mbit/s", "8000000"),
        ("min_rate", "0", "0"),
        ("unicast_rate", "1 Gbit/s", "1000000000"),
        ("datagram", "8 KiB", "8192"),
        ("dscp", "af11", "10"),
        ("under", "alice = h1", "5 aliceh1"),
        ("history", "30 s", "30 s"),
        ("drop", "2 %", "0.02"),
        ("hops", "4", "4"),
        ("rounds", "0", "0"),
    ];
    for (name, text, exact) in same {
        let settings = with(name, text, Notation::Text).expect(name);
        let same = with(name, exact, Notation::Exact).expect(name);
        assert_eq!(format!("{settings:?}"), format!("{same:?}"), "{name}");
        let entry = OPTIONS.iter().find(|entry| entry.name == name).expect(name);
        assert_eq!(entry.values(&settings), [exact], "{name}");
    }
}

#[test]
fn wrong_values_say_what_is_expected() {
    let wrong = [
        ("timeout", "soon", "expected seconds from 0 to 1000000, such as 2.5"),
        ("hops", "256", "256 is not in 0..=255"),
        ("fanout", "0", "0 is not in 1..=4294967295"),
        ("slow", "away", "expected wait, lane or drop"),
        ("datagram", "575", "a datagram has 576 bytes at least"),
        ("under", "alice", "expected NAME=HELPER"),
        ("set", "window", "expected KEY=VALUE"),
        ("raw_ip", "yes", "expected 1 or 0"),
        ("rate", "fast", "bit/s"),
    ];
    for (name, text, expected) in wrong {
        let error = with(name, text, Notation::Text).expect_err(name).to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn datagrams_have_a_size_with_its_unit_or_a_number_of_bytes() {
    let bytes = |text| with("datagram", text, Notation::Text).map(|settings| settings.send.datagram);
    assert_eq!(bytes("1472"), Ok(Some(1472)));
    assert_eq!(bytes(" 8 KiB "), Ok(Some(8192)));
    for bad in ["575", "0", "-1", "9 GB", "8 kilo", "", "1.5"] {
        assert!(bytes(bad).is_err(), "{bad}");
    }
}

#[test]
fn options_of_other_ends_are_unknown() {
    let mut settings = Settings::default();
    let unknown = |name: &str| Err(OptionError::Unknown(name.to_owned()));
    assert_eq!(settings.set(OPTIONS, Scope::Recv, "rate", "1 Mbit/s", Notation::Text), unknown("rate"));
    assert_eq!(settings.set(OPTIONS, Scope::Socket, "rounds", "1", Notation::Exact), unknown("rounds"));
    assert_eq!(settings.set(OPTIONS, Scope::Socket, "colour", "red", Notation::Exact), unknown("colour"));
}

/// A row that a table gets is a field and a key without further code.
#[test]
fn new_row_is_a_field_and_a_key() {
    const KIND: Kind = Kind::new("N", "number");
    let dummy = OptionEntry::new("dummy", KIND, value!(send.rounds), &[Scope::Socket], "A dummy.");
    let mut settings = Settings::default();
    settings.set(&[dummy], Scope::Socket, "dummy", "7", Notation::Exact).expect("a key");
    assert_eq!(settings.send.rounds, 7);
    assert_eq!(settings.fields(&[dummy], Scope::Socket), [("dummy", "7".to_owned())]);
    assert!(settings.fields(&[dummy], Scope::Send).is_empty());
}
