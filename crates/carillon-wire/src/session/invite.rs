//! INVITE: invitation of the sender to the group, and later its heartbeat.

use carillon_core::Seeds;

use super::extension::{self, Extensions};
use super::{DatagramSizes, JobId, Name, Opening, Settings, State, Terms, Text};
use crate::ParseError;
use crate::reader::Reader;

/// Fields of an INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invite<'a> {
    /// State of the session.
    pub state: State,
    /// Maximum payload of a message in bytes; never zero.
    pub max_payload: u32,
    /// Interval between two PROGRESS of a member, in milliseconds.
    pub progress_interval: u16,
    /// True if routers of the protocol, which are no members, may address the members.
    pub relays: bool,
    /// Sizes of the SIZE datagrams.
    pub sizes: DatagramSizes,
    /// Protocol that carries the messages.
    pub protocol: Name<'a>,
    /// Name of the sender.
    pub sender: Name<'a>,
    /// Settings of the protocol.
    pub settings: Settings<'a>,
    /// Reason if the session was aborted; empty otherwise.
    pub reason: Text<'a>,
    /// Job of the session.
    pub job: Option<JobId>,
    /// True if the sender asks receivers for their holdings.
    pub asks: bool,
    /// Name of the job, by which receivers can choose it.
    pub job_name: Option<Name<'a>>,
}

impl<'a> Invite<'a> {
    /// Computes the digest of protocol and settings, sender's name, job, sizes of messages and datagrams, and the
    /// relay flag.
    pub fn terms(&self) -> Terms {
        let Invite { max_payload, relays, sizes, protocol, sender, settings, job, .. } = self;
        // Names have no line feeds, so the fields are unambiguous.
        let text = format!("{max_payload} {relays}{sizes}\n{protocol}\n{sender}\n{}\n{job:?}", &**settings);
        Terms(Seeds::new(0).part("session.terms").stream(&text).bits())
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let sender = Opening::parse(reader)?.name;
        let state = State::from_code(reader.u8()?)?;
        let protocol_len = reader.u8()?;
        let reason_len = reader.u8()?;
        let relays = reader.flag("relays")?;
        let max_payload = reader.u32()?;
        let settings_len = reader.u16()?;
        let progress_interval = reader.u16()?;
        let sizes = DatagramSizes::parse(reader)?;
        if max_payload == 0 {
            return Err(ParseError::Field { field: "max_payload", value: 0 });
        }
        let mut invite = Invite {
            state,
            max_payload,
            progress_interval,
            relays,
            sizes,
            protocol: Name::parse("protocol", reader.bytes(protocol_len.into())?)?,
            sender,
            settings: Settings::parse("settings", reader.bytes(settings_len.into())?)?,
            reason: Text::parse("reason", reader.bytes(reason_len.into())?)?,
            job: None,
            asks: false,
            job_name: None,
        };
        let mut extensions = Extensions::of(reader);
        while let Some((kind, value)) = extensions.next()? {
            match kind {
                extension::JOB => invite.job = Some(JobId::parse(value)?),
                extension::HOLDINGS => match value.len() {
                    0 => invite.asks = true,
                    len => return Err(ParseError::Field { field: "holdings", value: len as u64 }),
                },
                extension::JOB_NAME => invite.job_name = Some(Name::parse("job name", value)?),
                unknown => extension::skip(unknown)?,
            }
        }
        Ok(invite)
    }

    pub(super) fn emit(&self, buf: &mut Vec<u8>) {
        Opening::of(self.sender).emit(buf);
        // The text types bound every length by the size of its field.
        buf.push(self.state.code());
        buf.push(self.protocol.len() as u8);
        buf.push(self.reason.len() as u8);
        buf.push(u8::from(self.relays));
        buf.extend_from_slice(&self.max_payload.to_be_bytes());
        buf.extend_from_slice(&(self.settings.len() as u16).to_be_bytes());
        buf.extend_from_slice(&self.progress_interval.to_be_bytes());
        self.sizes.emit(buf);
        for text in [&*self.protocol, &*self.settings, &*self.reason] {
            buf.extend_from_slice(text.as_bytes());
        }
        if let Some(job) = &self.job {
            extension::put(buf, extension::JOB, &job.0);
        }
        if self.asks {
            extension::put(buf, extension::HOLDINGS, &[]);
        }
        if let Some(name) = &self.job_name {
            extension::put(buf, extension::JOB_NAME, name.as_bytes());
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        let texts = [&*self.protocol, &*self.settings, &*self.reason];
        let job = if self.job.is_some() { extension::len_of(JobId::LEN) } else { 0 };
        let asks = if self.asks { extension::len_of(0) } else { 0 };
        let job_name = self.job_name.map_or(0, |name| extension::len_of(name.len()));
        Opening::wire_len(&self.sender)
            + 4
            + 4
            + 2
            + 2
            + 4
            + texts.map(str::len).iter().sum::<usize>()
            + job
            + asks
            + job_name
    }
}
