//! `carillon send --plain` and `carillon recv --plain`: plain sessions with other programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use carillon_transfer::SendOptions;
use carillon_transfer::files::shown_path;
use carillon_transfer::options::Settings;
use carillon_transfer::plain::{
    Framing, NamedFile, PlainFolder, PlainLimits, PlainNews, PlainReceive, PlainReceiveRun, PlainReport,
    PlainSend, PlainSource, plain_contents, receiver_id,
};
use carillon_transfer::run_loop::{RunControl, run_to_end};
use serde_json::json;

use super::{recv, send};
use crate::delivery::{Human, Stop, Watch, notice, print_json, record};
use crate::exit::JobFailed;

/// `carillon send --plain`
pub fn send(args: &send::Args) -> anyhow::Result<()> {
    let sends_files = sends_files(args);
    let input = if sends_files { None } else { Some(open_input(&args.paths, args.stream)?) };
    if sends_files {
        check_files(args)?;
    }
    let Settings { send: SendOptions { rate, datagram, .. }, hops, .. } = args.settings();
    let options = PlainSend {
        settings: send::settings_of(&args.settings)?,
        framing: args.framing,
        message_bytes: args.message_bytes,
        lines: args.stream,
        rate,
        datagram: datagram.map(|bytes| bytes as usize),
        hops,
        expect: expected(args)?,
        ..PlainSend::new(&args.protocol)
    };
    let stop = Stop::on_signals()?;
    let bound = options.bind(&args.network.keyed_network()?)?;
    args.network.remark(&bound);
    let watch = Watch::new(args.network.trace.as_deref(), &bound.endpoint)?;
    let mut run = match input {
        Some(input) => options.open(bound, input, watch)?,
        None => options.open_files(bound, &args.paths, watch)?,
    };
    // Senders of files announce the end by themselves.
    let mut told = sends_files;
    run_to_end(&mut run, |run| -> anyhow::Result<RunControl> {
        record(run.driver_mut(), |tally| &mut tally.inner);
        if let Some(rest) = run.lingers().filter(|_| !told && !args.network.json) {
            told = true;
            notice(format_args!("all is sent: answers requests for {:.0} s", rest.as_secs_f64()));
        }
        Ok(if stop.asked() { RunControl::Quit("the sender was interrupted") } else { RunControl::Continue })
    })?;
    let (report, error) = (run.report(), run.take_error());
    run.into_observer().finish()?;
    if let Some(error) = error {
        return Err(error.into());
    }
    let complete = !stop.asked() || told && !sends_files;
    print_sent(&report, args.network.json, complete, if sends_files { "file" } else { "message" })?;
    let are_confirmed = report.receivers.iter().all(|(_, confirmed)| *confirmed);
    if complete && are_confirmed { Ok(()) } else { Err(JobFailed.into()) }
}

/// Identifiers of the receivers that are to confirm everything.
fn expected(args: &send::Args) -> anyhow::Result<Vec<u32>> {
    let texts = args.expect.iter().flatten();
    texts
        .map(|text| {
            receiver_id(text).with_context(|| {
                format!(
                    "--expect {text}: with --plain, the node identifier of a receiver, such as 11 or 10.0.0.7"
                )
            })
        })
        .collect()
}

/// Returns true if whole files are sent under their names. Where the protocol has messages too, what concerns messages
/// selects them.
fn sends_files(args: &send::Args) -> bool {
    let contents = plain_contents(&args.protocol);
    let from_input = args.paths.iter().any(|path| path.as_os_str() == "-");
    let asks_for_messages =
        args.stream || args.message_bytes.is_some() || args.framing != Framing::None || from_input;
    contents.has_files() && !(contents.has_messages() && asks_for_messages)
}

/// Checks the paths of a protocol that sends files.
fn check_files(args: &send::Args) -> anyhow::Result<()> {
    if args.message_bytes.is_some() || args.stream {
        bail!("the protocol \"{}\" sends whole files: leave out --stream and --message-bytes", args.protocol);
    }
    for path in &args.paths {
        if path.as_os_str() == "-" {
            bail!("the protocol \"{}\" sends files by their names, and - has none", args.protocol);
        }
        if !std::fs::metadata(path).with_context(|| format!("cannot open {}", path.display()))?.is_file() {
            bail!(
                "{} is no file: the protocol \"{}\" sends files by their names",
                path.display(),
                args.protocol
            );
        }
    }
    Ok(())
}

/// Opens the file, or the standard input.
fn open_input(paths: &[PathBuf], stream: bool) -> anyhow::Result<Box<dyn Read + Send>> {
    let [path] = paths else {
        bail!("--plain sends one file, or - for the standard input, but {} were given", paths.len());
    };
    if path.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdin()));
    }
    let name = path.display();
    if stream {
        bail!("--stream sends the standard input: give `-` as the only path");
    }
    if path.is_dir() {
        bail!("{name} is a directory: --plain sends one file, such as an archive of it");
    }
    Ok(Box::new(File::open(path).with_context(|| format!("cannot open {name}"))?))
}

