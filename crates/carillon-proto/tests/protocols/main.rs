//! Tests of single protocols, and of all protocols without a group. They form one program, so that a long test runs
//! beside others.

mod exactness;
mod flute;
mod lms;
mod memory;
mod pf;
mod pgm;
mod summaries;
mod wire_version;
