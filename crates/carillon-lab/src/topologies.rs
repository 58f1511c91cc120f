//! The topologies that are shipped: those on which ns-2's agents were measured (`experiments/topologies`).

/// Name, edges and roles of each.
macro_rules! shipped {
    ($($name:literal)*) => {
        &[$((
            $name,
            include_str!(concat!("../../../experiments/topologies/", $name, ".edges")),
            include_str!(concat!("../../../experiments/topologies/", $name, ".roles")),
        )),*]
    };
}

const SHIPPED: &[(&str, &str, &str)] = shipped!(
    "btree-h3"
    "btree-h5"
    "btree-h7"
    "rand0-r100"
    "rand0-r20"
    "rand0-r5"
    "rand1-r100"
    "rand1-r20"
    "rand1-r5"
    "rand2-r100"
    "rand2-r20"
    "rand2-r5"
    "ts0-r100"
    "ts0-r20"
    "ts0-r5"
    "ts1-r100"
    "ts1-r20"
    "ts1-r5"
    "ts2-r100"
    "ts2-r20"
    "ts2-r5"
);

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _, _)| *name)
}

/// The edges and the roles of the one of this name.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    SHIPPED.iter().find(|(shipped, _, _)| *shipped == name).map(|(_, edges, roles)| (*edges, *roles))
}