fn print_sent(report: &PlainReport, json: bool, complete: bool, what: &str) -> anyhow::Result<()> {
    let PlainReport { messages, bytes, repairs, .. } = *report;
    let receivers = &report.receivers;
    let seconds = report.time.as_secs_f64();
    if json {
        return print_json(&json!({
            "event": "report",
            "outcome": if complete { "sent" } else { "interrupted" },
            "messages": messages,
            "bytes": bytes,
            "repairs": repairs,
            "datagrams_sent": report.datagrams_sent,
            "datagrams_received": report.datagrams_received,
            "seconds": seconds,
            "receivers": receivers.iter().map(|(id, confirmed)| {
                json!({ "id": id, "outcome": if *confirmed { "confirmed" } else { "no-answer" } })
            }).collect::<Vec<_>>(),
        }));
    }
    let silent: Vec<String> =
        receivers.iter().filter(|(_, confirmed)| !confirmed).map(|(id, _)| id.to_string()).collect();
    let (confirmed, all) = (receivers.len() - silent.len(), receivers.len());
    let confirmation = match &silent[..] {
        _ if receivers.is_empty() => "nothing confirms what has arrived".to_owned(),
        [] => format!("{all} of {all} receivers have confirmed everything"),
        silent => format!(
            "{confirmed} of {all} receivers have confirmed everything, without an answer: {}",
            silent.join(", ")
        ),
    };
    let plural = if messages == 1 { "" } else { "s" };
    println!(
        "sent {messages} {what}{plural}, {} in {seconds:.2} s, {repairs} repairs; {confirmation}",
        Human(bytes)
    );
    Ok(())
}

/// `carillon recv --plain`
pub fn recv(args: &recv::Args) -> anyhow::Result<()> {
    let mut options = PlainReceive {
        settings: send::settings_of(&args.settings)?,
        framing: args.framing,
        ..PlainReceive::new(&args.protocol)
    };
    let from = args.from.iter().map(|from| {
        from.parse::<IpAddr>().with_context(|| format!("--from {from}: with --plain, an IP address"))
    });
    let PlainLimits { silence, .. } = options.limits;
    options.limits.silence = args.timeout.unwrap_or(silence);
    options.limits.from = from.collect::<anyhow::Result<_>>()?;
    let stop = Stop::on_signals()?;
    let bound = options.bind(&args.network.keyed_network()?)?;
    args.network.remark(&bound);
    let watch = Watch::new(args.network.trace.as_deref(), &bound.endpoint)?;
    let mut run = options.open(bound, watch)?;
    let folder = match plain_contents(&args.protocol).has_files() && !args.stdout {
        true => Some(PlainFolder::open(&args.out, args.overwrite)?),
        false => None,
    };
    let mut store = Store { args, folder, open: BTreeMap::new(), closed: 0, failed: 0 };
    let received = receive(&mut run, &mut store, &stop);
    run.into_observer().finish()?;
    received?;
    store.end(stop.asked())
}

fn receive(run: &mut PlainReceiveRun<Watch>, store: &mut Store<'_>, stop: &Stop) -> anyhow::Result<()> {
    run_to_end(run, |run| -> anyhow::Result<RunControl> {
        record(run.driver_mut(), |tally| &mut tally.inner);
        for news in run.take_news() {
            store.add(news)?;
        }
        let is_over = stop.asked() || !store.args.keep_going && store.closed > 0 && store.open.is_empty();
        Ok(if is_over { RunControl::Drop } else { RunControl::Continue })
    })
}

/// Files of the sources, or the standard output.
struct Store<'a> {
    args: &'a recv::Args,
    /// Directory of files with names, in protocols that send such files.
    folder: Option<PlainFolder>,
    open: BTreeMap<PlainSource, Incoming>,
    closed: u64,
    failed: u64,
}

/// Reception of one source.
#[derive(Default)]
struct Incoming {
    /// The file with its temporary name, from the first message on.
    file: Option<(File, PathBuf)>,
    messages: u64,
    /// Number of files that could not be stored.
    refused: u64,
    bytes: u64,
    /// Number of the first message.
    first: Option<u64>,
}

