//! Addressed helpers as processes of their own: every protocol with helpers delivers through losses at every port,
//! and after one of the helpers is killed.

use std::fs;
use std::time::Duration;

use carillon_core::Helpers;
use carillon_proto::REGISTRY;
use carillon_testkit::{is_long_or_skipped, sampling_step};

use crate::delivery::support::in_parallel;
use crate::netns::{Host, Net};

/// Settings of protocols in which a user can choose unicast.
const ADDRESSED: [(&str, &str); 2] =
    [("csp", "--set repair_to=lacking"), ("dsp", "--set source_to=representatives")];

/// Delivers with each protocol to receivers of a network in which the last hosts help, with default settings and with
/// those in `ways`.
fn deliver_with_helpers(receivers: usize, helpers: usize, bytes: usize, kills: bool, ways: &[(&str, &str)]) {
    let helped = REGISTRY.iter().filter(|entry| entry.helpers != Helpers::None);
    let helped = helped.map(|entry| (entry.name, "")).chain(ways.iter().copied());
    let helped: Vec<_> = helped.skip(sampling_step(2) - 1).step_by(sampling_step(3)).collect();
    in_parallel(3, &helped, |&(protocol, settings)| {
        let Some(net) = Net::new(receivers + helpers) else { return };
        net.hosts().for_each(|host| host.lose_in(0.05));
        let content = fs::read(net.file("f", bytes)).unwrap();
        let (ours, theirs): (Vec<_>, Vec<_>) =
            net.receivers().enumerate().partition(|(number, _)| *number < receivers);
        let help = |(_, host): &(usize, Host<'_>)| {
            let line = format!("relay --protocol {protocol} --once --json --name {}", host.name());
            host.carillon(&line).start()
        };
        let mut helping: Vec<_> = theirs.iter().map(help).collect();
        let receive = |(_, host): &(usize, Host<'_>)| {
            host.carillon(&format!("recv --name {0} --out {0}", host.name())).start()
        };
        let receiving: Vec<_> = ours.iter().map(receive).collect();
        let rate = if kills { "--rate 20Mbit/s" } else { "" };
        let line = format!(
            "send f --protocol {protocol} --receivers {receivers} --helpers {helpers} --fanout 1 {rate} {settings} --json"
        );
        let mut sending = net.sender().carillon(&line).start();
        if kills {
            // It has begun to serve.
            while !helping[0].out().contains("serving") && !helping[0].is_over() && !sending.is_over() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
            helping[0].kill();
        }
        let sent = sending.end();
        let what = format!("{protocol} {settings} to {receivers} with {helpers}: {}{}", sent.out, sent.err);
        assert_eq!(sent.code, Some(0), "{what}");
        let report = &sent.events("report")[0];
        assert_eq!(report["helpers"].as_array().map(Vec::len), Some(helpers), "{what}");
        for (receiver, (_, host)) in receiving.into_iter().zip(&ours) {
            let ended = receiver.end();
            assert_eq!(ended.code, Some(0), "{what}\n{}: {}{}", host.name(), ended.out, ended.err);
            assert!(fs::read(net.path(host.name()).join("f")).unwrap() == content, "{what}: another file");
        }
        for helper in helping.into_iter().skip(usize::from(kills)) {
            let ended = helper.end();
            let told = &ended.events("report")[0];
            assert_eq!(ended.code, Some(0), "{what}\n{}{}", ended.out, ended.err);
            println!("{protocol}: served {} with {} repairs", told["served"], told["repairs"]);
        }
        println!("{protocol} to {receivers} with {helpers}: {} s", report["seconds"]);
    });
}

