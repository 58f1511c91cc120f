//! The statistics file of the 1996 simulator: a header line for each pass, then a line for each
//! packet (Segovia 1996, section 3.5; the header's forms from the sample there and the reading
//! program in her appendix).

use std::io::{self, Write};

use carillon_core::{Config, Time};

use crate::metrics::MessageRecord;
use crate::scenario::Scenario;

/// Writes one pass: all replications of one sweep point.
pub fn write_pass<'a>(
    out: &mut impl Write,
    scenario: &Scenario,
    replications: u32,
    date: &str,
    messages: impl Iterator<Item = &'a MessageRecord>,
) -> io::Result<()> {
    writeln!(out, "{} Date={date}", header(scenario, replications))?;
    let rate = scenario.network.bit_rate();
    let bits = |time: Time| rate.bits_in(time - Time::ZERO);
    let packets = scenario.workload.messages;
    for (id, record) in messages.enumerate() {
        // Packets are numbered within a repetition.
        let id = id as u64 % packets + 1;
        let (start, end) = (bits(record.start), bits(record.end));
        let elapsed = end - start;
        let each = elapsed as f64 / f64::from(record.window.max(1));
        writeln!(
            out,
            "{id:2} {} {} {start} {end} {elapsed} {each:.2} {} {}",
            scenario.workload.message_bytes,
            record.window,
            record.retransmissions,
            u8::from(record.failed)
        )?;
    }
    Ok(())
}

fn header(scenario: &Scenario, replications: u32) -> String {
    let rate = scenario.network.bit_rate();
    let config = &scenario.config;
    let bits = |name: &str| config.span(name).bits_at(rate);
    let ack = config.size("ack_bytes").0;
    let common = format!(
        "Pkts={} Recs={} Data={} Ack={ack} FailRate={} Reps={replications}",
        scenario.workload.messages,
        scenario.receivers,
        scenario.workload.message_bytes,
        (scenario.network.lan().map_or(0.0, |lan| lan.loss.value()) * 100.0).round(),
    );
    let formula = config.choice("timeout_method") == "formula";
    if is_block(config) {
        let window = config.count("window");
        format!(
            "{common} Proto=BAP BAPWin={window} BAPPktT={} BAPAckT={} BAPrand={}",
            timeout_bits(scenario, window, bits("ack_timeout")),
            bits("ack_timeout"),
            bits("ack_wait"),
        )
    } else {
        let total = timeout_bits(scenario, 1, 0);
        let time = if formula {
            format!("SAWtimeM=for SAWtimeI={} SAWtime={total}", bits("timeout"))
        } else {
            format!("SAWtimeM=con SAWtime={total}")
        };
        let method = &config.choice("retransmission")[..3];
        format!(
            "{common} Proto=SAW {time} SAWretr={} SAWretrM={method} SAWrand={}",
            config.count("retransmission_limit"),
            bits("ack_wait"),
        )
    }
}

/// Only block acknowledgment has a window.
fn is_block(config: &Config) -> bool {
    config.iter().any(|(name, _)| name == "window")
}

/// The timeout in bit times: d n + a r + i + t + increment, or the constant.
fn timeout_bits(scenario: &Scenario, window: u64, ack_timeout: u64) -> u64 {
    let config = &scenario.config;
    let bits = |name: &str| config.span(name).bits_at(scenario.network.bit_rate());
    if config.choice("timeout_method") != "formula" {
        return bits("timeout");
    }
    let data = u64::from(scenario.workload.message_bytes) * 8 * window;
    let acks = config.size("ack_bytes").0 * 8 * u64::from(scenario.receivers);
    data + acks + bits("ack_wait") + ack_timeout + bits("timeout")
}

/// Formats UTC seconds as the C library's `ctime` does: `Sun Aug  4 12:01:27 1996`. A date beyond the calendar is
/// written as its number of seconds.
pub fn ctime(unix_seconds: i64) -> String {
    match chrono::DateTime::from_timestamp(unix_seconds, 0) {
        Some(moment) => moment.format("%a %b %e %H:%M:%S %Y").to_string(),
        None => unix_seconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_by_ctime() {
        assert_eq!(ctime(839_160_087), "Sun Aug  4 12:01:27 1996");
        assert_eq!(ctime(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(ctime(951_782_400), "Tue Feb 29 00:00:00 2000");
    }
}
