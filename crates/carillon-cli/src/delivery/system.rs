//! Messages to the service manager that started the command, after sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;

use anyhow::Context as _;

/// Notifies the service manager that the service has started, and of its status; without one, does nothing.
pub fn tell_ready(status: &str) -> anyhow::Result<()> {
    let Some(to) = std::env::var_os("NOTIFY_SOCKET").filter(|to| !to.is_empty()) else { return Ok(()) };
    let text = format!("READY=1\nSTATUS={}", status.replace('\n', " "));
    send(&to, text.as_bytes()).with_context(|| format!("NOTIFY_SOCKET {}", to.display()))
}

/// Sends a datagram to a path, or to an abstract name, which begins with `@`.
fn send(to: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = to.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(bytes, &address).map(drop);
    }
    socket.send_to(bytes, to).map(drop)
}
