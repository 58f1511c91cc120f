//! The runs of chapter 5: each scheme on each kind of topology, with losses at each kind of place.

use super::super::StudyPlan;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../../../experiments/plans/", $name, ".toml"))
    };
}

/// The plan of this name. Called at compile time: a wrong name does not compile.
pub const fn plan(id: &'static str, name: &'static str) -> StudyPlan {
    let mut at = 0;
    while at < PLANS.len() {
        if equal(PLANS[at].id, id) {
            let StudyPlan { id, plan, settings, .. } = PLANS[at];
            return StudyPlan { id, name, plan, settings };
        }
        at += 1;
    }
    panic!("there is no such plan")
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// All of them. PGM is set up as in the chapter: no back-off of requests, no delay of repairs.
pub const PLANS: &[StudyPlan] = &[
    StudyPlan {
        id: "lms-binary-source",
        name: "lms-binary-source",
        plan: file!("routed-binary"),
        settings: &[("loss.drop_one", "source")],
    },
    StudyPlan {
        id: "lms-binary-receivers",
        name: "lms-binary-receivers",
        plan: file!("routed-binary"),
        settings: &[("loss.drop_one", "each-receiver")],
    },
    StudyPlan {
        id: "lms-binary-links",
        name: "lms-binary-links",
        plan: file!("routed-binary"),
        settings: &[("loss.drop_one", "each-link")],
    },
    StudyPlan {
        id: "lms-random-5-source",
        name: "lms-random-5-source",
        plan: file!("routed"),
        settings: &[("group.receivers", "5"), ("loss.drop_one", "source")],
    },
    StudyPlan {
        id: "lms-random-5-receivers",
        name: "lms-random-5-receivers",
        plan: file!("routed"),
        settings: &[("group.receivers", "5"), ("loss.drop_one", "each-receiver")],
    },
    StudyPlan {
        id: "lms-random-5-links",
        name: "lms-random-5-links",
        plan: file!("routed"),
        settings: &[("group.receivers", "5"), ("loss.drop_one", "each-link")],
    },
    StudyPlan {
        id: "lms-random-20-source",
        name: "lms-random-20-source",
        plan: file!("routed"),
        settings: &[("group.receivers", "20"), ("loss.drop_one", "source")],
    },
    StudyPlan {
        id: "lms-random-20-receivers",
        name: "lms-random-20-receivers",
        plan: file!("routed"),
        settings: &[("group.receivers", "20"), ("loss.drop_one", "each-receiver")],
    },
    StudyPlan {
        id: "lms-random-20-links",
        name: "lms-random-20-links",
        plan: file!("routed"),
        settings: &[("group.receivers", "20"), ("loss.drop_one", "each-link")],
    },
    StudyPlan {
        id: "lms-random-100-source",
        name: "lms-random-100-source",
        plan: file!("routed"),
        settings: &[("loss.drop_one", "source")],
    },
    StudyPlan {
        id: "lms-random-100-receivers",
        name: "lms-random-100-receivers",
        plan: file!("routed"),
        settings: &[("loss.drop_one", "each-receiver")],
    },
    StudyPlan {
        id: "lms-random-100-links",
        name: "lms-random-100-links",
        plan: file!("routed"),
        settings: &[("loss.drop_one", "each-link")],
    },
    StudyPlan {
        id: "lms-ts-5-source",
        name: "lms-ts-5-source",
        plan: file!("routed"),
        settings: &[
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "lms-ts-5-receivers",
        name: "lms-ts-5-receivers",
        plan: file!("routed"),
        settings: &[
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "lms-ts-5-links",
        name: "lms-ts-5-links",
        plan: file!("routed"),
        settings: &[
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "lms-ts-20-source",
        name: "lms-ts-20-source",
        plan: file!("routed"),
        settings: &[
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "lms-ts-20-receivers",
        name: "lms-ts-20-receivers",
        plan: file!("routed"),
        settings: &[
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "lms-ts-20-links",
        name: "lms-ts-20-links",
        plan: file!("routed"),
        settings: &[
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "lms-ts-100-source",
        name: "lms-ts-100-source",
        plan: file!("routed"),
        settings: &[("network.topology", "transit-stub"), ("loss.drop_one", "source")],
    },
    StudyPlan {
        id: "lms-ts-100-receivers",
        name: "lms-ts-100-receivers",
        plan: file!("routed"),
        settings: &[("network.topology", "transit-stub"), ("loss.drop_one", "each-receiver")],
    },
    StudyPlan {
        id: "lms-ts-100-links",
        name: "lms-ts-100-links",
        plan: file!("routed"),
        settings: &[("network.topology", "transit-stub"), ("loss.drop_one", "each-link")],
    },
    StudyPlan {
        id: "lms-ts-100-transit-transit",
        name: "lms-ts-100-transit-transit",
        plan: file!("routed"),
        settings: &[("network.topology", "transit-stub"), ("loss.links", "transit-transit")],
    },
    StudyPlan {
        id: "lms-ts-100-transit-stub",
        name: "lms-ts-100-transit-stub",
        plan: file!("routed"),
        settings: &[("network.topology", "transit-stub"), ("loss.links", "transit-stub")],
    },
    StudyPlan {
        id: "lms-ts-100-stub-stub",
        name: "lms-ts-100-stub-stub",
        plan: file!("routed"),
        settings: &[("network.topology", "transit-stub"), ("loss.links", "stub-stub")],
    },
    StudyPlan {
        id: "srm-binary-source",
        name: "srm-binary-source",
        plan: file!("routed-binary-srm"),
        settings: &[("loss.drop_one", "source"), ("loss.times", "10")],
    },
    StudyPlan {
        id: "srm-binary-receivers",
        name: "srm-binary-receivers",
        plan: file!("routed-binary-srm"),
        settings: &[("loss.drop_one", "each-receiver")],
    },
    StudyPlan {
        id: "srm-binary-links",
        name: "srm-binary-links",
        plan: file!("routed-binary-srm"),
        settings: &[("loss.drop_one", "each-link")],
    },
    StudyPlan {
        id: "srm-random-5-source",
        name: "srm-random-5-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("group.receivers", "5"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srm-random-5-receivers",
        name: "srm-random-5-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("group.receivers", "5"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srm-random-5-links",
        name: "srm-random-5-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("group.receivers", "5"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "srm-random-20-source",
        name: "srm-random-20-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srm-random-20-receivers",
        name: "srm-random-20-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srm-random-20-links",
        name: "srm-random-20-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "srm-random-100-source",
        name: "srm-random-100-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("protocol.session_ivl", "5.05 s"),
            ("workload.start", "16 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srm-random-100-receivers",
        name: "srm-random-100-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("protocol.session_ivl", "5.05 s"),
            ("workload.start", "16 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srm-random-100-links",
        name: "srm-random-100-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("protocol.session_ivl", "5.05 s"),
            ("workload.start", "16 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "srm-ts-5-source",
        name: "srm-ts-5-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srm-ts-5-receivers",
        name: "srm-ts-5-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srm-ts-5-links",
        name: "srm-ts-5-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "srm-ts-20-source",
        name: "srm-ts-20-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srm-ts-20-receivers",
        name: "srm-ts-20-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srm-ts-20-links",
        name: "srm-ts-20-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "srm-ts-100-source",
        name: "srm-ts-100-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("protocol.session_ivl", "5.05 s"),
            ("workload.start", "16 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srm-ts-100-receivers",
        name: "srm-ts-100-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("protocol.session_ivl", "5.05 s"),
            ("workload.start", "16 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srm-ts-100-links",
        name: "srm-ts-100-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("loss.apart", "3 s"),
            ("network.topology", "transit-stub"),
            ("protocol.session_ivl", "5.05 s"),
            ("workload.start", "16 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "srmadaptive-random-20-source",
        name: "srmadaptive-random-20-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("protocol.timers", "adaptive"),
            ("loss.apart", "4 s"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "source"),
            ("loss.times", "10"),
        ],
    },
    StudyPlan {
        id: "srmadaptive-random-20-receivers",
        name: "srmadaptive-random-20-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("protocol.timers", "adaptive"),
            ("loss.apart", "4 s"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "srmadaptive-random-20-links",
        name: "srmadaptive-random-20-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "srm"),
            ("protocol.timers", "adaptive"),
            ("loss.apart", "4 s"),
            ("group.receivers", "20"),
            ("workload.start", "4 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-binary-source",
        name: "pgm-binary-source",
        plan: file!("routed-binary"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-binary-receivers",
        name: "pgm-binary-receivers",
        plan: file!("routed-binary"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-binary-links",
        name: "pgm-binary-links",
        plan: file!("routed-binary"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-random-5-source",
        name: "pgm-random-5-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("group.receivers", "5"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-random-5-receivers",
        name: "pgm-random-5-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("group.receivers", "5"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-random-5-links",
        name: "pgm-random-5-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("group.receivers", "5"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-random-20-source",
        name: "pgm-random-20-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("group.receivers", "20"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-random-20-receivers",
        name: "pgm-random-20-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("group.receivers", "20"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-random-20-links",
        name: "pgm-random-20-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("group.receivers", "20"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-random-100-source",
        name: "pgm-random-100-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-random-100-receivers",
        name: "pgm-random-100-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-random-100-links",
        name: "pgm-random-100-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-5-source",
        name: "pgm-ts-5-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-5-receivers",
        name: "pgm-ts-5-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-5-links",
        name: "pgm-ts-5-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "5"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-20-source",
        name: "pgm-ts-20-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-20-receivers",
        name: "pgm-ts-20-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-20-links",
        name: "pgm-ts-20-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("group.receivers", "20"),
            ("loss.drop_one", "each-link"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-100-source",
        name: "pgm-ts-100-source",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("loss.drop_one", "source"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-100-receivers",
        name: "pgm-ts-100-receivers",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("loss.drop_one", "each-receiver"),
        ],
    },
    StudyPlan {
        id: "pgm-ts-100-links",
        name: "pgm-ts-100-links",
        plan: file!("routed"),
        settings: &[
            ("protocol.name", "pgm"),
            ("protocol.nak_bo_ivl", "0 ms"),
            ("protocol.rdata_delay", "0 ms"),
            ("protocol.ne_nak_rpt_rte", "1 s"),
            ("protocol.nak_elim_ivl", "5 s"),
            ("network.topology", "transit-stub"),
            ("loss.drop_one", "each-link"),
        ],
    },
];
