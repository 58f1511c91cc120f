//! The documentation names what the code has, and nothing else.

use std::collections::BTreeSet;
use std::fs;

use carillon_core::States;
use carillon_lab::metrics::{METRICS, Metric};
use carillon_lab::plan::Plan;
use carillon_lab::run::run_one;
use carillon_lab::scenario::ScenarioFile;
use carillon_session::{RECEIVER_STATES, SENDER_STATES};

const SCENARIO_PAGE: &str = include_str!("../../../docs/reference/scenario.md");
const ERRAMILLI_SINGH_PAGE: &str = include_str!("../../../docs/protocols/erramilli-singh.md");
const METRICS_PAGE: &str = include_str!("../../../docs/reference/metrics.md");

/// The first cells of the table rows of a page.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// The keys of a section, as the reader itself lists them when it meets an unknown one.
fn keys_of(section: &str) -> BTreeSet<String> {
    let sections = [
        ("network", "kind = \"lan\""),
        ("loss", "model = \"bernoulli\"\np = 0"),
        ("group", "receivers = 1"),
        ("protocol", "name = \"msaw\""),
        ("workload", "messages = 1\nmessage_bytes = 100"),
        ("reader", "rate = \"1 message/s\""),
        ("competitor", "kind = \"none\""),
        ("run", "seed = 1"),
    ];
    let mut text = String::from(if section.is_empty() { "zzz = 1\n" } else { "name = \"x\"\n" });
    for (name, content) in sections {
        let unknown = if name == section { "zzz = 1" } else { "" };
        text += &format!("[{name}]\n{content}\n{unknown}\n");
    }
    let error = ScenarioFile::parse("x", &text).unwrap_err().to_string();
    let (_, list) = error.split_once("expected").expect("the error lists the keys");
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_key_of_a_scenario_is_documented_and_no_other() {
    let mut documented: BTreeSet<String> = rows(SCENARIO_PAGE)
        .into_iter()
        .filter(|key| !key.starts_with("sweep.") && !key.starts_with("protocol."))
        .map(str::to_owned)
        .collect();
    // The parameters of the protocols follow in tables of their own.
    for entry in carillon_proto::REGISTRY {
        for parameter in entry.parameters {
            documented.remove(parameter.name);
        }
    }
    let mut existing: BTreeSet<String> =
        keys_of("").into_iter().filter(|key| ["name", "source"].contains(&key.as_str())).collect();
    for section in ["network", "loss", "group", "workload", "reader", "competitor", "run"] {
        existing.extend(keys_of(section).into_iter().map(|key| format!("{section}.{key}")));
    }
    assert_eq!(documented, existing);
}

#[test]
fn erramilli_singh_page_lists_parameters_and_defaults() {
    let entry = carillon_proto::find("erramilli-singh").unwrap();
    for parameter in entry.parameters {
        let delivery = entry.settings.delivery.iter().find(|(name, _)| *name == parameter.name);
        let follows = entry.settings.host.iter().any(|(name, _)| *name == parameter.name);
        let files = match delivery {
            _ if follows => "member timeout".to_owned(),
            Some((_, value)) => format!("`{value}`"),
            None => "=".to_owned(),
        };
        let start = format!("| `{}` | `{}` | ", parameter.name, parameter.default);
        let row = ERRAMILLI_SINGH_PAGE.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("docs/protocols/erramilli-singh.md has no row {start}"));
        assert_eq!(row.split('|').nth(4).map(str::trim), Some(files.as_str()), "for files: {row}");
    }
}

#[test]
fn every_parameter_is_documented_with_its_default() {
    let expected: String = carillon_proto::REGISTRY
        .iter()
        .filter(|entry| {
            !carillon_proto::REGISTRY.iter().any(|other| {
                other.study.unicast_equivalent.is_some_and(|unicast| unicast.protocol == entry.name)
            })
        })
        .map(|entry| {
            let rows: String = entry
                .parameters
                .iter()
                .map(|p| format!("| `{}` | `{}` | {} | {} |\n", p.name, p.default, p.kind, p.doc))
                .collect();
            format!(
                "### {}\n\n| parameter | default | values | meaning |\n|---|---|---|---|\n{rows}\n",
                entry.name
            )
        })
        .collect();
    let heading = "## Parameters of the protocols\n\n";
    let (keys, tables) = SCENARIO_PAGE.split_once(heading).unwrap();
    if std::env::var_os("CARILLON_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/scenario.md");
        std::fs::write(path, format!("{keys}{heading}{}\n", expected.trim_end())).unwrap();
        return;
    }
    assert_eq!(
        tables.trim_end(),
        expected.trim_end(),
        "CARILLON_BLESS=1 cargo test -p carillon-lab --test docs writes the tables"
    );
}

