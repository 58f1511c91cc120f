//! Sockets: messages and streams, sent to a group and received from it, for every protocol of the registry.
//!
//! [`bind`] names the group. [`connect`](Socket::connect) opens a session as its sender, once the receivers are there,
//! and gives an [`Outbound`]; [`listen`](Socket::listen) gives a [`Listener`], which [accepts](Listener::accept) one
//! session after the other as an [`Inbound`]; [`join`](Socket::join) joins a session of peers that another end
//! opened, as a further sender. Each blocking call (`send`, `recv`) has a counterpart for tasks of any async runtime
//! (`send_async`, `recv_async`).
//!
//! Messages keep their boundaries, up to a length of [`MAX_MESSAGE_LEN`]. [`Outbound`] also implements
//! [`Write`](std::io::Write) and [`Inbound`] [`Read`](std::io::Read), for a stream of bytes. With `set("order",
//! "arrival")` of the protocol `carillon` a message is delivered as soon as it arrives, possibly before earlier ones
//! that were lost. That order suits numbered messages, not a stream of bytes.
//!
//! A [daemon](crate::daemon) holds the network sockets of many programs of a machine ([`through`](Socket::through)).
//!
//! `carillon send --stream` and `recv --stream` use the same session, loop, records and reports. A sending socket waits
//! for its receivers as the protocol does, and a slow receiving program slows the sender. Silent members are expelled
//! by the same rules.
//!
//! ```
//! use carillon_transfer::socket::bind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! let mut listener = bind(group).interface("lo").name("alice").listen()?;
//! let receiver = std::thread::spawn(move || {
//!     let mut inbound = listener.accept()?;
//!     let mut texts = Vec::new();
//!     while let Some(message) = inbound.recv()? {
//!         texts.push(format!("{} {}: {}", message.sender, message.number, String::from_utf8_lossy(&message.bytes)));
//!     }
//!     Ok::<_, carillon_transfer::Error>(texts)
//! });
//!
//! let mut outbound = bind(group).interface("lo").name("bob").protocol("pgm").receivers(1).connect()?;
//! assert_eq!(outbound.members()[0].name, "alice");
//! outbound.send(b"one")?;
//! outbound.send(&[b'x'; 100_000])?;
//! assert!(outbound.close()?.is_success());
//!
//! let texts = receiver.join().expect("it does not panic")?;
//! assert_eq!((texts.len(), texts[0].as_str(), texts[1].len()), (2, "bob 0: one", 100_007));
//! # Ok(()) }
//! ```
//!
//! The same in tasks, here of tokio:
//!
//! ```
//! use carillon_transfer::socket::bind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let Some(group) = carillon_testkit::loopback_group() else { return Ok(()) };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! runtime.block_on(async {
//!     let mut listener = bind(group).interface("lo").listen()?;
//!     let receive = async {
//!         let mut inbound = listener.accept_async().await?;
//!         let mut bytes = 0;
//!         while let Some(message) = inbound.recv_async().await? {
//!             bytes += message.bytes.len();
//!         }
//!         Ok::<_, carillon_transfer::Error>(bytes)
//!     };
//!     let send = async {
//!         let mut outbound = bind(group).interface("lo").name("bob").receivers(1).connect_async().await?;
//!         for _ in 0..1000 {
//!             outbound.send_async(&[7; 1000]).await?;
//!         }
//!         outbound.close_async().await
//!     };
//!     let (bytes, report) = tokio::join!(receive, send);
//!     assert_eq!(bytes?, 1_000_000);
//!     assert!(report?.is_success());
//!     Ok(())
//! })
//! # }
//! ```

mod inbound;
mod message;
mod opening;
mod outbound;
mod queue;
mod settings;

pub use crate::files::MAX_MESSAGE_LEN;
pub use inbound::{Inbound, Listener, Stopper};
pub use message::{Member, Message, Timed};
pub use outbound::{Closing, JoinedOutbound, Outbound, Refusal, SenderEvent, Sending};
pub(crate) use queue::{Filler, Queue};
pub use settings::{Socket, ToBind, bind};
