//! Every packet format: golden bytes, laws of parsing and emitting. One program, which is linked once.

mod chang_maxemchuk;
mod erramilli_singh;
mod file;
mod lms;
mod pf;
mod pgm;
mod pgm_dissector;
mod pgm_offsets;
mod reformation;
mod rra;
mod segovia;
mod sequencer;
mod session;
mod srm;
mod wire_version;
mod xtp;