impl Store<'_> {
    fn add(&mut self, news: PlainNews) -> anyhow::Result<()> {
        match news {
            PlainNews::Opened(source) => {
                self.open.insert(source, Incoming::default());
                match self.args.network.json {
                    true => print_json(&json!({ "event": "opened", "source": source.to_string() }))?,
                    false => notice(format_args!("receiving from {source}")),
                }
            }
            PlainNews::Message { source, number, payload } => {
                self.create(source)?;
                let Some(incoming) = self.open.get_mut(&source) else { return Ok(()) };
                incoming.messages += 1;
                incoming.bytes += payload.len() as u64;
                incoming.first.get_or_insert(number);
                match &mut incoming.file {
                    Some((file, path)) => file
                        .write_all(&payload)
                        .with_context(|| format!("cannot write {}", path.display()))?,
                    None => std::io::stdout().lock().write_all(&payload)?,
                }
            }
            PlainNews::File { source, file } => self.store(source, &file)?,
            PlainNews::Closed { source, lost, ended } => self.close(source, lost, ended)?,
        }
        Ok(())
    }

    /// Stores a file under its name. A name that is refused ends nothing, since any host may send one.
    fn store(&mut self, source: PlainSource, file: &NamedFile) -> anyhow::Result<()> {
        let Some(incoming) = self.open.get_mut(&source) else { return Ok(()) };
        incoming.messages += 1;
        incoming.bytes += file.content.len() as u64;
        let Some(folder) = &mut self.folder else {
            return Ok(std::io::stdout().lock().write_all(&file.content)?);
        };
        let stored = folder.store(file);
        incoming.refused += u64::from(stored.is_err());
        let (json, length) = (self.args.network.json, file.content.len());
        match stored {
            Ok(path) if json => print_json(&json!({
                "event": "file", "source": source.to_string(), "file": path, "bytes": length,
            })),
            Ok(path) => {
                println!("received {}, {}", shown_path(&path), Human(length as u64));
                Ok(())
            }
            Err(error) => {
                notice(format_args!("{source}: a file is not stored: {error}"));
                Ok(())
            }
        }
    }

    fn name(&self, source: PlainSource) -> PathBuf {
        self.args.out.join(source.to_string())
    }

    /// Creates the file of a source with a temporary name, unless it is there. A source without messages has none, so
    /// that forged sources leave no files behind.
    fn create(&mut self, source: PlainSource) -> anyhow::Result<()> {
        let name = self.name(source);
        let Some(incoming) = self.open.get_mut(&source).filter(|incoming| incoming.file.is_none()) else {
            return Ok(());
        };
        if self.args.stdout {
            return Ok(());
        }
        if name.exists() && !self.args.overwrite {
            bail!("{} exists: move it away, or give --overwrite", name.display());
        }
        let mut part = name.into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = std::fs::create_dir_all(&self.args.out).and_then(|()| File::create(&part));
        incoming.file = Some((file.with_context(|| format!("cannot create {}", part.display()))?, part));
        Ok(())
    }

    fn close(&mut self, source: PlainSource, lost: u64, ended: bool) -> anyhow::Result<()> {
        let refused = self.open.get(&source).map_or(0, |incoming| incoming.refused);
        let is_complete = ended && lost == 0 && refused == 0;
        let contents = plain_contents(&self.args.protocol);
        if is_complete && !contents.has_files() {
            self.create(source)?;
        }
        let Some(incoming) = self.open.remove(&source) else { return Ok(()) };
        if incoming.messages == 0 && !ended {
            return Ok(());
        }
        self.closed += 1;
        self.failed += u64::from(!is_complete);
        let Incoming { file, messages, bytes, first, .. } = incoming;
        // A source that sent no message has sent files, or nothing.
        let are_files = contents.has_files() && first.is_none();
        let mut kept = None;
        if let Some((_, part)) = file {
            let name = self.name(source);
            kept = Some(if is_complete { name.clone() } else { part.clone() });
            if is_complete {
                std::fs::rename(&part, &name)
                    .with_context(|| format!("cannot rename {} to {}", part.display(), name.display()))?;
            }
        }
        if self.args.network.json {
            return print_json(&json!({
                "event": "closed",
                "source": source.to_string(),
                "outcome": if is_complete { "complete" } else { "failed" },
                "ended": ended,
                "messages": messages,
                "first": first,
                "bytes": bytes,
                "lost": lost,
                "file": kept,
            }));
        }
        let plural = if messages == 1 { "" } else { "s" };
        let kind = if are_files { "file" } else { "message" };
        let what = format!("{source}: {messages} {kind}{plural}, {}", Human(bytes));
        match (is_complete, ended) {
            (true, _) if self.args.stdout => {}
            (true, _) => println!("received {what}"),
            (false, true) if are_files => {
                notice(format_args!("{what}; {lost} files did not arrive, {refused} were not stored"));
            }
            (false, true) => notice(format_args!("{what}; {lost} packets could not be recovered")),
            (false, false) => notice(format_args!("{what}; it fell silent before it announced an end")),
        }
        Ok(())
    }

    /// Result of the command. Sources that are still open when it is interrupted have no end.
    fn end(mut self, interrupted: bool) -> anyhow::Result<()> {
        let open: Vec<_> = self.open.keys().copied().collect();
        for source in open {
            self.close(source, 0, false)?;
        }
        match self.failed > 0 || self.closed == 0 && !(interrupted && self.args.keep_going) {
            true => Err(JobFailed.into()),
            false => Ok(()),
        }
    }
}
