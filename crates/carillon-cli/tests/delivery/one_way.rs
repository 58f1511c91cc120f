//! Transfers over a path without a return direction.

use crate::delivery::support::{Place, files, need_multicast, wait_until};
use crate::netns::{Host, Net};

/// Waits until the receiver's socket is bound to the port of the default group.
fn wait_until_it_listens(host: &Host<'_>) {
    wait_until("it listens", || host.shell("cat /proc/net/udp").contains(":1DE6"));
}

/// The sender's port drops all incoming packets, and no receiver sends a packet that requires an answer.
#[test]
fn receivers_that_say_nothing_have_what_was_sent() {
    let Some(net) = Net::new(2) else { return };
    let expected = blake3::hash(&std::fs::read(net.file("f", 3_000_000)).expect("the file"));
    net.sender().lose_in(1.0);
    net.receivers().for_each(|host| host.lose_in(0.05));
    let before: Vec<u64> = net.receivers().map(|host| host.counters().frames_out).collect();
    let receivers: Vec<_> = net
        .receivers()
        .map(|host| host.carillon(&format!("recv --one-way --json --out {}", host.name())).start())
        .collect();
    net.receivers().for_each(|host| wait_until_it_listens(&host));
    let sent = net.sender().carillon("send f --one-way --wait 1 --rate 50Mbit/s --json").run().expect(0);
    let report = &sent.events("report")[0];
    assert_eq!((&report["silent"], &report["failure"]), (&true.into(), &serde_json::Value::Null), "{report}");
    for (receiver, host) in receivers.into_iter().zip(net.receivers()) {
        let ended = receiver.end().expect(0);
        assert_eq!(ended.events("report")[0]["outcome"], "verified");
        let there: Vec<_> = files(&net.path(host.name())).into_iter().collect();
        assert_eq!(there, [("f".to_owned(), expected)]);
    }
    // The only packets are those with which the kernel joins the group, and other packets of the system.
    for (host, before) in net.receivers().zip(before) {
        let frames = host.counters().frames_out - before;
        assert!(frames < 20, "{} has sent {frames} frames", host.name());
    }
}

#[test]
fn who_goes_one_way_alone_is_told_what_the_other_has_to_do() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 1000);
    // This sender waits for answers.
    let receiver = place.recv("a").arg("--one-way").start();
    let sender = place.send("s").arg(&file).args("--receivers 1 --join-timeout 3").start();
    wait_until("it says so", || receiver.err().contains("--one-way at both ends"));
    receiver.signal("INT");
    receiver.end().expect(1);
    sender.end().expect(1);

    // The end was not received in time, and the transfer is over regardless.
    let sent = place.send("s").arg(&file).args("--one-way --rate 50Mbit/s --wait 0").run().expect(0);
    assert!(sent.out.contains("cannot know"), "{}", sent.out);

    let refused = |flags: &str, words: &[&str]| {
        let ended = place.send("s").arg(&file).args(flags).run().expect(2);
        assert!(words.iter().all(|word| ended.err.contains(word)), "{flags}: {}", ended.err);
    };
    refused("--one-way", &["--rate"]);
    refused("--one-way --rate 5Mbit/s --receivers 2", &["cannot be used with"]);
    refused("--one-way --rate 5Mbit/s --set feedback=polls", &["carillon", "waits for answers"]);
    refused("--one-way --rate 5Mbit/s --protocol rra", &["rra", "needs answers"]);
    std::fs::write(place.path("key"), [b'k'; 44]).expect("a key file");
    std::fs::set_permissions(place.path("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let key = place.path("key");
    let sealed = place.send("s").arg(&file).args("--one-way --rate 5Mbit/s --key-file").arg(&key).run();
    sealed.expect(2).one_line(&["traffic in both directions", "--sign-key"]);
    let sealed = place.recv("b").args("--one-way --key-file").arg(&key).run();
    sealed.expect(2).one_line(&["traffic in both directions"]);
}

/// A loss beyond the repair symbols cannot be repaired without a return direction. A message says where data is
/// missing.
#[test]
fn what_is_lost_beyond_what_goes_out_for_it_is_named() {
    let Some(net) = Net::new(1) else { return };
    net.file("f", 1_000_000);
    net.receiver(1).lose_in(0.3);
    let receiver = net.receiver(1).carillon("recv --one-way --out r").start();
    wait_until_it_listens(&net.receiver(1));
    net.sender().carillon("send f --one-way --wait 1 --rate 50Mbit/s").run().expect(0);
    let ended = receiver.end().expect(1);
    assert!(ended.err.contains("missing") || ended.err.contains("incomplete"), "{}", ended.err);
    assert!(files(&net.path("r")).is_empty());
}
