//! The library as a program meets it. One program, because most of these tests wait most of their time: they wait
//! together.

mod daemon;
mod daemon_path;
mod examples;
mod library;
mod monitor;
mod options;
mod plain_files;
mod sealed;
mod sockets;
