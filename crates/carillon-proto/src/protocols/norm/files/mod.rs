//! Files in plain sessions of NORM: objects (RFC 5740, 2.1), as other implementations send and receive them.
//!
//! A file is an object of its own: its name is the object's information (INFO), and its contents are cut into blocks
//! (RFC 5052). Each packet states the sizes of its object (EXT_FTI). Repairs are as in sessions of Carillon, but a
//! receiver may also request information, whole blocks and whole objects.

mod code;
mod geometry;
mod names;
mod needs;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::NormFileReceiver;
pub use sender::NormFileSender;
