//! Table of all metrics, in output order.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::snapshot::{PathView, ReceiverView, SenderView, Snapshot, Traffic};
use crate::text::{Family, Kind, Samples};

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    ends: &'static str,
    help: &'static str,
    fill: fn(&Snapshot, &mut Samples<'_>),
) -> Family {
    Family { name, kind: Kind::Counter, labels, ends, help, fill }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    ends: &'static str,
    help: &'static str,
    fill: fn(&Snapshot, &mut Samples<'_>),
) -> Family {
    Family { name, kind: Kind::Gauge, labels, ends, help, fill }
}

/// Table of every metric. `docs/reference/monitoring.md` lists which end has which.
pub const FAMILIES: &[Family] = &[
    gauge(
        "carillon_info",
        &["role", "name", "group", "interface", "version"],
        ALL_ROLES,
        "Always 1: role, name, group, interface and release of this end.",
        |at, to| {
            let group = at.group.map(|group| group.to_string()).unwrap_or_default();
            let interface = at.interface.as_deref().unwrap_or_default();
            to.with(&[at.role, &at.name, &group, interface, env!("CARGO_PKG_VERSION")], 1);
        },
    ),
    gauge(
        "carillon_session_info",
        &["protocol", "organiser"],
        ENDS,
        "Always 1: the protocol, and the organiser of the session.",
        |at, to| {
            if at.protocol.is_some() || at.organiser.is_some() {
                to.with(
                    &[
                        at.protocol.as_deref().unwrap_or_default(),
                        at.organiser.as_deref().unwrap_or_default(),
                    ],
                    1,
                );
            }
        },
    ),
    gauge(
        "carillon_session_state",
        &["state"],
        ENDS,
        "1 for the state that the session is in, as this end knows it.",
        |at, to| {
            if let Some((state, states)) = at.phase {
                to.state(&[], state, states);
            }
        },
    ),
    gauge("carillon_snapshot_timestamp_seconds", &[], ALL_ROLES, "Time of this snapshot.", |at, to| {
        to.one(Some(seconds(at.taken)));
    }),
    gauge(
        "carillon_limit",
        &["by", "receiver"],
        SENDER,
        "1 for what kept the sender from sending faster most of the last quarter of a second.",
        |at, to| {
            if let Some(limit) = &at.limit {
                let (by, receiver) = limit.parts();
                to.with(&[by, receiver.unwrap_or_default()], 1);
            }
        },
    ),
    counter(
        "carillon_payload_bytes_total",
        &[],
        BYTES,
        "Bytes of files or messages: given to the protocol, or delivered by it.",
        |at, to| {
            to.one(at.amounts.has_bytes.then_some(at.amounts.bytes));
        },
    ),
    gauge("carillon_transfer_bytes", &[], BYTES, "Bytes of files or messages in this transfer.", |at, to| {
        to.one(at.amounts.has_bytes.then_some(at.amounts.transfer_bytes));
    }),
    gauge("carillon_transfer_size_bytes", &[], BYTES, "Total bytes of this transfer.", |at, to| {
        to.one(at.amounts.size)
    }),
    gauge(
        "carillon_payload_bytes_per_second",
        &[],
        BYTES,
        "Bytes of files or messages per second, over five seconds.",
        |at, to| to.one(at.amounts.rate),
    ),
    counter("carillon_files_total", &[], "receiver", "Complete files.", |at, to| to.one(at.amounts.files)),
    counter("carillon_transfers_total", &["outcome"], "receiver", "Transfers that have ended.", |at, to| {
        if let Some((verified, failed)) = at.amounts.transfers {
            to.with(&["verified"], verified);
            to.with(&["failed"], failed);
        }
    }),
    counter("carillon_datagrams_sent_total", &[], ENDS, "Datagrams sent.", |at, to| {
        to.one(traffic(at, |traffic| traffic.datagrams_sent));
    }),
    counter("carillon_sent_bytes_total", &[], ENDS, "Bytes of these datagrams.", |at, to| {
        to.one(traffic(at, |traffic| traffic.bytes_sent));
    }),
    counter(
        "carillon_sent_ip_bytes_total",
        &[],
        ENDS,
        "Bytes of these datagrams with IP and UDP headers.",
        |at, to| {
            to.one(traffic(at, |traffic| traffic.ip_bytes_sent));
        },
    ),
    gauge(
        "carillon_sent_bytes_per_second",
        &[],
        BYTES,
        "Bytes of sent datagrams per second, over five seconds.",
        |at, to| to.one(at.amounts.sent_rate),
    ),
    counter("carillon_datagrams_received_total", &[], ENDS, "Datagrams that arrived.", |at, to| {
        to.one(traffic(at, |traffic| traffic.datagrams_received));
    }),
    counter("carillon_received_bytes_total", &[], ENDS, "Bytes of these datagrams.", |at, to| {
        to.one(traffic(at, |traffic| traffic.bytes_received));
    }),
    counter(
        "carillon_datagrams_dropped_total",
        &["reason"],
        ENDS,
        "Datagrams received and dropped.",
        |at, to| {
            for (reason, count) in at.traffic.iter().flat_map(|traffic| &traffic.dropped) {
                to.with(&[reason], *count);
            }
        },
    ),
    counter("carillon_send_errors_total", &[], ENDS, "Datagrams lost to send errors.", |at, to| {
        to.one(traffic(at, |traffic| traffic.send_errors));
    }),
    counter(
        "carillon_kernel_drops_total",
        &[],
        ENDS,
        "Datagrams that the system dropped because a receive buffer was full.",
        |at, to| {
            to.one(at.traffic.as_ref().and_then(|traffic| traffic.kernel_drops));
        },
    ),
    counter(
        "carillon_repairs_total",
        &[],
        ENDS,
        "Repairs sent: repeated data packets, and parity.",
        |at, to| to.one(at.amounts.repairs),
    ),
    gauge(
        "carillon_receiver_state",
        &["receiver", "state"],
        SENDER,
        "1 for the state that the receiver is in.",
        |at, to| {
            for one in &at.receivers {
                to.state(&[&one.name], one.state, ReceiverView::STATES);
            }
        },
    ),
    counter(
        "carillon_receiver_bytes_total",
        &["receiver"],
        SENDER,
        "Bytes that the receiver reported to have.",
        |at, to| {
            each(at, to, |one| one.bytes);
        },
    ),
    gauge(
        "carillon_receiver_bytes_per_second",
        &["receiver"],
        SENDER,
        "Bytes of the receiver per second, over five seconds.",
        |at, to| {
            for one in &at.receivers {
                one.rate.into_iter().for_each(|rate| to.with(&[&one.name], rate));
            }
        },
    ),
    counter(
        "carillon_receiver_repairs_total",
        &["receiver"],
        SENDER,
        "Repairs sent while the receiver was missing data.",
        |at, to| {
            each(at, to, |one| one.repairs);
        },
    ),
    counter(
        "carillon_receiver_waited_seconds_total",
        &["receiver"],
        SENDER,
        "Time for which the sender waited for the receiver.",
        |at, to| {
            for one in &at.receivers {
                one.waited.into_iter().for_each(|waited| to.with(&[&one.name], waited.as_secs_f64()));
            }
        },
    ),
    gauge(
        "carillon_receiver_last_heard_timestamp_seconds",
        &["receiver"],
        SENDER,
        "Time of the last packet from the receiver.",
        |at, to| {
            for one in &at.receivers {
                to.with(&[&one.name], seconds(one.heard));
            }
        },
    ),
    counter(
        "carillon_receiver_path_sent_packets_total",
        &["receiver"],
        PATHS,
        "Data packets sent at the poll that the receiver answered last.",
        |at, to| {
            paths(at, to, |path, to, name| to.with(&[name], path.sent));
        },
    ),
    counter(
        "carillon_receiver_path_arrived_packets_total",
        &["receiver"],
        PATHS,
        "Data packets that had arrived at the receiver by that poll, as it reported.",
        |at, to| {
            paths(at, to, |path, to, name| to.with(&[name], path.arrived));
        },
    ),
    gauge(
        "carillon_receiver_loss_ratio",
        &["receiver"],
        PATHS,
        "Recent loss rate on the path to the receiver, from 0 to 1.",
        |at, to| {
            paths(at, to, |path, to, name| to.with(&[name], path.loss));
        },
    ),
    gauge(
        "carillon_receiver_round_trip_seconds",
        &["receiver"],
        PATHS,
        "Recent minimum round-trip time to the receiver.",
        |at, to| {
            paths(at, to, |path, to, name| {
                path.round_trip.into_iter().for_each(|time| to.with(&[name], time.as_secs_f64()));
            });
        },
    ),
    gauge(
        "carillon_receiver_window_packets",
        &["receiver"],
        PATHS,
        "Maximum data packets in flight to the receiver.",
        |at, to| {
            paths(at, to, |path, to, name| to.with(&[name], path.window));
        },
    ),
    counter(
        "carillon_unserved_total",
        &[],
        SENDER,
        "Endpoints that contacted the sender and are not served.",
        |at, to| to.one(at.unserved),
    ),
    gauge(
        "carillon_sender_state",
        &["sender", "state"],
        "receiver",
        "1 for the state that the sender is in, as far as its files go.",
        |at, to| {
            for one in &at.senders {
                to.state(&[&one.name], one.state, SenderView::STATES);
            }
        },
    ),
    gauge(
        "carillon_sender_bytes",
        &["sender"],
        "receiver",
        "Bytes received from the sender in this transfer.",
        |at, to| {
            at.senders.iter().for_each(|one| to.with(&[&one.name], one.bytes));
        },
    ),
    gauge(
        "carillon_sender_files",
        &["sender"],
        "receiver",
        "Complete files of the sender in this transfer.",
        |at, to| {
            at.senders.iter().for_each(|one| to.with(&[&one.name], one.files));
        },
    ),
    gauge(
        "carillon_served_info",
        &["member"],
        "helper, receiver that helps",
        "Always 1: a member that this end serves.",
        |at, to| {
            at.serves.iter().flatten().for_each(|name| to.with(&[name], 1));
        },
    ),
    router("carillon_relay_forwarded_total", "Multicasts forwarded.", |at, to| {
        to.one(relay(at, |stats| stats.forwarded))
    }),
    router("carillon_relay_rewritten_total", "Forwarded multicasts that were rewritten.", |at, to| {
        to.one(relay(at, |stats| stats.rewritten))
    }),
    router(
        "carillon_relay_narrowed_total",
        "Forwarded multicasts that went to some of the other interfaces only.",
        |at, to| to.one(relay(at, |stats| stats.narrowed)),
    ),
    router("carillon_relay_copies_total", "Copies of forwarded multicasts, one per interface.", |at, to| {
        to.one(relay(at, |stats| stats.copies))
    }),
    router("carillon_relay_absorbed_total", "Multicasts not forwarded.", |at, to| {
        to.one(relay(at, |stats| stats.absorbed))
    }),
    router(
        "carillon_relay_directed_total",
        "Sent into chosen branches with another node's source address.",
        |at, to| to.one(relay(at, |stats| stats.directed)),
    ),
    router("carillon_relay_received_total", "Addressed to the router.", |at, to| {
        to.one(relay(at, |stats| stats.received))
    }),
    router("carillon_relay_sent_total", "Sent by the router to one node.", |at, to| {
        to.one(relay(at, |stats| stats.sent))
    }),
    router("carillon_relay_off_path_total", "Ignored by the reverse-path check.", |at, to| {
        to.one(relay(at, |stats| stats.off_path))
    }),
    router("carillon_relay_expired_total", "Ignored: hop limit reached.", |at, to| {
        to.one(relay(at, |stats| stats.expired))
    }),
    router("carillon_relay_too_large_total", "Lost: longer than the MTU of the interface.", |at, to| {
        to.one(relay(at, |stats| stats.too_large))
    }),
    router("carillon_relay_unroutable_total", "Lost: unknown destination.", |at, to| {
        to.one(relay(at, |stats| stats.unroutable))
    }),
    router("carillon_relay_refused_peers_total", "Ignored: the peer table is full.", |at, to| {
        to.one(relay(at, |stats| stats.refused_peers))
    }),
    router("carillon_relay_errors_total", "Lost to temporary errors.", |at, to| {
        to.one(relay(at, |stats| stats.errors))
    }),
    counter(
        "carillon_relay_packets_total",
        &["fate", "packet"],
        "router",
        "Packets of the protocol at the router: received, sent, dropped.",
        |at, to| {
            for (fate, packet, count) in at.router.iter().flat_map(|router| &router.packets) {
                to.with(&[fate, packet], *count);
            }
        },
    ),
    counter(
        "carillon_daemon_connections_total",
        &[],
        "daemon",
        "Connections accepted by the daemon.",
        |at, to| {
            to.one(at.daemon.as_ref().map(|daemon| daemon.connections));
        },
    ),
    counter(
        "carillon_daemon_refused_total",
        &["reason"],
        "daemon",
        "Requests refused by the daemon.",
        |at, to| {
            for (reason, count) in at.daemon.iter().flat_map(|daemon| &daemon.refused) {
                to.with(&[reason], *count);
            }
        },
    ),
    gauge("carillon_daemon_sockets", &[], "daemon", "Open sockets.", |at, to| {
        to.one(at.daemon.as_ref().map(|daemon| daemon.sockets.len() as u64));
    }),
];

const fn router(name: &'static str, help: &'static str, fill: fn(&Snapshot, &mut Samples<'_>)) -> Family {
    counter(name, &[], "router", help, fill)
}

fn traffic(at: &Snapshot, of: impl FnOnce(&Traffic) -> u64) -> Option<u64> {
    at.traffic.as_ref().map(of)
}

fn relay(at: &Snapshot, of: impl FnOnce(&carillon_net::RelayStats) -> u64) -> Option<u64> {
    at.router.as_ref().map(|router| of(&router.stats))
}

fn each(at: &Snapshot, to: &mut Samples<'_>, of: impl Fn(&ReceiverView) -> Option<u64>) {
    for one in &at.receivers {
        of(one).into_iter().for_each(|value| to.with(&[&one.name], value));
    }
}

fn paths(at: &Snapshot, to: &mut Samples<'_>, tell: impl Fn(&PathView, &mut Samples<'_>, &str)) {
    for one in &at.receivers {
        one.path.iter().for_each(|path| tell(path, to, &one.name));
    }
}

/// Seconds since 1970, the time unit of the format.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

const ALL_ROLES: &str = "all";
const ENDS: &str = "all but router and daemon";
const BYTES: &str = "sender, joined sender, receiver";
const SENDER: &str = "sender";
const PATHS: &str = "sender, of protocols that measure paths (`rra`, `carillon`)";
