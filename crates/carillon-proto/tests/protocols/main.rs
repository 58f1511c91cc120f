//! What single protocols are held to beyond the suites over the registry, and what all are that needs no group. One program,
//! so that a test that takes long has others beside it.

mod exactness;
mod lms;
mod memory;
mod pf;
mod pgm;
mod wire_version;
