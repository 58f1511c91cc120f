//! `carillon doctor`: what is wrong with the way between machines.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carillon_transfer::doctor::{Doctor, DoctorConfig, Evidence, Finding, Peer};
use carillon_transfer::files::shown;
use carillon_transfer::{DEFAULT_GROUP, Network};
use carillon_wire::doctor::HelloPath;
use serde_json::json;

use crate::delivery::{Stop, Whereabouts, print_json, print_table, say, seconds};
use crate::exit::JobFailed;

/// Find out what is wrong with multicast between machines.
///
/// Run it on two machines or more at the same time. Each says hello to the group, to all hosts of its link and to the machines that are named, and tells
/// the others what it has heard; what comes by one way and not by another names the fault: the interface, the group, a router,
/// a switch that snoops, a firewall, the length of frames, the receive buffer, losses. Each fault comes with what to do. Exit code 0: none was found.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  carillon doctor 192.0.2.12             on 192.0.2.11, and
  carillon doctor 192.0.2.11             on 192.0.2.12, at the same time
  carillon doctor --group 239.1.2.3:4567 --ttl 2 --for 10")]
pub struct Args {
    /// The other machines, by address: without them one that cannot be heard by multicast is not heard at all.
    #[arg(value_name = "ADDR")]
    others: Vec<IpAddr>,
    /// The multicast group and its UDP port, as for `send` and `recv`.
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_GROUP)]
    group: SocketAddr,
    /// The network interface, by name or address [default: the one that the route to the group leads to].
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Option<String>,
    /// Router hops that multicasts may travel, as for `send`.
    #[arg(long, value_name = "N", default_value_t = 1)]
    ttl: u8,
    /// The name by which the others know this machine [default: the host's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Listen for this long once the others are heard.
    #[arg(long = "for", value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    listen: Duration,
    /// Wait for the others for this long at most.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    wait: Duration,
    /// Print JSON lines on stdout instead of text.
    #[arg(long)]
    json: bool,
}

/// `carillon doctor`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let stop = Stop::on_signals()?;
    let network = Network {
        group: args.group,
        interface: args.interface.clone(),
        name: args.name.clone(),
        ..Network::default()
    };
    let name = network.name();
    let mut doctor = Doctor::open(DoctorConfig {
        group: network.effective_group(),
        interface: args.interface.clone(),
        hops: args.ttl,
        name,
        named: args.others.clone(),
        listen: args.listen,
        wait: args.wait,
    })?;
    let probe = doctor.probe();
    let at = SocketAddr::new(probe.interface().address, probe.group().port());
    let place = Whereabouts::at(probe.group(), probe.interface().clone(), probe.choice().clone(), at);
    place.remarks(args.group).into_iter().filter(|_| place.loopback().is_none()).for_each(say);
    say(format_args!(
        "listening to {} for {} s at most: run it on the other machine now",
        place.group(),
        args.wait.as_secs()
    ));
    let told = |name: &str| say(format_args!("{} is heard", shown(name)));
    let mut evidence = doctor.examine(&|| stop.asked(), &mut { told })?;
    evidence.confined = place.loopback();
    let findings = evidence.findings();
    if args.json {
        tell_programs(&evidence, &findings)?
    } else {
        tell(&evidence, &findings)?
    }
    if findings.is_empty() { Ok(()) } else { Err(JobFailed.into()) }
}

fn tell(evidence: &Evidence, findings: &[Finding]) -> anyhow::Result<()> {
    if !evidence.peers.is_empty() {
        let head = ["machine", "from it", "to it", "longest datagram", "receive buffer"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(evidence.peers.iter().map(row));
        print_table(&rows)?;
    }
    for finding in findings {
        println!("fault: {}", shown(&finding.text));
    }
    match findings.len() {
        0 => println!("no fault found"),
        1 => println!("1 fault found"),
        many => println!("{many} faults found"),
    }
    Ok(())
}

fn row(peer: &Peer) -> Vec<String> {
    let way = |heard: Option<&carillon_wire::doctor::ObservedMachine>| match heard {
        Some(heard) if heard.sent > 0 => format!("{} of {} multicasts", heard.came, heard.sent),
        Some(heard) if heard.least_ttl > 0 => format!("with {} hops", heard.least_ttl),
        Some(_) => "no multicast".to_owned(),
        None => "nothing".to_owned(),
    };
    vec![
        shown(&peer.machine.name).to_string(),
        way(Some(&peer.heard)),
        way(peer.said.as_ref()),
        format!("{} bytes", peer.machine.datagram),
        format!("{} KiB", peer.machine.buffer / 1024),
    ]
}

fn tell_programs(evidence: &Evidence, findings: &[Finding]) -> anyhow::Result<()> {
    let heard = |heard: &carillon_wire::doctor::ObservedMachine| {
        let ways: Vec<String> =
            HelloPath::ALL.into_iter().filter(|way| heard.was_received_by(*way)).map(name).collect();
        json!({ "came": heard.came, "sent": heard.sent, "least_ttl": heard.least_ttl, "ways": ways })
    };
    for peer in &evidence.peers {
        let machine = &peer.machine;
        print_json(&json!({
            "event": "machine", "name": machine.name, "group": machine.group.to_string(), "ttl": machine.hops,
            "datagram": machine.datagram, "receive_buffer": machine.buffer,
            "from": heard(&peer.heard), "to": peer.said.as_ref().map(heard), "copies": peer.copies,
        }))?;
    }
    for finding in findings {
        print_json(&json!({
            "event": "fault", "fault": finding.fault.name(), "machine": finding.peer, "text": finding.text,
        }))?;
    }
    print_json(&json!({ "event": "report", "machines": evidence.peers.len(), "faults": findings.len() }))
}

fn name(way: HelloPath) -> String {
    format!("{way:?}").to_lowercase()
}
