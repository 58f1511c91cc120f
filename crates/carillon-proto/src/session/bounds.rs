//! What a receiver makes of settings that the network brings.
//!
//! A sender may be anyone. The kinds of parameters bound counts and sizes, and memory has a budget of its
//! own; what is left are spans of time: one of a nanosecond keeps a processor busy, one of a century is a
//! wait without end. They are cut to what any network needs.

use carillon_core::{BitRate, Config, Duration, Parameter, ProtocolEntry, Setting};

/// Cuts each span to what is between the least and [`MOST`]. The least is [`LEAST`], or what the protocol
/// itself has for delivery if that is shorter: so a span that is nought there, because it turns something
/// off, may stay so.
pub(super) fn cut(entry: &ProtocolEntry, config: &mut Config, bit_rate: BitRate) {
    for parameter in entry.parameters {
        let Some((_, Setting::Span(span))) = config.iter().find(|(name, _)| *name == parameter.name) else {
            continue;
        };
        let length = span.at(bit_rate);
        let cut = length.clamp(own(entry, parameter, bit_rate).min(LEAST), MOST);
        if cut != length {
            let text = format!("{} ns", cut.as_nanos());
            config.set(entry.parameters, parameter.name, &text).expect("whole nanoseconds are a span");
        }
    }
}

/// What the protocol has for delivery.
fn own(entry: &ProtocolEntry, parameter: &'static Parameter, bit_rate: BitRate) -> Duration {
    let set = entry.delivery_settings.iter().find(|(key, _)| *key == parameter.name);
    match parameter.parse(set.map_or(parameter.default, |(_, value)| value)) {
        Ok(Setting::Span(span)) => span.at(bit_rate),
        _ => LEAST,
    }
}

/// The shortest span taken from the network.
const LEAST: Duration = Duration::from_micros(100);
/// The longest.
const MOST: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_to(name: &str, key: &str, value: &str) -> Duration {
        let entry = crate::find(name).expect("it is in the registry");
        let rate = BitRate::mbps(1000);
        let mut config = Config::defaults(entry.parameters);
        config.set(entry.parameters, key, value).expect("a good value");
        cut(entry, &mut config, rate);
        config.span(key).at(rate)
    }

    #[test]
    fn spans_from_the_network_are_cut_to_what_a_network_needs() {
        for short in ["1 ns", "0 ms", "1 bit"] {
            let cut = cut_to("mbap", "ack_timeout", short);
            assert!(cut >= Duration::from_micros(95), "{short} is cut to {cut:?}");
        }
        assert_eq!(cut_to("mbap", "ack_timeout", "3000 s"), MOST);
        assert_eq!(cut_to("mbap", "ack_timeout", "7 ms"), Duration::from_millis(7));
        assert_eq!(cut_to("mbap", "ack_wait", "0 ms"), Duration::ZERO, "no wait, as for delivery");
        assert_eq!(cut_to("srm", "session_ivl", "1 us"), LEAST);
    }
}
