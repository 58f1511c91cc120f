//! Tests of the simulated world and its networks through their public interface.

mod graph;
mod gt_itm;
mod import;
mod lan;
mod ports;
mod queue;
mod radio;
mod recorder;
mod runaway;
mod world;
