//! Determinism: the same scenario, version and seed give the same bytes.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use carillon_core::NoObserver;
use carillon_lab::plan::Plan;
use carillon_lab::results::{Contents, Existing, SweepError, SweepOptions, is_complete, progress, run_into};
use carillon_lab::run::run_one;
use carillon_lab::scenario::ScenarioFile;

const SCENARIO: &str = r#"
name = "determinism"
[network]
kind = "lan"
[loss]
model = "bernoulli"
p = 0.02
[group]
receivers = 3
[protocol]
name = "mbap"
ack_wait = "6000 bit"
[workload]
messages = 60
message_bytes = 1518
[sweep]
"protocol.window" = [1, 5]
"group.receivers" = [2, 5, 9]
[run]
replications = 3
"#;

fn folder(jobs: usize) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), jobs, Existing::Keep, &|| false).unwrap();
    tables(dir.path())
}

fn sweep(
    dir: &Path,
    jobs: usize,
    existing: Existing,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), SweepError> {
    sweep_counting(dir, jobs, existing, stop, &AtomicUsize::new(0))
}

/// Runs the sweep and counts the completed runs.
fn sweep_counting(
    dir: &Path,
    jobs: usize,
    existing: Existing,
    stop: &(dyn Fn() -> bool + Sync),
    ended: &AtomicUsize,
) -> Result<(), SweepError> {
    let file = ScenarioFile::parse("determinism.toml", SCENARIO).unwrap();
    let contents = Contents { samples: true, ..Contents::default() };
    let progress = |_| {
        ended.fetch_add(1, Ordering::Relaxed);
    };
    run_into(
        &file,
        dir,
        &SweepOptions {
            contents,
            existing,
            threads: jobs.into(),
            testbed: None,
            shared: None,
            stop,
            progress: &progress,
        },
    )
    .map(drop)
}

fn tables(dir: &Path) -> Vec<Vec<u8>> {
    let names = ["summary.csv", "runs.csv", "summary.parquet", "samples.parquet"];
    names.map(|name| fs::read(dir.join(name)).unwrap()).into()
}

#[test]
fn tables_do_not_depend_on_the_number_of_threads() {
    let one = folder(1);
    assert_eq!(one, folder(2));
    assert_eq!(one, folder(1));
    let text = String::from_utf8(one[0].clone()).unwrap();
    assert!(text.starts_with("protocol.window,group.receivers,metric,n,mean,sd,min,p25,p50,p75,p95,max,ci95_low,ci95_high\n1,2,message_latency_s,180,"));
}

#[test]
fn interrupted_sweep_resumes_to_the_same_bytes() {
    let whole = folder(2);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut done = 0;
    for more in [3, 5] {
        let ended = AtomicUsize::new(0);
        let stop = || ended.load(Ordering::Relaxed) >= more;
        let existing = if done == 0 { Existing::Keep } else { Existing::Resume };
        let error = sweep_counting(dir, 1, existing, &stop, &ended).unwrap_err().to_string();
        done += more;
        assert!(error.starts_with(&format!("interrupted: {done} of 18 runs are done")), "{error}");
        assert_eq!(progress(dir), Some((done as u64, 18)));
        // The files written so far are prefixes of the complete ones.
        for (name, whole) in ["summary.csv", "runs.csv"].into_iter().zip(&whole) {
            let part = fs::read(dir.join(name)).unwrap();
            assert!(whole.starts_with(&part) && part.len() < whole.len(), "{name}");
        }
    }
    let error = sweep(dir, 1, Existing::Keep, &|| false).unwrap_err().to_string();
    assert!(error.contains("8 of 18 runs done: give --resume"), "{error}");
    // The process may have been killed while it wrote.
    let journal = dir.join("runs.partial");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 5]).unwrap();
    sweep(dir, 2, Existing::Resume, &|| false).unwrap();
    assert_eq!(tables(dir), whole);
    assert!(!journal.exists());
    // And another sweep does not go on in its place.
    let file = ScenarioFile::parse("determinism.toml", SCENARIO).unwrap();
    assert!(is_complete(dir, &file) && !is_complete(dir, &file.with("run.seed", "2").unwrap()));
}

