//! Bounds on settings that a receiver takes from an invitation.
//!
//! An invitation may come from a stranger. The kinds of parameters bound counts and sizes, and memory has a budget of
//! its own. Time spans remain: a span of a nanosecond keeps a processor busy, and one of a century never ends. They
//! are clamped to values that any network needs.

use carillon_core::{BitRate, Config, Duration, Parameter, ProtocolEntry, Setting};

/// Clamps each time span to the bounds. The lower bound is the shorter of [`MIN_SPAN`] and the protocol's own value
/// for delivery, so that a zero span that turns a mechanism off may stay zero.
pub(super) fn cut(entry: &ProtocolEntry, config: &mut Config, bit_rate: BitRate) {
    for parameter in entry.parameters {
        // `Config::set` has checked the ranges of counts and sizes, so only time spans are left.
        let Some((_, Setting::Span(span))) = config.iter().find(|(name, _)| *name == parameter.name) else {
            continue;
        };
        // A span may be given in bits, so its length depends on the rate.
        let length = span.at(bit_rate);
        let cut = length.clamp(delivery_span(entry, parameter, bit_rate).min(MIN_SPAN), MAX_SPAN);
        if cut != length {
            let text = format!("{} ns", cut.as_nanos());
            config.set(entry.parameters, parameter.name, &text).expect("whole nanoseconds are a span");
        }
    }
}

/// Time span that the protocol has for delivery.
fn delivery_span(entry: &ProtocolEntry, parameter: &'static Parameter, bit_rate: BitRate) -> Duration {
    let set = entry.settings.delivery.iter().find(|(key, _)| *key == parameter.name);
    match parameter.parse(set.map_or(parameter.default, |(_, value)| value)) {
        Ok(Setting::Span(span)) => span.at(bit_rate),
        _ => MIN_SPAN,
    }
}

/// Shortest time span accepted from the network.
const MIN_SPAN: Duration = Duration::from_micros(100);
/// Longest time span accepted from the network.
const MAX_SPAN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_to(name: &str, key: &str, value: &str) -> Duration {
        let entry = carillon_proto::find(name).expect("it is in the registry");
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
        assert_eq!(cut_to("mbap", "ack_timeout", "3000 s"), MAX_SPAN);
        assert_eq!(cut_to("mbap", "ack_timeout", "7 ms"), Duration::from_millis(7));
        assert_eq!(cut_to("mbap", "ack_wait", "0 ms"), Duration::ZERO, "no wait, as for delivery");
        assert_eq!(cut_to("srm", "session_ivl", "1 us"), MIN_SPAN);
    }
}
