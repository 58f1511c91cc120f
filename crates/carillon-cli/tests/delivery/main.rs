//! `carillon send` and `carillon recv` as processes, over real multicast on loopback.

mod changing;
mod damage;
mod errors;
mod faults;
mod flood;
mod forging;
mod further;
mod helpers;
mod limits;
mod links;
mod live;
mod numbers;
mod one_way;
mod partial;
mod peers;
mod raw;
mod real;
mod sealed;
mod services;
mod signed;
mod silence;
mod small_files;
mod strangers;
pub mod support;
mod swaps;
mod transfers;
mod trouble;
