//! `carillon send`: files to many receivers.

mod args;
mod screen;

use anyhow::bail;
use carillon_transfer::files::{Manifest, shown_path};
use carillon_transfer::run_loop::{RunControl, run_to_end};
use carillon_transfer::{SendOptions, SendRun, SigningKey};

use crate::commands::sender_notices::SenderNotices;
use crate::commands::{join, plain};
use crate::delivery::{MetricsEndpoint, Stop, Watch, notice, record};

pub use args::Args;
pub(super) use args::{PLAIN_PROTOCOL, settings_of};

use screen::{Report, Screen, print_preview};

/// `carillon send`
pub fn run(args: Args) -> anyhow::Result<()> {
    if args.plain {
        return plain::send(&args);
    }
    if args.stream && args.paths.iter().any(|path| path.as_os_str() != "-") {
        bail!("--stream sends the standard input: give `-` as the only path");
    }
    let mut options = SendOptions { protocol: args.protocol.clone(), ..args.settings().send };
    let protocol = options.entry()?;
    let mut manifest = args.manifest()?;
    if let Some(path) = &args.sign_key {
        let key = SigningKey::read(path)?;
        if key.is_exposed() {
            let path = path.display();
            notice(format_args!(
                "everybody on this host can read or write the signing key {path}: `chmod 600 {path}`"
            ));
        }
        manifest = manifest.signed(key);
    }
    if args.strict {
        manifest = manifest.strict()?;
    }
    say_skipped(&manifest);
    let stop = Stop::on_signals()?;
    if args.join {
        return join::run(&args, manifest, &stop);
    }
    let bound = args.open(protocol)?;
    args.add_to(&mut options, protocol)?;
    let mut numbers = args.network.numbers.serve()?;
    options.monitor = numbers.monitor();
    let opened = options.open(&args.network.name(), bound, manifest, args.stream).map_err(worded)?;
    let watch = Watch::new(args.network.trace.as_deref(), opened.endpoint())?;
    let result = go(opened.with(watch), &args, &stop, &mut numbers);
    numbers.linger(&stop);
    result
}

/// Lists the entries that are not sent, and the links that are followed although they lead out of the tree.
fn say_skipped(manifest: &Manifest) {
    let (wanted, skipped): (Vec<_>, Vec<_>) =
        manifest.skipped().iter().partition(|skipped| skipped.reason.is_wanted());
    skipped.into_iter().for_each(notice);
    match wanted.len() {
        0 => {}
        1 => notice("1 symbolic link is not sent"),
        count => notice(format_args!("{count} symbolic links are not sent")),
    }
    match manifest.excluded() {
        0 => {}
        1 => notice("1 entry is excluded"),
        count => notice(format_args!("{count} entries are excluded")),
    }
    for (link, target) in manifest.followed_out() {
        let (link, target) = (shown_path(link), shown_path(target));
        notice(format_args!("{link} leads out of the tree, to {target}: followed"));
    }
}

/// Adds the option that caused an error of the settings.
fn worded(error: carillon_transfer::Error) -> anyhow::Error {
    match error {
        carillon_transfer::Error::Setting { key, value, source } => {
            anyhow::Error::from(source).context(format!("--set {key}={value}"))
        }
        error => error.into(),
    }
}

/// Runs the transfer to its end and prints the report.
fn go(
    mut run: SendRun<Watch>,
    args: &Args,
    stop: &Stop,
    numbers: &mut MetricsEndpoint,
) -> anyhow::Result<()> {
    let sender_notices = SenderNotices::new(run.driver().endpoint(), args.network.json);
    let mut screen = Screen::new(&run, args, &sender_notices);
    let conducted = loop {
        let conducted = run_to_end(&mut run, |run| -> anyhow::Result<RunControl> {
            record(run.driver_mut(), |tally| &mut tally.inner);
            if stop.insisted() {
                return Ok(RunControl::Drop);
            }
            screen.turn(run)?;
            Ok(if stop.asked() {
                RunControl::Quit("the sender was interrupted")
            } else {
                RunControl::Continue
            })
        });
        if conducted.is_err() || stop.asked() || !run.is_wanted() {
            break conducted;
        }
        screen.goes_again(&run)?;
        run = run.again()?;
    };
    numbers.work_is_over(stop);
    screen.clear();
    if let (Some(preview), false) = (run.preview(), stop.asked()) {
        let shown = print_preview(&preview, args.network.json);
        return shown.and(run.into_observer().finish());
    }
    // The report comes also after a local error or a signal.
    let error = run.take_error().map(anyhow::Error::from).or(conducted.err());
    let reported = Report::of(&run, args, &sender_notices).print(error.is_some(), stop.asked());
    let result = error.map_or(reported, Err);
    let traced = run.into_observer().finish();
    result.and(traced)
}
