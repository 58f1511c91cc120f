//! The driver on sockets of this machine. One program: most of these tests wait most of their time.

mod broadcasts;
mod common;
mod copies;
mod helpers;
mod loopback;
mod marked;
mod open;
mod sealed;
mod sources;
