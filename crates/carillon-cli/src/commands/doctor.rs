//! `carillon doctor`: diagnosis of multicast between machines.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carillon_transfer::doctor::{Doctor, DoctorConfig, Evidence, Finding, Peer};
use carillon_transfer::files::shown;
use carillon_transfer::{DEFAULT_GROUP, Network};
use carillon_wire::doctor::HelloPath;
use serde_json::json;

use crate::delivery::{EndpointContext, Stop, notice, print_json, print_table, seconds};
use crate::exit::JobFailed;

/// Find out why machines do not receive each other's multicast.
///
/// Run it on two or more machines at the same time. Each one sends to the group, to all hosts of its link and to the
/// named machines, and reports what it received. The differences identify the fault: interface, group, router,
/// switch, firewall, frame size, receive buffer or loss. Each fault is printed with a remedy.
///
/// Exit codes: 0 if no fault was found; 1 if there are faults; 2 if the command itself failed.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon doctor 192.0.2.12",
    after_help = "Examples:
  carillon doctor 192.0.2.12             on 192.0.2.11, and
  carillon doctor 192.0.2.11             on 192.0.2.12, at the same time
  carillon doctor --group 239.1.2.3:4567 --ttl 2 --for 10
  carillon doctor 192.0.2.11 --group 232.1.2.3:4567 --source 192.0.2.11   where `recv --source` is used"
)]
pub struct Args {
    /// Addresses of the other machines. A machine that multicast does not reach is found only if it is named.
    #[arg(value_name = "ADDR")]
    others: Vec<IpAddr>,
    /// Multicast group and UDP port, as for `send` and `recv`.
    #[arg(long, value_name = "ADDR:PORT", default_value = DEFAULT_GROUP)]
    group: SocketAddr,
    /// Network interface, by name or address [default: the one that the route to the group selects].
    #[arg(long, value_name = "NAME|ADDR")]
    interface: Option<String>,
    /// Receive the multicasts of these hosts only, as `recv --source`.
    #[arg(long = "source", value_name = "ADDRESS", value_delimiter = ',')]
    sources: Vec<IpAddr>,
    /// Maximum number of hops of multicasts, as for `send`.
    #[arg(long, value_name = "N", default_value_t = 1)]
    ttl: u8,
    /// Name of this machine in the reports of the others [default: the host name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Listen for this long after the others were found.
    #[arg(long = "for", value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    listen: Duration,
    /// Maximum time to wait for the others.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    wait: Duration,
    /// Print one JSON object for each event on stdout, instead of text.
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
        sources: args.sources.clone(),
        ..Network::default()
    };
    let name = network.name();
    let mut doctor = Doctor::open(DoctorConfig {
        group: network.effective_group(),
        interface: args.interface.clone(),
        sources: args.sources.clone(),
        hops: args.ttl,
        name,
        named: args.others.clone(),
        listen: args.listen,
        wait: args.wait,
    })?;
    let probe = doctor.probe();
    let at = SocketAddr::new(probe.interface().address, probe.group().port());
    let place = EndpointContext::at(probe.group(), probe.interface().clone(), probe.choice().clone(), at);
    let wanted = if args.sources.is_empty() { args.group } else { probe.group() };
    place.remarks(wanted).into_iter().filter(|_| place.loopback().is_none()).for_each(notice);
    notice(format_args!(
        "listening to {} for {} s at most: run it on the other machine now",
        place.group(),
        args.wait.as_secs()
    ));
    let told = |name: &str| notice(format_args!("{} is heard", shown(name)));
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
    for path in evidence.paths() {
        println!("{}", shown(&path.to_string()));
    }
    for relay in &evidence.relays {
        println!("{relay}");
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
            HelloPath::VARIANTS.into_iter().filter(|way| heard.was_received_by(*way)).map(name).collect();
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
    for path in evidence.paths() {
        print_json(&json!({
            "event": "path", "machine": path.peer, "multicast_from": path.multicast_from,
            "multicast_to": path.multicast_to, "unicast": path.unicast,
            "multicast_bps": path.multicast_rate, "unicast_bps": path.unicast_rate,
        }))?;
    }
    for relay in &evidence.relays {
        let (address, from) = (relay.address.to_string(), relay.from.to_string());
        print_json(&json!({ "event": "relay", "address": address, "from": from }))?;
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
