//! `carillon relay` as a helper: a member that keeps the data and sends repairs to the members below it.

use std::net::SocketAddr;

use anyhow::bail;
use carillon_core::{NoObserver, ProtocolEntry};
use carillon_session::ReceiverPhase;
use carillon_transfer::files::shown;
use carillon_transfer::run_loop::{RunControl, run_to_end};
use carillon_transfer::{Follower, HelpEvent, HelpOptions, HelpReport, HelpRun, Network, NetworkChange};
use serde_json::json;

use super::args::Args;
use crate::delivery::{
    Human, Stop, change_text, enable_timestamps, lost_json, notice, open_service, print_json, read_key,
};
use crate::exit::JobFailed;

/// Helps in one session after another; with `from`, in those of this sender by unicast too.
pub fn run(args: &Args, protocol: &'static ProtocolEntry, from: Option<SocketAddr>) -> anyhow::Result<()> {
    let interface = match &args.interfaces[..] {
        [] => None,
        // The interface is that of the relay beside it.
        [_] if from.is_some() => None,
        [one] => Some(one.clone()),
        _ => bail!("a helper of {} has one interface: give --interface once", protocol.name),
    };
    let key = args.key_file.as_deref().map(read_key).transpose()?;
    let (group, name, drop, sources) = (args.group, args.name.clone(), args.drop, args.sources.clone());
    let service = !args.once;
    let network = Network { group, interface, name, drop, key, service, from, sources, ..Network::default() };
    if !args.once {
        enable_timestamps();
    }
    let stop = Stop::on_signals()?;
    let bound = match args.once {
        true => network.open(true, 1, None)?,
        false => match open_service(&network, &stop, 1, None)? {
            Some(bound) => bound,
            None => return Ok(()),
        },
    };
    let mut follower = Follower::new(&network);
    let (mut endpoint, mut seeds) = (bound.endpoint, bound.seeds);
    let mut numbers = args.numbers.serve()?;
    let options = HelpOptions {
        protocol: protocol.name.to_owned(),
        timeout: args.timeout,
        keep_seeking: true,
        monitor: numbers.monitor(),
    };
    let (mut name, mut second) = (network.name(), network.second_name());
    announce(args, protocol, &name)?;
    let mut result = Ok(());
    loop {
        let mut run = options.open(&name, endpoint, &seeds, NoObserver)?;
        let mut moved = false;
        run_to_end(&mut run, |run| -> anyhow::Result<RunControl> {
            run.take_events().into_iter().try_for_each(|event| tell(args, event))?;
            let in_session = *run.phase() != ReceiverPhase::Seeking;
            if let Some(change) = follower.look(run.endpoint_mut(), in_session) {
                notice(change_text(&change, run.endpoint_mut()));
                moved |= change == NetworkChange::Moved || change == NetworkChange::Present && !in_session;
            }
            Ok(match (stop.asked(), moved) {
                (true, _) => RunControl::Quit("the helper was interrupted"),
                (false, true) if in_session => RunControl::Quit("the address of this helper has changed"),
                (false, true) => RunControl::Drop,
                (false, false) => RunControl::Continue,
            })
        })?;
        numbers.work_is_over(&stop);
        let other = second.take().filter(|_| run.name_is_taken() && !stop.asked());
        let again = other.is_some();
        match other {
            Some(other) => name = other,
            // An interrupt is the usual end of a helper.
            None if run.has_joined() || !(stop.asked() || moved) => {
                report(args, &run)?;
                if !run.report().is_success() {
                    result = Err(JobFailed.into());
                }
            }
            None => {}
        }
        let again = again || moved && !run.has_joined();
        if !again && (args.once || stop.asked()) {
            numbers.linger(&stop);
            // A service that is terminated exits with 0: failed sessions were reported when they failed.
            return if args.once { result } else { Ok(()) };
        }
        endpoint = run.into_parts().0;
        seeds = seeds.part("next");
    }
}

fn announce(args: &Args, protocol: &ProtocolEntry, name: &str) -> anyhow::Result<()> {
    let group = args.group.to_string();
    if args.json {
        let line = json!({ "event": "helping", "protocol": protocol.name, "group": group, "name": name });
        return print_json(&line);
    }
    notice(format_args!("helper of {} for {group}, known as {name}", protocol.name));
    Ok(())
}

fn tell(args: &Args, event: HelpEvent) -> anyhow::Result<()> {
    match event {
        HelpEvent::Joined { sender } if args.json => {
            print_json(&json!({ "event": "joined", "sender": sender }))
        }
        HelpEvent::Serving { members } if args.json => {
            print_json(&json!({ "event": "serving", "members": members }))
        }
        HelpEvent::Serving { members } => {
            notice(shown(&format!("serves {}", listed(&members))));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn report<O: carillon_core::Observer>(args: &Args, run: &HelpRun<O>) -> anyhow::Result<()> {
    let HelpReport { sender, outcome, served, repairs, lost, .. } = &run.report();
    let report = run.report();
    if args.json {
        return print_json(&json!({
            "event": "report",
            "outcome": if outcome.is_ok() { "helped" } else { "failed" },
            "reason": outcome.as_ref().err(),
            "sender": sender,
            "served": served,
            "repairs": repairs,
            "lost": lost_json(lost),
            "datagrams_received": report.datagrams_received,
            "datagrams_sent": report.datagrams_sent,
            "bytes_sent": report.bytes_sent,
        }));
    }
    for (name, reason) in lost {
        notice(shown(&format!("{name} is gone: {reason}")));
    }
    let sender = sender.as_deref().unwrap_or("nobody");
    let line = match outcome {
        Ok(()) => format!(
            "helped {sender}: {repairs} repairs, {} sent; served {} at the end",
            Human(report.bytes_sent),
            listed(served)
        ),
        Err(reason) => format!("did not help {sender} to the end: {reason}"),
    };
    notice(shown(&line));
    debug_assert!(matches!(run.phase(), ReceiverPhase::Finished | ReceiverPhase::Failed(_)));
    Ok(())
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        names => names.join(", "),
    }
}