#[test]
fn every_metric_is_documented_as_the_registry_has_it() {
    let expected: String = METRICS
        .iter()
        .map(|Metric { name, unit, sample, needs, definition, source, .. }| {
            let needs: Vec<&str> = needs.iter().map(|need| need.text()).collect();
            format!("| `{name}` | {unit} | {sample} | {definition} | {} | {source} |\n", needs.join("; "))
        })
        .collect();
    let heading = "| metric | unit | sample | definition | needs | source |\n|---|---|---|---|---|---|\n";
    let (text, table) = METRICS_PAGE.split_once(heading).expect("the page has the table");
    if std::env::var_os("CARILLON_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        std::fs::write(path, format!("{text}{heading}{expected}")).unwrap();
        return;
    }
    assert_eq!(table, expected, "CARILLON_BLESS=1 cargo test -p carillon-lab --test docs writes the table");
}

/// The metrics of a run of a protocol.
fn metrics(network: &str, protocol: &str) -> Vec<(&'static str, Vec<f64>)> {
    let text = format!(
        "name = \"x\"\n[network]\n{network}\n[protocol]\nname = \"{protocol}\"\n\
         [workload]\nmessages = 2\nmessage_bytes = 200\n"
    );
    let file = ScenarioFile::parse("x", &text).unwrap();
    run_one(&Plan::new(&file).unwrap().runs[0], &mut carillon_core::NoObserver).unwrap().samples
}

#[test]
fn metric_exists_only_where_its_needs_are_met() {
    let names = |network: &str, protocol: &str| -> BTreeSet<&str> {
        metrics(network, protocol).into_iter().map(|(name, _)| name).collect()
    };
    let lan = "kind = \"lan\"\n[group]\nreceivers = 2";
    let graph = "kind = \"graph\"\ntopology = \"binary-tree\"";
    let star =
        "kind = \"star\"\nlatency = \"1 ms\"\nimplosion_rate = \"1500 packet/s\"\n[group]\nreceivers = 2";
    let everywhere = [
        "wire_bytes_per_useful_byte",
        "control_packets_per_message",
        "undelivered_share",
        "delivery_latency_s",
    ];
    // A source of SRM does not learn what has arrived; MSAW has no requests.
    assert_eq!(names(lan, "srm"), BTreeSet::from(everywhere));
    assert!(names(graph, "srm").contains("requests_per_loss"));
    assert!(
        !names(graph, "msaw").contains("requests_per_loss"),
        "a protocol without requests has none, not zero"
    );
    assert!(names(lan, "msaw").contains("relative_throughput"));
    assert!(!names(lan, "rra").contains("relative_throughput"));
    let all: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let tree = "kind = \"graph\"\ntopology = \"tree\"\nfanout = \"2 x 2\"\n[group]\nhelpers = 2\nhelper_dies = \"10 ms\"";
    let measured = "kind = \"lan\"\n[group]\nreceivers = 2\n[run]\nmeasure = [\"receivers\", \"nodes\"]";
    let relayed = format!("{graph}\n[run]\nmeasure = [\"nodes\"]");
    let helped = format!("{tree}\n[run]\nmeasure = [\"nodes\"]");
    let competing =
        format!("{graph}\n[competitor]\nkind = \"cubic\"\n[run]\nmeasure = [\"receivers\", \"queues\"]");
    let runs: [(&str, &str); 10] = [
        (lan, "msaw"),
        (graph, "msaw"),
        (graph, "srm"),
        (star, "msaw"),
        (lan, "xtp"),
        (tree, "prmp"),
        (measured, "msaw"),
        (&relayed, "pgm"),
        (&helped, "prmp"),
        (&competing, "msaw"),
    ];
    let given: BTreeSet<&str> =
        runs.iter().flat_map(|(network, protocol)| names(network, protocol)).collect();
    assert_eq!(given, all);
    assert!(!names(graph, "msaw").contains("network_cost"));
}

