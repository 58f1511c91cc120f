//! Limits of the daemon and of programs that talk to it.

use std::time::Duration;

/// Time within which a connection has to state its purpose.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for a program to read the final frames.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to accept after the system refused.
pub(super) const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between checks whether another daemon has ended.
pub(super) const TAKEOVER_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// End of the refusal text when a limit is reached.
pub(super) const LIMIT_REACHED: &str = ", and no more may be";
/// Refusal text for a connection displaced before it stated its purpose.
pub(super) const DISPLACED: &str = "displaced by other connections before a request arrived: try again";
/// Maximum number of attempts of `status` and `stop` after displacement.
pub(super) const MAX_COMMAND_RETRIES: usize = 20;
/// File descriptors per connection with its network sockets.
pub(super) const FILES_PER_CLIENT: u64 = 10;
/// File descriptors for the daemon itself and for connections without a purpose.
pub(super) const SPARE_FILES: u64 = 100;
/// Stack size of a connection's thread, which has shallow calls.
pub(super) const CLIENT_STACK_BYTES: usize = 256 << 10;
