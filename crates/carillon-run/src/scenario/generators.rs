//! Generators of topologies: their names, and the keys that belong to them.

use toml::Table;

use super::sweep;

/// Keys of generators, and the generators they belong to.
const KEYS: &[(&str, &[&str])] = &[
    ("network.height", &["binary-tree"]),
    ("network.link_delay", &["binary-tree", "tree"]),
    ("network.component", &[]),
    ("network.fanout", &["tree"]),
    ("network.regions", &["tree"]),
    ("network.routers", &["random", "waxman"]),
    ("network.plane", &["random", "waxman"]),
    ("network.edge_probability", &["random"]),
    ("network.alpha", &["waxman"]),
    ("network.beta", &["waxman"]),
    ("network.host_delay", RANDOM_HOST_GENERATORS),
    ("network.topology_seed", RANDOM_HOST_GENERATORS),
    ("network.placement_seed", RANDOM_HOST_GENERATORS),
];

/// Keys that files without hosts have too.
const ROUTER_FILE_KEYS: &[&str] = &[
    "network.link_delay",
    "network.component",
    "network.host_delay",
    "network.placement_seed",
    "network.topology_seed",
];

/// Generators that place hosts at random. Files without hosts, such as GT-ITM's, get theirs the same way.
const RANDOM_HOST_GENERATORS: &[&str] = &["random", "waxman", "transit-stub"];

/// The generators.
pub(crate) const GENERATORS: &[&str] = &["binary-tree", "tree", "random", "waxman", "transit-stub"];

/// Refuses keys of other topologies.
pub(super) fn refuse_foreign_keys(
    name: &str,
    table: &Table,
    without_hosts: bool,
) -> Result<(), (&'static str, String)> {
    for &(key, generators) in KEYS {
        let of_file = without_hosts && ROUTER_FILE_KEYS.contains(&key);
        if sweep::has(table, key) && !generators.contains(&name) && !of_file {
            let what = match generators {
                [] => "belongs to a topology file without hosts".to_owned(),
                _ => format!("belongs to topology = \"{}\"", generators.join("\" or \"")),
            };
            return Err((key, what));
        }
    }
    Ok(())
}