#[test]
fn every_protocol_has_a_latency_for_each_delivery() {
    for entry in carillon_proto::REGISTRY {
        let metrics = metrics("kind = \"lan\"\n[group]\nreceivers = 2", entry.name);
        let (_, latencies) = metrics.iter().find(|(name, _)| *name == "delivery_latency_s").unwrap();
        assert_eq!(latencies.len(), 4, "{}", entry.name);
        assert!(latencies.iter().all(|latency| *latency > 0.0), "{}: {latencies:?}", entry.name);
    }
}

/// The pages of the protocols, each with the diagrams of its states between this mark and the end of the block.
#[test]
fn the_page_of_each_protocol_draws_its_declared_states() {
    for entry in carillon_proto::REGISTRY {
        let path = page(entry);
        let marks = draw(&path, &entry.study.states.iter().collect::<Vec<_>>());
        let declared: BTreeSet<_> = carillon_proto::REGISTRY
            .iter()
            .filter(|other| page(other) == path)
            .flat_map(|other| other.study.states)
            .map(|states| states.of)
            .collect();
        assert_eq!(marks, declared.len(), "{path}: a diagram of nobody's states");
    }
}

/// The page of the session draws the states of its machines in the same way.
#[test]
fn the_page_of_the_session_draws_its_declared_states() {
    let all: Vec<_> = SENDER_STATES.iter().chain(RECEIVER_STATES).collect();
    let marks = draw(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/session.md"), &all);
    assert_eq!(marks, all.len(), "a diagram of nobody's states");
}

/// Compares the diagrams of a page with the declared states, or draws them. Returns the number of diagrams.
fn draw(path: &str, all: &[&States]) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut drawn = text.clone();
    for states in all {
        let mark = format!("<!-- states: {} -->\n```mermaid\n", states.of);
        let (before, after) = drawn.split_once(&mark).unwrap_or_else(|| panic!("{path} has no {mark}"));
        let (_, after) = after.split_once("```\n").unwrap_or_else(|| panic!("{path}: a block ends"));
        drawn = format!("{before}{mark}{}```\n{after}", states.mermaid());
    }
    if std::env::var_os("CARILLON_BLESS").is_some() {
        std::fs::write(path, drawn).unwrap();
    } else {
        assert_eq!(text, drawn, "CARILLON_BLESS=1 cargo test -p carillon-lab --test docs draws {path}");
    }
    text.matches("<!-- states: ").count()
}

/// The page of a protocol; that of a unicast equivalent is its multicast protocol's.
fn page(entry: &carillon_core::ProtocolEntry) -> String {
    let of = carillon_proto::REGISTRY
        .iter()
        .find(|other| other.study.unicast_equivalent.is_some_and(|other| other.protocol == entry.name));
    let name = of.map_or(entry.name, |of| of.name);
    format!("{}/../../docs/protocols/{name}.md", env!("CARGO_MANIFEST_DIR"))
}

/// The table of protocols is the registry, and the README counts its entries.
#[test]
fn the_table_of_protocols_is_the_registry() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/README.md");
    let text = std::fs::read_to_string(path).expect("the page can be read");
    let heading =
        "| protocol | summary | order | confirmed | networks | source |\n|---|---|---|---|---|---|\n";
    let (before, after) = text.split_once(heading).expect("the page has the table");
    let (_, after) = after.split_once("\n\n").expect("text follows the table");
    let rows = carillon_proto::REGISTRY.iter().map(|entry| {
        let page = page(entry);
        let page = page.rsplit('/').next().unwrap_or_default();
        let confirmed = if entry.delivery.confirmed { "yes" } else { "no" };
        let networks: Vec<_> = entry.networks.iter().map(ToString::to_string).collect();
        format!(
            "| [`{}`]({page}) | {} | {} | {confirmed} | {} | {} |",
            entry.name,
            entry.about.summary,
            entry.delivery.order,
            networks.join(", "),
            entry.about.reference
        )
    });
    let written = format!("{before}{heading}{}\n\n{after}", rows.collect::<Vec<_>>().join("\n"));
    let readme_path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme_path).expect("the README can be read");
    let mark = "**Laboratory.** ";
    let (first, rest) = readme.split_once(mark).expect("the README names the laboratory");
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let counted = format!("{first}{mark}{}{rest}", carillon_proto::REGISTRY.len());
    if std::env::var_os("CARILLON_BLESS").is_some() {
        std::fs::write(path, written).expect("the page can be written");
        std::fs::write(readme_path, counted).expect("the README can be written");
        return;
    }
    assert_eq!(text, written, "CARILLON_BLESS=1 cargo test -p carillon-lab --test docs writes the table");
    assert_eq!(readme, counted, "CARILLON_BLESS=1 cargo test -p carillon-lab --test docs writes the number");
}

