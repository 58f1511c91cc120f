//! What a datagram costs on loopback.

fn main() {}
