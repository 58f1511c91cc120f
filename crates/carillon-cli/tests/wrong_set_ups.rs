//! `docs/reference/wrong-set-ups.md` agrees with the program: each set-up of the page is made in namespaces. Each
//! line that an end prints is on the page, and each line of the page is printed.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::netns::process::{Ended, Job, Running};
use crate::netns::{CARILLON, Host, Net};

/// Output of each end, by its name in the page.
type Ends = Vec<(&'static str, Ended)>;

macro_rules! set_ups {
    ($($(#[$doc:meta])* $name:ident($receivers:literal, $net:ident) $body:block)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                let Some($net) = Net::new($receivers) else { return };
                $net.file("f", 300_000);
                let ends: Ends = $body;
                compare(stringify!($name), &ends);
            }
        )*
    };
}

set_ups! {
    nobody_expected(1, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--wait 0.2").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    no_route(1, net) {
        net.sender().no_multicast_route();
        net.receiver(1).no_multicast_route();
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    wrong_interface(1, net) {
        let host = net.receiver(1);
        host.shell("ip link add eth1 type veth peer name eth2; ip link set eth2 up; ip addr add 10.88.0.1/24 dev eth1; ip link set eth1 up");
        let r1 = recv(&host, "--interface eth1").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    wrong_group(1, net) {
        let r1 = recv(&net.receiver(1), "--group 239.255.67.66:7654").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    one_way_receiver(1, net) {
        let r1 = recv(&net.receiver(1), "--one-way").start();
        let sender = send(&net, "--join-timeout 8").start();
        let r1 = interrupt(r1, "no sender found");
        vec![("sender", sender.end()), ("r1", r1)]
    }
    other_program(1, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let host = net.extra();
        let socket = host.inside(|| UdpSocket::bind((host.address(), 0)).expect("a port"));
        let ended = interrupt_meanwhile(r1, "no sender found", || {
            socket.send_to(b"something else", "239.255.67.65:7654").expect("sent");
        });
        vec![("r1", ended)]
    }
    other_version(1, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let host = net.extra();
        let socket = host.inside(|| UdpSocket::bind((host.address(), 0)).expect("a port"));
        let ended = interrupt_meanwhile(r1, "no sender found", || {
            socket.send_to(&[0xCA, 9, 0, 1, 0, 0, 0, 0], "239.255.67.65:7654").expect("sent");
        });
        vec![("r1", ended)]
    }
    jumbo_sender(1, net) {
        net.sender().mtu(9000);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    jumbo_datagrams(1, net) {
        net.sender().mtu(9000);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--datagram 8972 --join-timeout 0.5").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    jumbo_receiver(1, net) {
        net.receiver(1).mtu(9000);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    small_mtu_between(1, net) {
        net.sender().mtu(9000);
        net.receiver(1).mtu(9000);
        // The port of the switch keeps the shorter frames.
        net.receiver(1).switch_port_mtu(1500);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    jumbo_datagrams_between(1, net) {
        net.sender().mtu(9000);
        net.receiver(1).mtu(9000);
        net.receiver(1).switch_port_mtu(1500);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--datagram 8972 --join-timeout 3").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    shrinking_path(1, net) {
        net.file("f", 5_000_000);
        net.sender().mtu(9000);
        net.receiver(1).mtu(9000);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1 --rate 20Mbit/s").start();
        wait_until("it has begun", || net.sender().counters().bytes_out > 500_000);
        net.receiver(1).switch_port_mtu(1500);
        vec![("sender", sender.end()), ("r1", r1.end())]
    }
    sender_behind_firewall(1, net) {
        net.sender().firewall_in("meta l4proto udp");
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 4.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "does not answer"))]
    }
    sender_behind_rejecting_firewall(1, net) {
        net.sender().shell("nft 'add table inet f { chain c { type filter hook input priority 0; meta l4proto udp reject; }; }'");
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 4.5").start();
        let r1 = interrupt(r1, "sending to it fails");
        vec![("sender", sender.end()), ("r1", r1)]
    }
    receiver_behind_firewall(1, net) {
        net.receiver(1).firewall_in("udp dport 7654");
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    answers_behind_firewall(1, net) {
        net.receiver(1).firewall_in("udp dport != 7654");
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1 --timeout 2 --join-timeout 12").start();
        let r1 = interrupt(r1, "does not answer");
        vec![("sender", sender.end_within(MAX_SENDER_TIME)), ("r1", r1)]
    }
    no_way_back(1, net) {
        let host = net.receiver(1);
        without_way_back(&host, 0);
        let r1 = recv(&host, "").start();
        let sender = send(&net, "--join-timeout 4.5").start();
        let r1 = interrupt(r1, "sending to it fails");
        vec![("sender", sender.end()), ("r1", r1)]
    }
    no_way_back_filtered(1, net) {
        let host = net.receiver(1);
        without_way_back(&host, 1);
        let r1 = recv(&host, "").start();
        let sender = send(&net, "--join-timeout 4.5").start();
        let r1 = interrupt(r1, "no sender found");
        vec![("sender", sender.end()), ("r1", r1)]
    }
    sender_forbidden(1, net) {
        net.sender().shell("nft 'add table inet f { chain c { type filter hook output priority 0; ip daddr 239.0.0.0/8 drop; }; }'");
        vec![("sender", send(&net, "--join-timeout 0.5").run())]
    }
    ipv6_only(1, net) {
        net.sender().shell("ip -4 addr flush dev eth0");
        net.receiver(1).shell("ip -4 addr flush dev eth0");
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    ipv6_only_ipv4_group(1, net) {
        net.sender().shell("ip -4 addr flush dev eth0");
        vec![("sender", send(&net, "--group 239.1.2.3:7654 --join-timeout 0.5").run())]
    }
    ipv6_link_local(1, net) {
        let group = "--group [ff02::77]:7654";
        vec![("sender", send(&net, group).run()), ("r1", recv(&net.receiver(1), group).run())]
    }
    small_buffer(1, net) {
        // A system limit cannot be lowered for one namespace, so the demand is raised above it.
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1 --protocol mbap --set window=4096").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    two_senders(1, net) {
        let extra = net.extra().carillon("send f --name s2 --join-timeout 3").start();
        let sender = send(&net, "--join-timeout 3").run();
        vec![("sender", sender), ("s2", extra.end())]
    }
    second_sender_later(1, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1 --rate 1Mbit/s").start();
        wait_until("it has begun", || net.path("r1").read_dir().is_ok_and(|mut files| files.next().is_some()));
        let extra = net.extra().carillon("send f --name s2 --join-timeout 0.7").run();
        vec![("sender", sender.end()), ("s2", extra), ("r1", r1.end())]
    }
    not_root(1, net) {
        let r1 = as_nobody(&net.receiver(1), "recv --name r1 --out r1").start();
        let sender = as_nobody(&net.sender(), "send f --receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    late_receiver(2, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1 --rate 1Mbit/s").start();
        wait_until("it has begun", || net.path("r1").read_dir().is_ok_and(|mut files| files.next().is_some()));
        let r2 = recv(&net.receiver(2), "").run();
        vec![("sender", sender.end()), ("r1", r1.end()), ("r2", r2)]
    }
    not_expected(2, net) {
        let r2 = recv(&net.receiver(2), "").start();
        let sender = send(&net, "--expect r1").start();
        let r2 = r2.end();
        let r1 = recv(&net.receiver(1), "").run();
        vec![("sender", sender.end()), ("r1", r1), ("r2", r2)]
    }
    name_twice(2, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 2 --join-timeout 3").start();
        wait_until("r1 has joined", || net.path("r1").is_dir());
        std::thread::sleep(Duration::from_millis(500));
        let twin = net.receiver(2).carillon("recv --name r1 --out twin").run();
        vec![("sender", sender.end()), ("r1", r1.end()), ("r2", twin)]
    }
    gone_before_the_start(2, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let mut r2 = recv(&net.receiver(2), "").start();
        // The third receiver never joins.
        let sender = send(&net, "--receivers 3 --timeout 2 --join-timeout 5").start();
        std::thread::sleep(Duration::from_secs(1));
        r2.kill();
        r1.signal("INT");
        vec![("sender", sender.end()), ("r1", r1.end())]
    }
    full_disk(1, net) {
        let script = "mkdir -p r1; mount -t tmpfs -o size=100k none r1; exec \"$1\" recv --name r1 --out r1";
        let r1 = in_mounts(&net.receiver(1), script).start();
        let sender = send(&net, "--receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    read_only(1, net) {
        let script = "mkdir -p r1; mount -t tmpfs -o ro none r1; exec \"$1\" recv --name r1 --out r1";
        vec![("r1", in_mounts(&net.receiver(1), script).run())]
    }
    port_taken(1, net) {
        let host = net.receiver(1);
        let _taken = host.inside(|| UdpSocket::bind("0.0.0.0:7654").expect("a free port"));
        vec![("r1", recv(&host, "").run())]
    }
    snooping_without_querier(1, net) {
        // The switch forwards a group only to ports that joined it, and remembers them only while a querier is
        // active.
        net.shell("ip link set bridge type bridge mcast_snooping 1 mcast_querier 0 mcast_query_response_interval 100; ip link set r1 type bridge_slave mcast_flood off");
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        let r1 = interrupt(r1, "no sender found");
        // Otherwise the set-up would be wrong in another way.
        net.shell("ip link set bridge type bridge mcast_querier 1");
        delivers(&net, "");
        vec![("sender", sender), ("r1", r1)]
    }
    router_between(1, net) {
        put_behind_a_router(&net);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        let r1 = interrupt(r1, "no sender found");
        delivers(&net, "--ttl 2");
        vec![("sender", sender), ("r1", r1)]
    }
    join_without_session(1, net) {
        vec![("sender", net.sender().carillon("send f --name s --join --join-timeout 4").run())]
    }
    other_key(1, net) {
        write_keys(&net);
        let r1 = recv(&net.receiver(1), "--key-file other").start();
        let sender = send(&net, "--join-timeout 0.5 --key-file key").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    key_at_the_sender(1, net) {
        write_keys(&net);
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--join-timeout 0.5 --key-file key").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    key_at_the_receiver(1, net) {
        write_keys(&net);
        let r1 = recv(&net.receiver(1), "--key-file key").start();
        let sender = send(&net, "--join-timeout 0.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    key_and_firewall(1, net) {
        write_keys(&net);
        net.sender().firewall_in("meta l4proto udp");
        let r1 = recv(&net.receiver(1), "--key-file key").start();
        let sender = send(&net, "--join-timeout 4.5 --key-file key").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
    no_copies(1, net) {
        net.receiver(1).firewall_in("ip daddr 224.0.0.0/4");
        let r1 = recv(&net.receiver(1), "--from 10.77.0.1").start();
        let sender = send(&net, "--join-timeout 4.5 --unicast-rate 0").run();
        vec![("sender", sender), ("r1", interrupt(r1, "does not answer requests"))]
    }
    short_key(1, net) {
        std::fs::write(net.path("short"), "secret\n").expect("a file");
        let sender = send(&net, "--key-file short").run();
        vec![("sender", sender), ("r1", recv(&net.receiver(1), "--key-file nowhere").run())]
    }
    exposed_key(1, net) {
        write_keys(&net);
        std::fs::copy(net.path("key"), net.path("public")).expect("a file");
        std::fs::set_permissions(net.path("public"), std::fs::Permissions::from_mode(0o644)).expect("it is ours");
        let r1 = recv(&net.receiver(1), "--key-file key").start();
        let sender = send(&net, "--receivers 1 --key-file public").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    no_key(1, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--receivers 1").run();
        vec![("sender", sender), ("r1", r1.end())]
    }
    hops_too_few(1, net) {
        let r1 = recv(&net.receiver(1), "").start();
        let sender = send(&net, "--ttl 0 --join-timeout 0.5").run();
        vec![("sender", sender), ("r1", interrupt(r1, "no sender found"))]
    }
}

#[test]
fn the_page_has_these_set_ups_and_no_others() {
    let page = page();
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(page.keys().map(String::as_str).collect::<Vec<_>>(), names);
}

#[test]
fn a_pattern_matches_what_it_leaves_open_and_nothing_else() {
    assert!(matches("a … c…", "a b b c d"));
    assert!(matches("plain", "plain"));
    for line in ["plain and more", "more plain", "plai"] {
        assert!(!matches("plain", line), "{line}");
    }
    assert!(!matches("a … c", "a b b c d"));
    assert!(!matches("… b … a", "b a b"));
}

/// Lines of each set-up of the page, with the end that prints each.
fn page() -> BTreeMap<String, Vec<(String, String)>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/wrong-set-ups.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```text ") else { continue };
        let block = lines.by_ref().take_while(|line| !line.starts_with("```"));
        let block = block.map(|line| {
            let (end, said) = line.split_once("> ").expect("END> WHAT IT PRINTS");
            (end.to_owned(), said.to_owned())
        });
        assert!(found.insert(name.to_owned(), block.collect()).is_none(), "{name} stands there twice");
    }
    found
}

/// Returns true if a line matches the pattern of the page, where `…` matches any text.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[track_caller]
fn compare(name: &str, ends: &Ends) {
    let page = page();
    let said = |ended: &Ended| {
        let code = ended.code.map_or_else(|| "killed".to_owned(), |code| format!("exit code {code}"));
        let err = ended.err.lines().map(str::to_owned).collect::<Vec<_>>();
        let out = ended.out.lines().map(str::to_owned).collect::<Vec<_>>();
        (code, err, out)
    };
    let mut all = String::new();
    for (end, ended) in ends {
        let (code, err, out) = said(ended);
        out.iter().chain(&err).chain([&code]).for_each(|line| all += &format!("{end}> {line}\n"));
    }
    let Some(lines) = page.get(name) else { panic!("the page has no {name}:\n{all}") };
    for (end, pattern) in lines {
        let Some((_, ended)) = ends.iter().find(|(name, _)| name == end) else {
            panic!("{name}: who is {end}?")
        };
        let (code, err, out) = said(ended);
        let found = err.iter().chain(&out).chain([&code]).any(|line| matches(pattern, line));
        assert!(found, "{name}: nobody says\n{end}> {pattern}\nbut\n{all}");
    }
    for (end, ended) in ends {
        let (code, err, _) = said(ended);
        for line in err.iter().chain([&code]) {
            let found = lines.iter().any(|(of, pattern)| of == end && matches(pattern, line));
            assert!(found, "{name}: not in the page\n{end}> {line}\nof\n{all}");
        }
    }
}

fn send(net: &Net, flags: &str) -> Job {
    net.sender().carillon("send f --name s").args(flags)
}

fn recv(host: &Host<'_>, flags: &str) -> Job {
    let name = host.name();
    host.carillon(&format!("recv --name {name} --out {name}")).args(flags)
}

/// Gives a receiver an address of another network, and no route to the sender's.
pub fn without_way_back(host: &Host<'_>, rp_filter: u8) {
    host.shell(&format!(
        "echo {rp_filter} >/proc/sys/net/ipv4/conf/all/rp_filter; echo {rp_filter} >/proc/sys/net/ipv4/conf/eth0/rp_filter
         ip -4 addr flush dev eth0; ip addr add 10.99.0.11/24 dev eth0; ip route replace 224.0.0.0/4 dev eth0"
    ));
}

/// Writes the files `key` and `other`, readable by their owner only.
fn write_keys(net: &Net) {
    for (name, byte) in [("key", b'k'), ("other", b'o')] {
        std::fs::write(net.path(name), [byte; 44]).expect("a key file");
        std::fs::set_permissions(net.path(name), std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
}

/// Moves the receiver to another network, with the extra host as the router that forwards the group to it.
pub fn put_behind_a_router(net: &Net) {
    let (router, receiver) = (net.extra(), net.receiver(1));
    let far = receiver.namespace();
    router.shell(&format!(
        "ip link add eth1 type veth peer name eth1 netns {far}
         ip addr add 10.88.0.1/24 dev eth1
         ip link set eth1 up
         echo 1 >/proc/sys/net/ipv4/ip_forward
         nft 'add table netdev router {{
             chain c {{ type filter hook ingress device eth0 priority 0;
                 ip daddr 239.255.67.65 fwd ip to 10.88.0.11 device eth1;
             }};
         }}'"
    ));
    receiver.shell(
        "ip link set eth0 down
         ip addr add 10.88.0.11/24 dev eth1
         ip link set eth1 up
         ip route add default via 10.88.0.1",
    );
    net.sender().shell("ip route add 10.88.0.0/24 via 10.77.0.2");
}

/// Checks that the file arrives once the fault is corrected, so that the set-up has no other fault.
#[track_caller]
fn delivers(net: &Net, flags: &str) {
    let r1 = recv(&net.receiver(1), "").start();
    send(net, "--receivers 1").args(flags).run().expect(0);
    r1.end().expect(0);
}

/// Prepares a command that runs as the user `nobody`, in a directory that is open to all users.
fn as_nobody(host: &Host<'_>, line: &str) -> Job {
    let directory = host.directory();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all";
    let script = format!("exec {nobody} -- \"$1\" {line}");
    host.program("sh").arg("-ec").arg(script).arg("sh").arg(CARILLON)
}

/// Prepares a script that runs in a mount namespace of its own.
fn in_mounts(host: &Host<'_>, script: &str) -> Job {
    host.program("unshare").args("-m sh -ec").arg(script).arg("sh").arg(CARILLON)
}

/// Interrupts a process once it has printed `when`.
#[track_caller]
fn interrupt(running: Running, when: &str) -> Ended {
    interrupt_meanwhile(running, when, || {})
}

#[track_caller]
fn interrupt_meanwhile(running: Running, when: &str, mut act: impl FnMut()) -> Ended {
    wait_until(when, || {
        act();
        running.err().contains(when)
    });
    running.signal("INT");
    running.end()
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Upper bound of the time that a sender waits for a receiver without progress.
const MAX_SENDER_TIME: Duration = Duration::from_secs(150);
