//! Plain sessions of PGM, as RFC 3208 has them: a source is known by its TSI, and messages are the application's bytes.

use carillon_core::{BuildContext, Config, PlainContents, PlainPacket, PlainSessions, SourceKey};
use carillon_wire::pgm::{Body, Packet, Tsi};

use super::identity::{ENVELOPE, is_of_session};
use super::parity::refuse_in_plain_session;
use super::{PgmReceiver, PgmSource};

pub(super) const PLAIN: PlainSessions = PlainSessions {
    // Other sources send repairs at their leisure, and each repeated NAK costs them a further repair; other receivers
    // wait up to two seconds before they repeat a NAK.
    settings: &[
        ("txw_secs", "10 s"),
        ("nak_bo_ivl", "20 ms"),
        ("nak_rpt_ivl", "200 ms"),
        ("nak_rdata_ivl", "400 ms"),
    ],
    port: Some("dport"),
    linger: Some("txw_secs"),
    clock: None,
    rate: None,
    contents: PlainContents::Messages,
    confirms: false,
    completes: false,
    reopens_after: None,
    source_memory: 8 << 20,
    read,
    sender: |_, build, settings| {
        refuse_in_plain_session(settings)?;
        Ok(Box::new(PgmSource::with_tsi(own_tsi(build), OPENING_SPMS, build, settings)?))
    },
    receiver: |key, build, settings| Ok(Box::new(PgmReceiver::with_tsi(tsi_of(key), build, settings)?)),
};

fn read(bytes: &[u8], settings: &Config) -> Option<PlainPacket> {
    let Packet { tsi, destination_port, body, options } = Packet::parse(bytes).ok()?;
    if u64::from(destination_port) != settings.count("dport") || is_of_session(tsi) {
        return None;
    }
    let (opens, ends) = match body {
        // Nothing is to come from a source that has ended, unless it allows its whole window to be requested.
        Body::Spm(_) => {
            let ends = options.fin || options.reset.is_some();
            (!ends || options.join.is_some(), ends)
        }
        Body::Odata(_) => (true, false),
        Body::Rdata(_) | Body::Ncf(_) | Body::Poll(_) => (false, false),
        Body::Nak(_) | Body::Nnak(_) | Body::Polr { .. } | Body::Spmr | Body::Ack(_) => return None,
    };
    let [a, b, c, d, e, f] = tsi.gsi;
    let [g, h] = tsi.port.to_be_bytes();
    Some(PlainPacket {
        source: SourceKey(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        opens,
        ends,
        is_request: false,
    })
}

fn tsi_of(key: SourceKey) -> Tsi {
    let [gsi @ .., a, b] = key.0.to_be_bytes();
    Tsi { gsi, port: u16::from_be_bytes([a, b]) }
}

/// Draws the TSI of a source (section 8). The port is not the first byte of the session's envelope either.
fn own_tsi(build: &BuildContext) -> Tsi {
    let mut rng = build.seeds.stream(&format!("pgm.tsi.{}", build.association.0));
    loop {
        let tsi = tsi_of(SourceKey(rng.bits()));
        if tsi.port >= FIRST_DRAWN_PORT && tsi.port.to_be_bytes()[0] != ENVELOPE && !is_of_session(tsi) {
            return tsi;
        }
    }
}

/// Number of SPMs before the first data. A receiver that hears none of them would begin with the first data that it
/// receives.
const OPENING_SPMS: u32 = 3;
/// First data-source port that is drawn.
const FIRST_DRAWN_PORT: u16 = 1024;
