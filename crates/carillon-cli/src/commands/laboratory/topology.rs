//! `carillon topology`: shipped and generated topologies, and files of other tools.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use carillon_lab::inputs;
use carillon_lab::plan::Plan;
use carillon_lab::scenario::{ScenarioFile, text_table};
use carillon_lab::topologies::{self, Summary, Topology};

/// Write a topology: generated, shipped, or read from another file.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon topology random --receivers 20 --out net.edges",
    after_help = "\
Examples:
  carillon topology --list
  carillon topology random --receivers 20 --seed 7 --out net.edges
  carillon topology transit-stub --receivers 100 --out ts.edges
  carillon topology binary-tree --set height=5 --out tree.edges
  carillon topology ts100-0.gb --receivers 50 --out from-gt-itm.edges
  carillon topology Geant2012.graphml --info
  carillon topology Geant2012.graphml --set component=largest --out geant.edges

Reads the files of GT-ITM (.gb, and .alt by its sgb2alt), GraphML (.graphml), GML (.gml), BRITE (.brite) and \
Rocketfuel (.intra, .cch). Their nodes are routers. With --receivers, a source and receivers are placed on them.

Writes the edges (node node delay_ms [rate_mbps [queue [loss]]]) and, beside them, the roles (.roles)."
)]
pub struct Args {
    /// Generator (binary-tree, tree, random, waxman, transit-stub), shipped topology, or file.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the shipped topologies.
    #[arg(long)]
    list: bool,
    /// Print the numbers of nodes and links, and what the reader left out or assumed.
    #[arg(long, conflicts_with = "out")]
    info: bool,
    /// Number of receivers, for generators and files that do not define it.
    #[arg(long, value_name = "N")]
    receivers: Option<u32>,
    /// Seed of a random topology.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Set a key of the scenario's network section, such as edge_probability=0.05.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Write FILE and, with the ending .roles, the roles [default: edges to standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// `carillon topology`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else {
        for name in topologies::names() {
            writeln!(out, "{name}")?;
        }
        return Ok(());
    };
    let (topology, summary) = build(args, name)?;
    if args.info {
        write!(out, "{summary}")?;
        return Ok(());
    }
    let (edges, roles) = (topology.edges(), topology.roles());
    match &args.out {
        None => write!(out, "{edges}")?,
        Some(path) => {
            let roles_path = path.with_extension("roles");
            if roles_path == *path {
                bail!("--out {}: the roles are to stand beside it with this ending", path.display());
            }
            for (path, text) in [(path, edges), (&roles_path, roles)] {
                fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            eprint!("{}: {summary}", path.display());
        }
    }
    Ok(())
}

/// Reads or generates the topology.
fn build(args: &Args, name: &str) -> anyhow::Result<(Arc<Topology>, Summary)> {
    // Topologies are read by the reader of scenarios, which needs a protocol and a message.
    let mut keys = vec![
        ("name", "topology"),
        ("network.kind", "graph"),
        ("network.topology", name),
        ("protocol.name", "msaw"),
        ("workload.messages", "1"),
        ("workload.message_bytes", "1000"),
    ];
    let (receivers, seed) = (args.receivers.map(|n| n.to_string()), args.seed.map(|n| n.to_string()));
    keys.extend(receivers.as_deref().map(|receivers| ("group.receivers", receivers)));
    keys.extend(seed.as_deref().map(|seed| ("network.topology_seed", seed)));
    let mut table = text_table(&keys);
    for setting in &args.settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("--set {setting}: write KEY=VALUE, such as height=5");
        };
        let key = format!("network.{}", key.trim().trim_start_matches("network."));
        carillon_lab::scenario::set(&mut table, &key, value.trim());
    }
    let inputs = inputs::beside("topology");
    // Without receivers, the routers of a file stay as they are.
    if args.receivers.is_none()
        && let Some(routers) = topologies::routers(&table, &inputs)?
    {
        return Ok(routers);
    }
    let file = ScenarioFile::from_table_with("topology", table, inputs, carillon_proto::REGISTRY)?;
    let plan = Plan::new(&file)?;
    let network = plan.runs.first().and_then(|run| run.scenario.network.graph()).context("no topology")?;
    let topology = network.topology.clone();
    let summary = Summary::new(&topology);
    Ok((topology, summary))
}