/// The pages that follow something through the code name functions and types, which are to exist.
#[test]
fn what_the_architecture_page_follows_exists() {
    let page = include_str!("../../../docs/architecture.md");
    for heading in ["### From the socket to the disk", "### From a scenario to a figure"] {
        let (_, text) = page.split_once(heading).unwrap_or_else(|| panic!("there is no {heading}"));
        let end = text.find("\n#").unwrap_or(text.len());
        let names: Vec<&str> = text[..end].split('`').skip(1).step_by(2).collect();
        assert!(names.len() > 10, "{heading} names {names:?}");
        for name in names {
            assert!(exists(name), "{heading}: {name} is not in the sources");
        }
    }
}

/// Returns true if the sources have a function, type or crate of this name, or `Type::function` in a file that
/// mentions the type.
fn exists(name: &str) -> bool {
    let (of, last) = name.rsplit_once("::").unwrap_or(("", name));
    let of = of.rsplit("::").next().unwrap_or_default();
    SOURCES.iter().any(|source| {
        let kinds = ["fn ", "struct ", "enum ", "trait ", "mod ", "type "];
        let defines = source.match_indices(last).any(|(at, _)| {
            let goes_on = source[at + last.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
            !goes_on && kinds.iter().any(|kind| source[..at].ends_with(kind))
        });
        defines && (of.is_empty() || source.contains(of))
    }) || std::path::Path::new(&format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"))).is_dir()
}

static SOURCES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
    let mut sources = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && path.components().any(|part| part.as_os_str() == "src")
            {
                sources.push(std::fs::read_to_string(path).expect("sources are text"));
            }
        }
    }
    sources
});

/// A protocol is added by its folder, its format, and a line for each: what has its own name in it besides is
/// made from these, or tells of it.
#[test]
fn nothing_but_the_registry_knows_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut found = BTreeSet::new();
    let mut folders: Vec<_> =
        ["crates", "docs", "fuzz/src", "experiments", "scripts"].map(|name| format!("{root}/{name}")).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
            let path = entry.path().display().to_string();
            if entry.path().is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let word = |line: &str| {
                    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    words.any(|word| word == "kfold")
                };
                let lines = text.lines().filter(|line| word(line)).count();
                if lines > 0 {
                    found.insert((path[root.len() + 1..].to_owned(), lines));
                }
            }
        }
    }
    let own = [
        "crates/carillon-proto/src/protocols/kfold/",
        "crates/carillon-testkit/src/formats/kfold.rs",
        "crates/carillon-testkit/src/protocols/kfold.rs",
        "crates/carillon-wire/src/kfold.rs",
    ];
    found.retain(|(path, _)| !own.iter().any(|own| path.starts_with(own)));
    found.retain(|(path, _)| !path.ends_with("tests/docs.rs") && !path.contains("/vectors/"));
    // These are generated: the state diagrams of the documents, and the table of protocols.
    found.retain(|(path, _)| path != "crates/carillon-cli/view.html" && path != "docs/protocols/README.md");
    // The guide to adding a protocol tells of the example, and the baseline of findings lists every file.
    let guides = ["docs/SUMMARY.md", "docs/tutorials/first-protocol.md", "docs/how-to/add-a-protocol.md"];
    found.retain(|(path, _)| !guides.contains(&path.as_str()) && path != "scripts/prose-baseline.json");
    let others: BTreeSet<(String, usize)> = [
        ("crates/carillon-proto/src/protocols/mod.rs", 2),
        ("crates/carillon-testkit/src/formats/mod.rs", 2),
        ("crates/carillon-testkit/src/protocols/mod.rs", 2),
        ("crates/carillon-wire/src/lib.rs", 1),
        ("docs/protocols/kfold.md", 2),
        ("docs/reference/scenario.md", 1),
    ]
    .map(|(path, lines)| (path.to_owned(), lines))
    .into();
    assert_eq!(found, others, "what else has to know a protocol?");
}

#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for dir in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        if !manifest.contains("autotests = false") {
            continue;
        }
        let programs: Vec<&str> =
            manifest.split("[[test]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let root =
            |name: &str| fs::read_to_string(dir.join("tests").join(name).with_extension("rs")).unwrap();
        let roots: String = programs.iter().map(|name| root(name)).collect();
        for file in fs::read_dir(dir.join("tests")).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let is_rust =
                (file.is_dir() && name != "vectors") || file.extension().is_some_and(|end| end == "rs");
            let part = programs.contains(&name) || roots.contains(&format!("mod {name};\n"));
            assert!(!is_rust || part, "no test program has {}", file.display());
        }
    }
}

