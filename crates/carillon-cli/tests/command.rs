//! The command as processes: over real multicast on loopback, and in network namespaces. One program: its tests
//! wait more than they compute, so that many of them run side by side, and it is linked once.

mod daemon;
#[path = "delivery/main.rs"]
mod delivery;
#[path = "dissector/main.rs"]
mod dissector;
mod doctor;
mod experiments;
mod features;
mod laboratory_errors;
mod metric;
mod netns;
mod pages;
mod readiness;
mod relay;
mod testbed;
mod view;
mod wrong_set_ups;
