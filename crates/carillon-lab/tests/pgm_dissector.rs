//! Captures of PGM on a routed network with losses, as a dissector made by others reads them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use carillon_core::{Duration, NodeId, Observer, Probability};
use carillon_lab::trace::{CaptureOptions, TraceFile};
use carillon_proto::protocols::pgm::ENTRY;
use carillon_sim::graph::{GraphConfig, Link, LossModel, Topology};
use carillon_testkit::{Group, is_installed, is_long_tier, skip};

/// A dissector that was made by others finds no fault with any packet of a run with losses.
#[test]
fn tshark_reads_the_packets() {
    tshark_reads(&[("dlr_every", "1")], &["0x01", "0x02"]);
}

/// Covers repairing routers, with and without repairers off the tree below them.
#[test]
fn tshark_reads_what_routers_that_repair_send() {
    let settings = [("ne_dlr_sqns", "16")];
    if is_long_tier() {
        tshark_reads(&settings, &[]);
    }
    tshark_reads(&[&settings[..], &[("dlr_every", "1")]].concat(), &["0x01", "0x02"]);
}

/// A run has no packet that tshark finds a fault with, and has packets of all types and of these.
fn tshark_reads(settings: &[(&str, &str)], types: &[&str]) {
    if !is_installed("tshark") {
        return skip("there is no tshark (make check-dissectors installs one as root)");
    }
    let mut topology = Topology::new(6);
    for (a, b, millis) in [(0, 4, 1), (4, 5, 3), (5, 1, 1), (5, 2, 2), (4, 3, 1)] {
        let ends = [NodeId(a), NodeId(b)];
        topology.add_link(Link::new(ends, Duration::from_millis(millis)));
    }
    let group = Group::new(&ENTRY, 3).receivers(3).messages(60).interval(Duration::from_millis(10));
    let group = settings.iter().fold(group, |group, (key, value)| group.set(key, value));
    let group = group.set("txw_secs", "3 s").set("nak_elim_ivl", "100 ms").afterwards(Duration::from_secs(9));
    let loss = LossModel::Bernoulli(Probability::new(0.1).expect("a probability"));
    // Of IP and UDP.
    let config = GraphConfig { overhead: 28, ..GraphConfig::default() };
    let report = group.run_graph(Arc::new(topology), config, loss);

    let name = format!("carillon-pgm-{}-{}.pcapng", std::process::id(), settings.len() + types.len());
    let path = std::env::temp_dir().join(name);
    let mut trace = TraceFile::create(&path, CaptureOptions::default()).expect("a capture");
    for datagram in &report.datagrams {
        trace.datagram(datagram.time, datagram.from, &datagram.to, &datagram.bytes);
    }
    trace.finish().expect("it can be written");
    let fields = ["pgm.hdr.type", "pgm.hdr.cksum.status", "_ws.expert.message", "_ws.malformed"];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-d", "udp.port==7654,pgm", "-o", "pgm.check_checksum:TRUE", "-T", "fields"])
        .args(fields.iter().flat_map(|field| ["-e", *field]))
        .output()
        .expect("it runs");
    std::fs::remove_file(&path).expect("it is ours");

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), report.datagrams.len());
    let mut kinds = BTreeMap::new();
    for line in lines {
        let [kind, checksum, expert, malformed] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line:?}")
        };
        // Some versions put the checksum itself before its status, 1 for good.
        assert_eq!((checksum.rsplit(',').next(), expert, malformed), (Some("1"), "", ""), "{line:?}");
        *kinds.entry(kind).or_insert(0) += 1;
    }
    println!("{kinds:?}");
    // SPM, ODATA, RDATA, NAK, N-NAK, NCF; POLL and POLR where repairers are looked for.
    for kind in ["0x00", "0x04", "0x05", "0x08", "0x09", "0x0a"].iter().chain(types) {
        assert!(kinds.contains_key(kind), "{kind} in {kinds:?}");
    }
}
