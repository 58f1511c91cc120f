//! `carillon daemon`: many programs of this machine share the sockets of one process.

use std::path::{Path, PathBuf};

use carillon_transfer::daemon::{Daemon, DaemonOptions, DaemonStatus, default_path, status, stop};
use carillon_transfer::monitor::{Monitor, Snapshot};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::delivery::{MetricsArgs, Stop, notice, print_json, print_table, tell_ready};

/// Run the sessions of many programs of this machine in one process.
///
/// Programs connect over a Unix-domain socket: with `bind(group).through(path)` in Rust, `carillon_through` in C, or
/// its protocol in any language. The daemon needs no privileges. It runs until it is stopped or interrupted; its
/// sessions then end, and their groups are notified.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    before_help = "Example: carillon daemon",
    after_help = "Examples:
  carillon daemon
  carillon daemon --socket /run/carillon/daemon.sock --mode 666
  carillon daemon status --json
  carillon daemon stop"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
    /// Maximum number of sockets open at the same time.
    #[arg(long, value_name = "N", default_value = "128")]
    clients: usize,
    /// Maximum number of sockets of one process.
    #[arg(long, value_name = "N", default_value = "32")]
    per_client: usize,
    /// Maximum number of sockets of one user [default: half of --clients where --mode lets other users connect].
    #[arg(long, value_name = "N")]
    per_user: Option<usize>,
    /// Permission bits of the socket, which decide which users may connect.
    #[arg(long, value_name = "OCTAL", default_value = "600", value_parser = mode)]
    mode: u32,
    #[command(flatten)]
    numbers: MetricsArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the open sockets, and the number of refused ones.
    Status(StatusArgs),
    /// End the daemon: its sessions end, and their groups are notified.
    Stop(Place),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Socket of the daemon [default: $CARILLON_DAEMON, or carillon/daemon.sock in $XDG_RUNTIME_DIR, or in /run].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    place: Place,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Place {
    fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(default_path)
    }
}

/// `carillon daemon`
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        None => serve(args),
        Some(Command::Status(args)) => print(&status(args.place.path())?, args.json),
        Some(Command::Stop(place)) => Ok(stop(place.path())?),
    }
}

fn serve(args: &Args) -> anyhow::Result<()> {
    let path = args.place.path();
    let mut options =
        DaemonOptions::new(&path).clients(args.clients).per_client(args.per_client).mode(args.mode);
    options.per_user = args.per_user;
    let daemon = Daemon::open(options)?;
    let stopper = daemon.stopper();
    let stop = Stop::on_signals_do(move || stopper.stop())?;
    let asked = path.clone();
    // The metrics endpoint asks for the status like any other program.
    let numbers = args.numbers.serve_as(Monitor::default(), move || told(&asked))?;
    tell_ready(&format!("listening at {}", path.display()))?;
    notice(format_args!("listening at {}", path.display()));
    daemon.run()?;
    numbers.linger(&stop);
    Ok(())
}

/// Status of the daemon at this path, as metrics.
fn told(path: &Path) -> String {
    let mut snapshot = Snapshot::new("daemon");
    snapshot.daemon = status(path).ok();
    let monitor = Monitor::default();
    monitor.put(snapshot);
    monitor.text()
}

fn print(status: &DaemonStatus, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let sockets = status.sockets.iter().map(|socket| {
            json!({
                "process": socket.process,
                "user": socket.user,
                "role": socket.role,
                "group": socket.group,
                "name": socket.name,
                "protocol": socket.protocol,
                "messages": socket.messages,
                "bytes": socket.bytes,
                "seconds": socket.time.as_secs_f64(),
            })
        });
        let refused: serde_json::Map<String, Value> =
            status.refused.iter().map(|(why, count)| (why.clone(), (*count).into())).collect();
        return print_json(&json!({
            "event": "status",
            "process": status.process,
            "version": status.version,
            "seconds": status.time.as_secs_f64(),
            "connections": status.connections,
            "sockets": sockets.collect::<Vec<_>>(),
            "refused": refused,
        }));
    }
    let head = ["process", "role", "group", "name", "protocol", "messages", "bytes", "seconds"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(status.sockets.iter().map(|socket| {
        vec![
            socket.process.to_string(),
            socket.role.clone(),
            socket.group.clone(),
            socket.name.clone(),
            socket.protocol.clone(),
            socket.messages.to_string(),
            socket.bytes.to_string(),
            socket.time.as_secs().to_string(),
        ]
    }));
    print_table(&table)?;
    let refused: Vec<String> = status
        .refused
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    notice(format_args!(
        "carillon {}, process {}, for {} s: {} sockets open, {} connections taken, refused: {}",
        status.version,
        status.process,
        status.time.as_secs(),
        status.sockets.len(),
        status.connections,
        if refused.is_empty() { "none".to_owned() } else { refused.join(", ") }
    ));
    Ok(())
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "expected permission bits such as 600 or 660".to_owned())
}
