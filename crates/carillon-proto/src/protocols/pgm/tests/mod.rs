//! Transcripts: one rule of the RFC each. Times are milliseconds.

mod dlr;
mod fixture;
mod on_tree;
mod receiver;
mod relay;
mod source;
