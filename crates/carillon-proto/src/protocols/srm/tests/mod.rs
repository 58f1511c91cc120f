//! Transcripts of SRM members, one rule each.

mod adaptive;
mod flow;
mod group;
mod local;
mod losses;
mod member;
mod ns2;
mod requests;
mod sessions;
