//! XTP directly over IP, between hosts of a network.

use std::fs;

use crate::netns::{Host, Net};

#[test]
fn xtp_delivers_directly_over_ip_through_losses() {
    let Some(net) = Net::new(2) else { return };
    let file = net.file("f", 300_000);
    let start = |host: Host<'_>| {
        // Session packets are short and pass; data over UDP would not.
        host.firewall_in("meta l4proto udp udp length > 900");
        let line = "recv --raw-ip --drop 0.02 --seed 3";
        host.carillon(&format!("{line} --name {} --out {}", host.name(), host.name())).start()
    };
    let receivers: Vec<_> = net.receivers().map(start).collect();
    net.sender().carillon("send f --protocol xtp --raw-ip --receivers 2").run().expect(0);
    for (receiver, name) in receivers.into_iter().zip(["r1", "r2"]) {
        receiver.end().expect(0);
        let copy = fs::read(net.path(&format!("{name}/f"))).unwrap();
        assert!(copy == fs::read(&file).unwrap(), "{name}: another file");
    }
}

#[test]
fn protocol_without_ip_number_is_refused() {
    let Some(net) = Net::new(1) else { return };
    net.file("f", 10);
    let ended = net.sender().carillon("send f --protocol rra --raw-ip --receivers 1").run().expect(2);
    assert!(ended.err.contains("\"rra\" supports UDP only"), "{}", ended.err);
}
