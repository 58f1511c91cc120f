//! `carillon send` and `carillon recv` as processes, over real multicast on loopback.

mod errors;
mod faults;
mod flood;
mod peers;
mod support;
mod transfers;
