//! Reliable multicast delivery as a library: files, streams and messages, from one sender or several to many
//! receivers over UDP, by any protocol of the registry. The command `carillon send` and `recv` is this crate with
//! arguments and printing.
//!
//! A function per role returns a builder: [`send`], [`receive`], [`join`] for a further sender in a session of peers,
//! and [`help()`] for a helper that repairs losses of other members. [`send_reader`], [`send_lines`], [`join_reader`]
//! and [`join_lines`] send from a reader, as one file or line by line. [`receive_to`] and [`receive_messages`] write
//! to a writer or to [`Messages`].
//!
//! # Blocking
//!
//! `run()` sends or receives in the caller's thread and returns a report of all members. A receiver that did not get
//! everything is not an [`Error`]: the report lists it, and [`SendReport::is_success`] returns false. An error concerns
//! this end only: its files, its settings or its network.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let (notes, incoming) = (directory.path().join("notes.txt"), directory.path().join("incoming"));
//! # std::fs::write(&notes, "read by many")?;
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! let there = incoming.clone();
//! let receiver = std::thread::spawn(move || {
//!     carillon_transfer::receive(there).group(group).interface("lo").name("alice").run()
//! });
//!
//! let report = carillon_transfer::send([&notes]).group(group).interface("lo").expect(["alice"]).run()?;
//!
//! assert!(report.is_success());
//! for one in &report.receivers {
//!     println!("{}: {} bytes, {}, waited for {:?}", one.name, one.bytes, one.outcome.name(), one.waited);
//! }
//! let came = receiver.join().expect("it does not panic")?;
//! assert_eq!((came.files, came.bytes), (1, 12));
//! assert_eq!(std::fs::read(incoming.join("notes.txt"))?, b"read by many");
//! # Ok(()) }
//! ```
//!
//! # In the background, blocking or async
//!
//! `start()` returns a [`Handle`] on a thread. Its [`Events`] can be read by a thread or awaited by a task of any async
//! runtime, here tokio's; [`Handle::abort`] ends the transfer in order, and [`Handle::wait`] or [`Handle::ended`]
//! gives the report.
//!
//! ```
//! use carillon_transfer::{ReceiveEvent, SendEvent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let incoming = directory.path().join("incoming");
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! runtime.block_on(async {
//!     let receiver = carillon_transfer::receive(incoming).group(group).interface("lo").name("bob").start();
//!     let text = std::io::Cursor::new("made while it is sent");
//!     let sender = carillon_transfer::send_reader("text", text).group(group).interface("lo").receivers(1).start();
//!
//!     let events = sender.events();
//!     while let Some(event) = events.next().await {
//!         if let SendEvent::Joined { name, .. } = event {
//!             println!("{name} is there");
//!         }
//!     }
//!     assert!(sender.ended().await?.is_success());
//!
//!     let files = receiver.events().into_iter().filter(|event| matches!(event, ReceiveEvent::File { .. }));
//!     assert_eq!(files.count(), 1);
//!     assert!(receiver.ended().await?.is_success());
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # Messages
//!
//! A live stream hands messages over as they come, each with its sender and number:
//!
//! ```
//! use std::sync::mpsc::{Sender, channel};
//!
//! struct Lines(Sender<String>);
//!
//! impl carillon_transfer::Messages for Lines {
//!     fn message(&mut self, sender: &str, number: u64, bytes: &[u8]) -> std::io::Result<()> {
//!         let line = format!("{sender} {number}: {}", String::from_utf8_lossy(bytes));
//!         self.0.send(line).map_err(std::io::Error::other)
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! let (to, lines) = channel();
//! let receiver = carillon_transfer::receive_messages(Lines(to)).group(group).interface("lo").start();
//! let input = std::io::Cursor::new("one\ntwo\n");
//! let report = carillon_transfer::send_lines(input).group(group).interface("lo").name("bob").receivers(1).run()?;
//! assert!(report.is_success() && receiver.wait()?.messages == 2);
//! assert_eq!(lines.iter().collect::<Vec<_>>(), ["bob 0: one\n", "bob 1: two\n"]);
//! # Ok(()) }
//! ```
//!
//! # Sockets
//!
//! [`socket`] offers messages and streams through the usual calls: bind, connect, listen, accept, send, receive.
//!
//! # Access control
//!
//! With a key every datagram is sealed (encrypted and authenticated), and only hosts with the same key can take part.
//! Without a key any host on the network can read a session and take part in it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let (file, incoming) = (directory.path().join("key"), directory.path().join("incoming"));
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! # std::fs::write(&file, "rJ4UjGVpZ2Kc0S5c8hPgT1m9XqvWb3Yd7LoNEkFaMuI=\n")?;
//! use carillon_transfer::Key;
//!
//! let key = Key::read(&file)?.key; // head -c 32 /dev/urandom | base64 > key
//! let receiver = carillon_transfer::receive(incoming).group(group).interface("lo").key(key.clone()).start();
//! let text = std::io::Cursor::new("read by few");
//! let sender = carillon_transfer::send_reader("text", text).group(group).interface("lo").key(key).receivers(1);
//! assert!(sender.run()?.is_success() && receiver.wait()?.is_success());
//! # Ok(()) }
//! ```
//!
//! # Lower layers
//!
//! A program that observes a session while it runs, as the command does, opens it in parts. [`Network::open`] opens the
//! sockets; [`SendOptions::open`], [`ReceiveOptions::open`] or [`JoinOptions::open`] opens the session; and
//! [`run_to_end`](run_loop::run_to_end) is the event loop. Threads beside the loop read and write disks. [`files`]
//! contains the applications at the ends of a session.

pub mod daemon;
pub mod doctor;
mod end;
mod error;
mod event;
pub mod files;
mod follow;
mod handle;
mod help;
mod join;
mod limits;
mod network;
pub mod options;
mod participant;
pub mod plain;
mod publisher;
mod receive;
mod report;
mod roster;
pub mod run_loop;
mod send;
mod shared;
pub mod socket;
mod tally;

pub use carillon_monitor as monitor;
pub use carillon_net::{Dscp, Key, KeyError, KeyFile, Path, SubscriptionState, Waker};
pub use end::End;
pub use error::{Error, ErrorKind, LocalError, LocalErrorKind};
pub use event::{HelpEvent, JoinEvent, ReceiveEvent, SendEvent};
pub use files::{
    Arrived, Exclude, ExcludeError, Finish, History, MAX_HISTORY_BYTES, Messages, Signature, SigningKey,
    SkipReason, Skipped, Symlinks, Trust, VerifyingKey,
};
pub use follow::{Follower, NetworkChange};
pub use handle::{Blocking, Events, Handle};
pub use help::{HelpOptions, HelpRun, Helping, ToHelp, help};
pub use join::{JoinOptions, JoinRun, Joining, ToJoin, join, join_lines, join_reader};
pub use limits::ATTACHED_MAX_LEN;
pub use network::{Bound, DEFAULT_GROUP, DEFAULT_GROUP_V6, DEFAULT_UNICAST_RATE, Network};
pub use receive::{
    FileOptions, ReceiveOptions, ReceiveRun, Receiving, STREAM_GOES_ON, ToReceive, receive, receive_messages,
    receive_to, receive_to_device,
};
pub use report::{
    Deleted, HelpReport, HelperReport, JoinReport, Omissions, Outcome, Preview, PreviewedReceiver,
    ReceiveReport, ReceiverReport, SendReport, SenderReport, SentCounts, StreamPart, UnservedReport,
};
pub use send::{
    DEFAULT_PROTOCOL, DEFAULT_ROUNDS, Facts, GATHER_WAIT, OpenSend, SendOptions, SendRun, Sending, ToSend,
    hears_group, send, send_device, send_lines, send_reader,
};
pub use tally::Tally;
