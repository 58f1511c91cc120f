//! Text of the packets of the session, for traces.

use std::fmt;

use super::{Body, HoldingsPart, Invite, Packet};
use crate::envelope::Envelope;

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} ", self.association)?;
        match &self.body {
            Body::Invite(invite) => invite.fmt(f),
            Body::Join { .. } => self.body.fmt_join(f),
            Body::Challenge { nonce, cookie } => write!(f, "challenge {nonce} cookie {cookie}"),
            Body::Welcome { nonce, member, terms } => {
                write!(f, "welcome {nonce} member {member} terms {terms}")
            }
            Body::Refuse { nonce, reason, text } => {
                write!(f, "refuse {nonce} {reason}")?;
                parenthesis(f, text)
            }
            Body::Progress { nonce, bytes } => write!(f, "progress {nonce} bytes {bytes}"),
            Body::Report { nonce, bytes, verdict, text } => {
                write!(f, "report {nonce} {verdict} bytes {bytes}")?;
                parenthesis(f, text)
            }
            Body::ReportAck { nonce } => write!(f, "report ack {nonce}"),
            Body::Leave { nonce, text } => {
                write!(f, "leave {nonce}")?;
                parenthesis(f, text)
            }
            Body::Roster(page) => page.fmt(f),
            Body::Present { proof } => write!(f, "present {proof}"),
            Body::Ready { nonce, edition } => write!(f, "ready {nonce} edition {edition}"),
            Body::Decline { name, text } => {
                write!(f, "decline \"{name}\"")?;
                parenthesis(f, text)
            }
            Body::Ask { nonce } => write!(f, "ask {nonce}"),
            Body::Answer { nonce, state, terms, text } => {
                write!(f, "answer {nonce} {state} terms {terms}")?;
                parenthesis(f, text)
            }
            Body::Measure { edition } => write!(f, "measure edition {edition}"),
            Body::Probe { token } => write!(f, "probe {token:016x}"),
            Body::Echo { token } => write!(f, "echo {token:016x}"),
            Body::Distances { nonce, edition, distances } => {
                write!(f, "distances {nonce} edition {edition}{distances}")
            }
            Body::Size(padding) => write!(f, "size {}", Envelope::LEN + padding.0),
            Body::Holdings { nonce, part: HoldingsPart { question, total, offset, bytes } } => {
                write!(
                    f,
                    "holdings {nonce} question {question} offset {offset} length {} of {total}",
                    bytes.len()
                )
            }
            Body::HoldingsAck { nonce, question, bytes } => {
                write!(f, "holdings ack {nonce} question {question} bytes {bytes}")
            }
        }
    }
}

impl fmt::Display for Invite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Invite { state, max_payload, progress_interval, relays, sizes, .. } = self;
        let Invite { protocol, sender, settings, reason, .. } = self;
        write!(f, "invite {state} from \"{sender}\" protocol {protocol} max payload {max_payload}")?;
        write!(f, " progress {progress_interval} ms")?;
        f.write_str(if *relays { " relays" } else { "" })?;
        write!(f, "{sizes}")?;
        for (key, value) in settings.pairs() {
            write!(f, " {key}={value}")?;
        }
        if let Some(job) = &self.job {
            write!(f, " job {job}")?;
        }
        f.write_str(if self.asks { " asks" } else { "" })?;
        if let Some(name) = &self.job_name {
            write!(f, " job name \"{name}\"")?;
        }
        parenthesis(f, reason)
    }
}

impl Body<'_> {
    /// Writes the text of a JOIN; nothing for another packet.
    fn fmt_join(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin, list } = self
        else {
            return Ok(());
        };
        write!(f, "join {nonce} \"{name}\" receive buffer {receive_buffer}")?;
        f.write_str(part.text())?;
        if *largest > 0 {
            write!(f, " largest datagram {largest}")?;
        }
        write!(f, "{attached}")?;
        cookie.map_or(Ok(()), |cookie| write!(f, " cookie {cookie}"))?;
        origin.map_or(Ok(()), |origin| write!(f, "{origin}"))?;
        list.map_or(Ok(()), |list| write!(f, " list {list}"))
    }
}

fn parenthesis(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if text.is_empty() { Ok(()) } else { write!(f, " ({text})") }
}
