//! `carillon protocols`: the registry of protocols.

use std::io::Write as _;

use carillon_core::ProtocolEntry;
use carillon_proto::REGISTRY;
use serde_json::json;

/// List the protocols, or show the parameters of one.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Example: carillon protocols pgm",
    after_help = "Examples:\n  carillon protocols\n  carillon protocols mbap\n  carillon protocols --json"
)]
pub struct Args {
    /// Protocol to show with its parameters.
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `carillon protocols`
pub fn run(args: &Args) -> anyhow::Result<()> {
    let shown: Vec<&ProtocolEntry> = match &args.name {
        None => REGISTRY.to_vec(),
        Some(name) => vec![named(name)?],
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let all: Vec<_> = shown.iter().map(|entry| to_json(entry)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else if args.name.is_some() {
        for entry in shown {
            write!(out, "{}", describe(entry))?;
        }
    } else {
        let width = shown.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        for entry in shown {
            writeln!(out, "{:width$}  {}  [{}]", entry.name, entry.about.summary, entry.about.reference)?;
        }
    }
    Ok(())
}

/// The protocol of this name.
pub fn named(name: &str) -> anyhow::Result<&'static ProtocolEntry> {
    carillon_proto::find(name).ok_or_else(|| {
        let known: Vec<_> = REGISTRY.iter().map(|entry| entry.name).collect();
        anyhow::anyhow!("no protocol \"{name}\"; known: {}", known.join(", "))
    })
}

fn describe(entry: &ProtocolEntry) -> String {
    let mut text = format!(
        "{}: {}\nfamily    {}\nroles     {}\norder     {}\nnetworks  {}\nsource    {}\n\nparameters\n",
        entry.name,
        entry.about.summary,
        entry.about.family,
        list(entry.roles),
        entry.delivery.order,
        list(entry.networks),
        entry.about.reference
    );
    for parameter in entry.parameters {
        text += &format!(
            "  {} = {}\n      {}\n      {}\n",
            parameter.name, parameter.default, parameter.doc, parameter.kind
        );
    }
    text
}

fn to_json(entry: &ProtocolEntry) -> serde_json::Value {
    let parameters: Vec<_> = entry
        .parameters
        .iter()
        .map(|p| json!({ "name": p.name, "default": p.default, "values": p.kind.to_string(), "doc": p.doc }))
        .collect();
    json!({
        "name": entry.name,
        "family": entry.about.family,
        "summary": entry.about.summary,
        "confirmed": entry.delivery.confirmed,
        "repairs": entry.delivery.repairs,
        "reference": entry.about.reference,
        "roles": entry.roles.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "order": entry.delivery.order.to_string(),
        "networks": entry.networks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "parameters": parameters,
    })
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
