//! Readiness of services for the service manager, after sd_notify(3): a datagram to the socket in NOTIFY_SOCKET.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;

use carillon_testkit::{loopback_group, skip};

/// Starts a service; returns the first message that it sends to this socket.
fn first_message(socket: &UnixDatagram, name: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Command::new(env!("CARGO_BIN_EXE_carillon"))
        .args(arguments)
        .current_dir(folder.path())
        .env("NOTIFY_SOCKET", name)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut bytes = [0; 400];
    let read = socket.recv(&mut bytes);
    service.kill().and_then(|()| service.wait()).expect("the service ends");
    String::from_utf8(bytes[..read.expect("a message")].to_vec()).expect("UTF-8")
}

#[test]
fn services_tell_a_socket_file_that_they_are_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let Some(group) = loopback_group() else { return skip("loopback carries no multicast") };
    let group = group.to_string();
    let to_group = ["--interface", "lo", "--group", &group];
    let recv = [&["recv", "--keep-going"], &to_group[..]].concat();
    let helper = [&["relay", "--protocol", "rmtp"], &to_group[..]].concat();
    let absent = ["recv", "--keep-going", "--interface", "absent0"];
    let daemon = ["daemon", "--socket", "socket"];
    let cases: [(&[&str], &str); 4] = [
        (&recv, "listening to "),
        (&helper, "listening to "),
        (&daemon, "listening at socket"),
        (&absent, "waiting for the network"),
    ];
    for (arguments, status) in cases {
        let message = first_message(&socket, path.to_str().expect("UTF-8"), arguments);
        assert!(message.starts_with("READY=1\nSTATUS="), "{arguments:?}: {message}");
        assert!(message.contains(status), "{arguments:?}: {message}");
    }
}

#[test]
fn services_tell_an_abstract_socket_too() {
    let name = format!("carillon-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("a socket");
    let message = first_message(&socket, &format!("@{name}"), &["daemon", "--socket", "socket"]);
    assert!(message.starts_with("READY=1\n"), "{message}");
}
