//! Signed transfers: a member with the group key cannot pass as the sender.

use std::path::Path;
use std::process::Command;

use crate::delivery::support::{Place, files, need_multicast};

/// Creates a key pair as `docs/explanation/security.md` describes. Prints a notice and returns `None` without
/// OpenSSL.
fn keys(place: &Place, name: &str) -> Option<()> {
    let (private, public) = (place.path(&format!("{name}.pem")), place.path(&format!("{name}.pub")));
    let openssl = |args: &[&str], input: &[&Path]| {
        let done = Command::new("openssl").args(args).args(input).output();
        done.is_ok_and(|done| done.status.success())
    };
    let made = openssl(&["genpkey", "-algorithm", "ed25519", "-out"], &[&private])
        && openssl(&["pkey", "-pubout", "-in"], &[&private, Path::new("-out"), &public]);
    if !made {
        carillon_testkit::skip("no openssl that makes Ed25519 keys");
    }
    made.then_some(())
}

#[test]
fn trusted_key_accepts_files_of_its_owner_only() {
    need_multicast!();
    let place = Place::new();
    let (Some(()), Some(())) = (keys(&place, "right"), keys(&place, "wrong")) else { return };
    std::fs::write(place.path("key"), [b'k'; 44]).expect("a key file");
    // Two larger files, many small ones, an empty one, directories and a link.
    let tree = place.path("tree");
    for (name, len) in [("large", 300_000), ("deep/er/larger", 700_000), ("empty", 0)] {
        place.file(&format!("tree/{name}"), len);
    }
    (0..200).for_each(|n| _ = place.file(&format!("tree/small/{n}"), 20 * n));
    std::os::unix::fs::symlink("large", tree.join("link")).expect("a link");
    let recv = |name: &str| {
        let keys = [place.path("key"), place.path("right.pub")];
        place.recv(name).arg("--json").arg("--key-file").arg(&keys[0]).arg("--trust").arg(&keys[1])
    };
    let send = |name: &str| {
        let keep = "--receivers 1 --symlinks keep --datagram 1472 --key-file";
        place.send(name).arg(&tree).args(keep).arg(place.path("key"))
    };

    let receiver = recv("a").start();
    send("right").arg("--sign-key").arg(place.path("right.pem")).run().expect(0);
    let ended = receiver.end().expect(0);
    assert_eq!(files(&place.path("a/tree")), files(&tree));
    assert!(place.path("a/tree/link").is_symlink());
    let report = &ended.events("report")[0];
    let public = std::fs::read_to_string(place.path("right.pub")).expect("a public key");
    let tail = report["senders"][0]["signed_by"].as_str().expect("a key").to_owned();
    assert!(report["senders"][0]["signed_at"].as_u64() > Some(1_700_000_000), "{report}");

    // A sender with the group key and the wrong private key. All users of the host can read that key file, and a
    // warning says so.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(place.path("wrong.pem"), everybody).expect("it is ours");
    for (number, signed) in [None, Some("wrong.pem")].into_iter().enumerate() {
        let name = format!("b{number}");
        let receiver = recv(&name).start();
        let sender = send(&name);
        let sender = match signed {
            Some(key) => sender.arg("--sign-key").arg(place.path(key)),
            None => sender,
        };
        let sender = sender.run().expect(1);
        let warned = sender.err.contains("everybody on this host can read or write the signing key");
        assert_eq!(warned, signed.is_some(), "{}", sender.err);
        let ended = receiver.end().expect(1);
        let reason = ended.events("report")[0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains("--trust"), "{reason}");
        assert!(files(&place.path(&name)).is_empty(), "{signed:?}: {:?}", files(&place.path(&name)));
    }

    // The trusted key is named in the form that reports print. A receiver that trusts no key accepts signed files
    // like others.
    assert!(public.lines().nth(1).is_some_and(|line| line.ends_with(&tail)), "{public} {tail}");
    for (name, trust) in [("c", Some(tail)), ("d", None)] {
        let receiver = place.recv(name).arg("--key-file").arg(place.path("key"));
        let receiver = match trust {
            Some(key) => receiver.arg("--trust").arg(key),
            None => receiver,
        };
        let receiver = receiver.start();
        send(name).arg("--sign-key").arg(place.path("right.pem")).run().expect(0);
        let ended = receiver.end().expect(0);
        assert_eq!(ended.out.contains("signed"), name == "c", "{}", ended.out);
        assert_eq!(files(&place.path(name).join("tree")), files(&tree));
    }
}

/// A member can replay a recorded transfer of the sender, with valid signatures.
#[test]
fn an_older_signed_transfer_is_refused_unless_asked_for() {
    need_multicast!();
    let place = Place::new();
    let Some(()) = keys(&place, "right") else { return };
    let file = place.file("f", 10_000);
    let recv = |name: &str, more: &str| {
        place.recv(name).args("--overwrite --json --trust").arg(place.path("right.pub")).args(more).start()
    };
    let send = |code| {
        let job = place.send("s").arg(&file).args("--receivers 1 --sign-key").arg(place.path("right.pem"));
        job.run().expect(code)
    };
    for _ in 0..2 {
        let receiver = recv("a", "");
        send(0);
        receiver.end().expect(0);
    }
    // The state file claims that a transfer signed later than these was accepted.
    let state = place.path("state/carillon/accepted");
    let text = std::fs::read_to_string(&state).expect("it remembers");
    let last = text.lines().last().expect("a line").to_owned();
    let mut fields: Vec<&str> = last.split(' ').collect();
    assert!(text.lines().count() == 2 && fields[3] == "f" && fields[1] == place.group.to_string(), "{text}");
    fields[2] = "9000000000000000000";
    std::fs::write(&state, format!("{text}{}\n", fields.join(" "))).expect("written");
    let receiver = recv("a", "");
    send(1);
    let ended = receiver.end().expect(1);
    let report = &ended.events("report")[0];
    let reason = report["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("f was signed") && reason.contains("--allow-older"), "{report}");
    let receiver = recv("a", "--allow-older");
    send(0);
    receiver.end().expect(0);
    let elsewhere = place.path("elsewhere");
    let receiver = recv("a", &format!("--trust-history {}", elsewhere.display()));
    send(0);
    receiver.end().expect(0);
    assert!(elsewhere.exists());
    // A history file with invalid content is an error.
    std::fs::write(&elsewhere, "nonsense\n").expect("written");
    let ended = recv("a", &format!("--trust-history {}", elsewhere.display())).end().expect(2);
    assert!(ended.err.contains("elsewhere: line 1"), "{}", ended.err);
}

#[test]
fn keys_that_are_none_and_streams_are_refused() {
    let place = Place::new();
    let file = place.file("f", 10);
    std::fs::write(place.path("none"), "nothing").expect("a file");
    let ended = place.send("s").arg(&file).arg("--sign-key").arg(place.path("none")).run().expect(2);
    assert!(ended.err.contains("openssl genpkey"), "{}", ended.err);
    let ended = place.recv("r").arg("--trust").arg(place.path("none")).run().expect(2);
    assert!(ended.err.contains("openssl pkey"), "{}", ended.err);
    place.send("s").args("- --stream --sign-key").arg(place.path("none")).run().expect(2);
    place.recv("r").args("--stream --trust").arg(place.path("none")).run().expect(2);
}