/// Three receivers, of which one is a helper too.
#[test]
fn every_protocol_with_helpers_delivers_where_a_receiver_helps() {
    let helped = REGISTRY.iter().filter(|entry| entry.helpers != Helpers::None);
    let helped: Vec<_> = helped.skip(sampling_step(3) - 1).step_by(sampling_step(3)).collect();
    in_parallel(3, &helped, |entry| {
        let Some(net) = Net::new(3) else { return };
        net.hosts().for_each(|host| host.lose_in(0.05));
        let content = fs::read(net.file("f", 300_000)).unwrap();
        let names: Vec<String> = net.receivers().map(|host| host.name().to_owned()).collect();
        let receiving: Vec<_> = net
            .receivers()
            .map(|host| {
                let helps = if host.name() == names[0] { "--helps" } else { "" };
                host.carillon(&format!("recv --name {0} --out {0} --json {helps}", host.name())).start()
            })
            .collect();
        let line = format!("send f --protocol {} --receivers 3 --helpers {}", entry.name, names[0]);
        let sent = net.sender().carillon(&format!("{line} --json")).start().end();
        let what = format!("{}: {}{}", entry.name, sent.out, sent.err);
        assert_eq!(sent.code, Some(0), "{what}");
        for (receiver, name) in receiving.into_iter().zip(&names) {
            let ended = receiver.end();
            assert_eq!(ended.code, Some(0), "{what}\n{name}: {}{}", ended.out, ended.err);
            assert!(fs::read(net.path(name.as_str()).join("f")).unwrap() == content, "{what}: another file");
            let served = ended.events("report")[0]["served"].as_array().map(Vec::len);
            assert_eq!(served, Some(if *name == names[0] { 2 } else { 0 }), "{what}\n{name}: {}", ended.out);
        }
    });
}

#[test]
fn every_protocol_with_helpers_delivers_with_two_in_a_chain() {
    deliver_with_helpers(3, 2, 300_000, false, &ADDRESSED);
}

#[test]
fn every_protocol_with_helpers_delivers_though_one_is_killed() {
    // The test of tree repair also kills one helper of each protocol.
    if is_long_or_skipped() {
        deliver_with_helpers(2, 2, 4_000_000, true, &ADDRESSED);
    }
}

/// The sender is 60 ms away from all members, one of two helpers 15 ms, and the other is nearest to all. Every
/// difference exceeds the delay that a busy machine adds. The nearest helper selects the sender as its parent, and is
/// then killed.
#[test]
fn helper_protocols_form_trees_by_distance_and_repair_them() {
    let helped = REGISTRY.iter().filter(|entry| entry.helpers != Helpers::None);
    let helped: Vec<_> = helped.step_by(sampling_step(4)).collect();
    in_parallel(3, &helped, |entry| {
        let delays = [("s", Duration::from_millis(60)), ("r3", Duration::from_millis(15))];
        let Some(net) = Net::apart(4, &delays) else { return };
        net.hosts().for_each(|host| host.lose_in(0.02));
        let content = fs::read(net.file("f", 2_000_000)).unwrap();
        let protocol = entry.name;
        let host = |number: usize| net.receiver(number);
        let help = |number: usize| {
            let line = format!("relay --protocol {protocol} --once --json --name r{number}");
            host(number).carillon(&line).start()
        };
        let (far, mut near) = (help(3), help(4));
        let receiving = [1, 2].map(|number| {
            host(number).carillon(&format!("recv --name r{number} --out r{number} --json")).start()
        });
        let line = format!(
            "send f --protocol {protocol} --receivers 2 --helpers 2 --nearest --rate 12Mbit/s --timeout 3 --json"
        );
        let mut sending = net.sender().carillon(&line).start();
        // It has begun to serve.
        while !near.out().contains("serving") && !near.is_over() && !sending.is_over() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        let served = near.out();
        near.kill();
        let sent = sending.end();
        let what = format!("{protocol}: {}{}\n{served}", sent.out, sent.err);
        assert_eq!(sent.code, Some(0), "{what}");
        for name in ["r1", "r2", "r3"] {
            assert!(served.contains(&format!("\"{name}\"")), "{name} turns to the near one: {what}");
        }
        for (number, receiver) in (1..).zip(receiving) {
            let ended = receiver.end();
            assert_eq!(ended.code, Some(0), "{what}\n{}{}", ended.out, ended.err);
            assert!(fs::read(net.path(&format!("r{number}")).join("f")).unwrap() == content, "{what}");
        }
        let far = far.end();
        assert_eq!(far.code, Some(0), "{what}\n{}{}", far.out, far.err);
        println!("{protocol}: {} s", sent.events("report")[0]["seconds"]);
    });
}
