//! Transcripts: one rule of the RFC each. Times are milliseconds.

mod desk;
mod dlr;
mod receiver;
mod relay;
mod source;
