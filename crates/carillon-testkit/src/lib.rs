//! What tests share: a group harness with scripted loss, a reliability oracle, fuzz bodies.
//!
//! The testkit is handed protocols as [`carillon_core::ProtocolEntry`]s; it does not depend on them.
