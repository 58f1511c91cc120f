//! Tests of every packet format: golden bytes, laws of parsing and emitting. They are one program, which links once.

mod alc;
mod chang_maxemchuk;
mod erramilli_singh;
mod fdt;
mod file;
mod lms;
mod norm;
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
