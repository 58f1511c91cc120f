//! `carillon send` and `carillon recv` as processes, over real multicast on loopback.

mod errors;
mod faults;
mod flood;
#[path = "../netns/mod.rs"]
mod netns;
mod peers;
mod real;
mod silence;
mod support;
mod transfers;
