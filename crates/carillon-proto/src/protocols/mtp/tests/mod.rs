//! Tests of MTP and MTP-2: transcripts of one member, and groups with scripted losses and crashes.

mod consumer;
mod crashes;
mod fixture;
mod group;
mod master;
mod producer;
mod views;
