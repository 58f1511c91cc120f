//! The same scenario, version and seed give the same bytes.

use std::fs;
use std::time::Duration;

use carillon_core::NoObserver;
use carillon_lab::plan::Plan;
use carillon_lab::results::Results;
use carillon_lab::run::{run_one, run_plan};
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
    let file = ScenarioFile::parse("determinism.toml", SCENARIO).unwrap();
    let plan = Plan::new(&file).unwrap();
    let runs = run_plan(&plan, jobs, &|| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    Results::new(&file, &plan, &runs, Duration::from_secs(1)).write(dir.path()).unwrap();
    ["summary.csv", "summary.parquet", "samples.parquet"]
        .map(|name| fs::read(dir.path().join(name)).unwrap())
        .into()
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
fn another_seed_gives_other_numbers() {
    let file = ScenarioFile::parse("determinism.toml", SCENARIO).unwrap();
    let other = file.with("run.seed", "2").unwrap();
    let first =
        |file: &ScenarioFile| run_one(&Plan::new(file).unwrap().runs[0], &mut NoObserver).unwrap().messages;
    assert_ne!(first(&file), first(&other));
}

/// Integers that move only when the model does: a moved one needs a line under "Changed results"
/// in the changelog. `CARILLON_BLESS=1 cargo test -p carillon-lab --test determinism` writes them.
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

/// The same for recovery on routed networks: exact sums over all losses, in nanoseconds.
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
