//! Transcripts: one rule of the RFC each. Times are milliseconds.

mod desk;
mod dlr;
mod on_tree;
mod receiver;
mod relay;
mod source;