#[test]
fn a_sweep_does_not_go_on_with_another_content_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let origin = dir.path().join("mine.toml").to_string_lossy().into_owned();
    let text = concat!(
        "name = \"mine\"\n[network]\nkind = \"graph\"\ntopology = \"mine.edges\"\n",
        "[protocol]\nname = \"pgm\"\n[workload]\nmessages = 3\nmessage_bytes = 100\nrate = \"10 packet/s\"\n",
        "[run]\nreplications = 2\n"
    );
    let out = dir.path().join("out");
    let sweep = |edges: &str, existing, most: usize| {
        fs::write(dir.path().join("mine.edges"), edges).unwrap();
        fs::write(dir.path().join("mine.roles"), "nodes 3\nsource 0\nreceiver 1\nreceiver 2\n").unwrap();
        let file = carillon_lab::inputs::parse(&origin, text).unwrap();
        let ended = AtomicUsize::new(0);
        let stop = || ended.load(Ordering::Relaxed) >= most;
        let progress = |_| {
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let contents = Contents::default();
        let options = SweepOptions {
            contents,
            existing,
            threads: 1.into(),
            testbed: None,
            shared: None,
            stop: &stop,
            progress: &progress,
        };
        run_into(&file, &out, &options).map(drop).map_err(|error| error.to_string())
    };
    let (first, second) = ("0 1 0.01\n1 2 0.01\n", "0 1 0.01\n1 2 0.02\n");
    for most in [1, 2] {
        let existing = if most == 1 { Existing::Keep } else { Existing::Resume };
        assert_eq!(sweep(first, existing, 1).is_ok(), most == 2);
        let error = sweep(second, Existing::Resume, 2).unwrap_err();
        assert!(error.contains("mine.edges is another file there"), "{error}");
    }
    sweep(first, Existing::Resume, 2).unwrap();
}

#[test]
fn another_seed_gives_other_numbers() {
    let file = ScenarioFile::parse("determinism.toml", SCENARIO).unwrap();
    let other = file.with("run.seed", "2").unwrap();
    let first =
        |file: &ScenarioFile| run_one(&Plan::new(file).unwrap().runs[0], &mut NoObserver).unwrap().messages;
    assert_ne!(first(&file), first(&other));
}

/// Integers that move only when the model does: a moved one needs a line under "Changed results"
/// in the changelog. `CARILLON_BLESS=1 cargo test -p carillon-lab --test laboratory determinism` writes them.
#[test]
fn the_golden_sweep_has_not_moved() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/golden/segovia.csv");
    let mut table =
        String::from("protocol,receivers,loss_percent,timers,ns_total,retransmissions,failed,steps\n");
    for protocol in ["msaw", "saw", "mbap", "bap"] {
        for (receivers, loss) in [(3, 0), (12, 0), (5, 2)] {
            for timers in ["exact", "after-bus-activity"] {
                let text = SCENARIO.split("[sweep]").next().unwrap().replace("mbap", protocol);
                let text = if protocol.contains("saw") {
                    text
                } else {
                    text.replace("ack_wait", "ack_timer = \"until-full-window\"\nack_wait")
                };
                let file = ScenarioFile::parse("golden", &text)
                    .and_then(|file| file.with("group.receivers", &receivers.to_string()))
                    .and_then(|file| file.with("loss.p", &format!("\"{loss} %\"")))
                    .and_then(|file| file.with("network.timers", timers))
                    .unwrap();
                let result = run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap();
                let end = result.messages.last().unwrap().end.as_nanos();
                let retransmissions: u32 = result.messages.iter().map(|m| m.retransmissions).sum();
                let failed = result.messages.iter().filter(|m| m.failed).count();
                table += &format!(
                    "{protocol},{receivers},{loss},{timers},{end},{retransmissions},{failed},{}\n",
                    result.steps
                );
            }
        }
    }
    check_golden(path, &table);
}

/// Golden numbers of recovery on routed networks: exact sums over all losses, in nanoseconds.
#[test]
fn the_golden_recoveries_have_not_moved() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/golden/routed.csv");
    let mut table = String::from("protocol,topology,loss,recoveries,ns_total,steps\n");
    for protocol in ["lms", "srm", "pgm"] {
        for (topology, loss) in [
            ("btree-h3", "drop_one = \"each-link\""),
            ("ts0-r20", "drop_one = \"each-receiver\""),
            ("rand0-r20", "model = \"bernoulli\"\np = 0.01"),
        ] {
            let messages = if loss.starts_with("model") { "messages = 60\n" } else { "" };
            let text = format!(
                "name = \"golden\"\n[network]\nkind = \"graph\"\ntopology = \"{topology}\"\n[loss]\n{loss}\n\
                 [protocol]\nname = \"{protocol}\"\n[workload]\n{messages}message_bytes = 1000\n\
                 rate = \"10 packet/s\"\nstart = \"4 s\"\n"
            );
            let file = ScenarioFile::parse("golden", &text).unwrap();
            let result = run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap();
            let (_, latencies) =
                result.samples.iter().find(|(metric, _)| *metric == "recovery_latency_s").unwrap();
            let total: u64 = latencies.iter().map(|seconds| (seconds * 1e9).round() as u64).sum();
            let loss = loss.split('"').nth(1).unwrap();
            table += &format!("{protocol},{topology},{loss},{},{total},{}\n", latencies.len(), result.steps);
        }
    }
    check_golden(path, &table);
}

fn check_golden(path: &str, table: &str) {
    if std::env::var_os("CARILLON_BLESS").is_some() {
        fs::write(path, table).unwrap();
    }
    let golden = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(table, golden, "results moved; if meant, bless them and say so in CHANGELOG.md");
}
