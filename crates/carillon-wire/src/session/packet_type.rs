//! Types of the packets of the session.

pub const INVITE: u8 = 0x01;
pub const JOIN: u8 = 0x02;
pub const WELCOME: u8 = 0x03;
pub const REFUSE: u8 = 0x04;
pub const PROGRESS: u8 = 0x05;
pub const REPORT: u8 = 0x06;
pub const REPORT_ACK: u8 = 0x07;
pub const LEAVE: u8 = 0x08;
pub const ROSTER: u8 = 0x09;
pub const PRESENT: u8 = 0x0A;
pub const READY: u8 = 0x0B;
pub const DECLINE: u8 = 0x0C;
pub const ASK: u8 = 0x0D;
pub const ANSWER: u8 = 0x0E;
pub const MEASURE: u8 = 0x0F;
pub const PROBE: u8 = 0x10;
pub const ECHO: u8 = 0x11;
pub const DISTANCES: u8 = 0x12;
pub const SIZE: u8 = 0x13;
pub const CHALLENGE: u8 = 0x14;
pub const HOLDINGS: u8 = 0x15;
pub const HOLDINGS_ACK: u8 = 0x16;