/// The table of blocks lists the users of each block: protocols that import it, and blocks built on it.
#[test]
fn the_architecture_page_says_who_uses_each_block() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
    let page = fs::read_to_string(path).expect("the page can be read");
    let heading = "| block | what | used by |\n|---|---|---|\n";
    let (before, rest) = page.split_once(heading).expect("the page has the table");
    let (table, after) = rest.split_once("\n\n").expect("text follows the table");
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../carillon-proto/src/");
    let (protocols, blocks) = (imports(&format!("{proto}protocols")), imports(&format!("{proto}blocks")));
    let rows = table.lines().map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        if cells[1].contains("carillon-wire") {
            return row.to_owned();
        }
        let named: Vec<&str> = cells[1].split('`').skip(1).step_by(2).collect();
        let named = named.iter().map(|name| name.rsplit("::").next().unwrap_or(name));
        let users = |of: &[(String, BTreeSet<String>)]| -> Vec<String> {
            let uses = |words: &BTreeSet<String>| named.clone().any(|name| words.contains(name));
            let users = of.iter().filter(|(_, words)| uses(words)).map(|(user, _)| user);
            users
                .filter(|user| named.clone().all(|name| name != *user))
                .map(|user| format!("`{user}`"))
                .collect()
        };
        let (by, within) = (users(&protocols), users(&blocks));
        let by = if by.len() > MAX_LISTED_USERS { "nearly all".to_owned() } else { by.join(", ") };
        let within = if within.is_empty() { String::new() } else { format!("in {}", within.join(", ")) };
        let both = [by, within].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        format!("|{}|{}| {both} |", cells[1], cells[2])
    });
    let written = format!("{before}{heading}{}\n\n{after}", rows.collect::<Vec<_>>().join("\n"));
    if std::env::var_os("CARILLON_BLESS").is_some() {
        return fs::write(path, written).expect("the page can be written");
    }
    assert_eq!(page, written, "CARILLON_BLESS=1 cargo test -p carillon-lab --test docs writes the column");
}

/// Maximum number of users that are listed by name; above it the page says "nearly all".
const MAX_LISTED_USERS: usize = 12;

/// Imports of each protocol or block below a folder, without its tests.
fn imports(folder: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
        let name = entry.file_name().into_string().expect("a name of letters");
        let name = name.trim_end_matches(".rs");
        let is_block = folder.ends_with("blocks");
        let mut words = BTreeSet::new();
        for file in files(&entry.path()) {
            let text = file.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let paths: &[&str] =
                if is_block { &["use super::", "use crate::blocks::"] } else { &["use crate::blocks::"] };
            for path in paths.iter().chain(&["use carillon_core::"]) {
                let lists = text.split(path).skip(1).filter_map(|rest| rest.split(';').next());
                let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
                words.extend(lists.flat_map(|list| list.split(|c| !is_of_name(c))).map(str::to_owned));
            }
        }
        if name == "mod" {
            continue;
        }
        let title = |word: &str| format!("{}{}", word[..1].to_uppercase(), &word[1..]);
        let name = match is_block {
            // A file is called as its type is, or by a part of that.
            true if entry.path().is_file() => {
                let title: String = name.split('_').map(title).collect();
                let text = files(&entry.path()).concat();
                let types = text
                    .split("pub struct ")
                    .skip(1)
                    .filter_map(|rest| rest.split([' ', '<', '(', ';']).next());
                types
                    .filter(|name| name.ends_with(&title))
                    .min_by_key(|name| name.len())
                    .unwrap_or(&title)
                    .to_owned()
            }
            true => name.to_owned(),
            false => name.replace('_', "-"),
        };
        all.push((name, words));
    }
    all.sort();
    all
}

/// The texts of a file, or of all below a folder, tests apart.
fn files(path: &std::path::Path) -> Vec<String> {
    if path.is_file() {
        return Vec::from([fs::read_to_string(path).expect("a source can be read")]);
    }
    let below = fs::read_dir(path).expect("a folder of the sources").flatten();
    let sources = below.filter(|entry| !entry.file_name().to_string_lossy().starts_with("tests"));
    sources.flat_map(|entry| files(&entry.path())).collect()
}
