//! The simulated world and its networks from outside.

mod graph;
mod gt_itm;
mod lan;
mod ports;
mod queue;
mod runaway;
mod world;
