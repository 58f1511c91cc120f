//! The runs of chapter 5: each scheme on each kind of topology, with losses at each kind of place.

use super::super::StudyPlan;

/// A line for each: what it is called, its scenario file, and what is set in it.
macro_rules! plans {
    ($($id:literal $file:literal [$($key:literal = $value:literal),*])*) => {
        &[$(StudyPlan {
            id: $id,
            name: $id,
            plan: include_str!(concat!("../../../../../experiments/plans/", $file, ".toml")),
            settings: &[$(($key, $value)),*],
        }),*]
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

/// All of them. PGM is set up as in the chapter: no back-off of requests, no delay of repairs. Session
/// messages of SRM come each 50 ms times the members where there are more than 40.
#[rustfmt::skip]
pub const PLANS: &[StudyPlan] = plans! {
    "lms-binary-source" "routed-binary" ["loss.drop_one" = "source"]
    "lms-binary-receivers" "routed-binary" ["loss.drop_one" = "each-receiver"]
    "lms-binary-links" "routed-binary" ["loss.drop_one" = "each-link"]
    "lms-random-5-source" "routed" ["group.receivers" = "5", "loss.drop_one" = "source"]
    "lms-random-5-receivers" "routed" ["group.receivers" = "5", "loss.drop_one" = "each-receiver"]
    "lms-random-5-links" "routed" ["group.receivers" = "5", "loss.drop_one" = "each-link"]
    "lms-random-20-source" "routed" ["group.receivers" = "20", "loss.drop_one" = "source"]
    "lms-random-20-receivers" "routed" ["group.receivers" = "20", "loss.drop_one" = "each-receiver"]
    "lms-random-20-links" "routed" ["group.receivers" = "20", "loss.drop_one" = "each-link"]
    "lms-random-100-source" "routed" ["loss.drop_one" = "source"]
    "lms-random-100-receivers" "routed" ["loss.drop_one" = "each-receiver"]
    "lms-random-100-links" "routed" ["loss.drop_one" = "each-link"]
    "lms-ts-5-source" "routed" ["network.topology" = "transit-stub", "group.receivers" = "5", "loss.drop_one" = "source"]
    "lms-ts-5-receivers" "routed" ["network.topology" = "transit-stub", "group.receivers" = "5", "loss.drop_one" = "each-receiver"]
    "lms-ts-5-links" "routed" ["network.topology" = "transit-stub", "group.receivers" = "5", "loss.drop_one" = "each-link"]
    "lms-ts-20-source" "routed" ["network.topology" = "transit-stub", "group.receivers" = "20", "loss.drop_one" = "source"]
    "lms-ts-20-receivers" "routed" ["network.topology" = "transit-stub", "group.receivers" = "20", "loss.drop_one" = "each-receiver"]
    "lms-ts-20-links" "routed" ["network.topology" = "transit-stub", "group.receivers" = "20", "loss.drop_one" = "each-link"]
    "lms-ts-100-source" "routed" ["network.topology" = "transit-stub", "loss.drop_one" = "source"]
    "lms-ts-100-receivers" "routed" ["network.topology" = "transit-stub", "loss.drop_one" = "each-receiver"]
    "lms-ts-100-links" "routed" ["network.topology" = "transit-stub", "loss.drop_one" = "each-link"]
    "lms-ts-100-transit-transit" "routed" ["network.topology" = "transit-stub", "loss.links" = "transit-transit"]
    "lms-ts-100-transit-stub" "routed" ["network.topology" = "transit-stub", "loss.links" = "transit-stub"]
    "lms-ts-100-stub-stub" "routed" ["network.topology" = "transit-stub", "loss.links" = "stub-stub"]
    "srm-binary-source" "routed-binary-srm" ["loss.drop_one" = "source", "loss.times" = "10"]
    "srm-binary-receivers" "routed-binary-srm" ["loss.drop_one" = "each-receiver"]
    "srm-binary-links" "routed-binary-srm" ["loss.drop_one" = "each-link"]
    "srm-random-5-source" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "group.receivers" = "5", "workload.start" = "4 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srm-random-5-receivers" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "group.receivers" = "5", "workload.start" = "4 s", "loss.drop_one" = "each-receiver"]
    "srm-random-5-links" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "group.receivers" = "5", "workload.start" = "4 s", "loss.drop_one" = "each-link"]
    "srm-random-20-source" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srm-random-20-receivers" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "each-receiver"]
    "srm-random-20-links" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "each-link"]
    "srm-random-100-source" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "protocol.session_ivl" = "5.05 s", "workload.start" = "16 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srm-random-100-receivers" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "protocol.session_ivl" = "5.05 s", "workload.start" = "16 s", "loss.drop_one" = "each-receiver"]
    "srm-random-100-links" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "protocol.session_ivl" = "5.05 s", "workload.start" = "16 s", "loss.drop_one" = "each-link"]
    "srm-ts-5-source" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "group.receivers" = "5", "workload.start" = "4 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srm-ts-5-receivers" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "group.receivers" = "5", "workload.start" = "4 s", "loss.drop_one" = "each-receiver"]
    "srm-ts-5-links" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "group.receivers" = "5", "workload.start" = "4 s", "loss.drop_one" = "each-link"]
    "srm-ts-20-source" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srm-ts-20-receivers" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "each-receiver"]
    "srm-ts-20-links" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "each-link"]
    "srm-ts-100-source" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "protocol.session_ivl" = "5.05 s", "workload.start" = "16 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srm-ts-100-receivers" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "protocol.session_ivl" = "5.05 s", "workload.start" = "16 s", "loss.drop_one" = "each-receiver"]
    "srm-ts-100-links" "routed" ["protocol.name" = "srm", "loss.apart" = "3 s", "network.topology" = "transit-stub", "protocol.session_ivl" = "5.05 s", "workload.start" = "16 s", "loss.drop_one" = "each-link"]
    "srmadaptive-random-20-source" "routed" ["protocol.name" = "srm", "protocol.timers" = "adaptive", "loss.apart" = "4 s", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "source", "loss.times" = "10"]
    "srmadaptive-random-20-receivers" "routed" ["protocol.name" = "srm", "protocol.timers" = "adaptive", "loss.apart" = "4 s", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "each-receiver"]
    "srmadaptive-random-20-links" "routed" ["protocol.name" = "srm", "protocol.timers" = "adaptive", "loss.apart" = "4 s", "group.receivers" = "20", "workload.start" = "4 s", "loss.drop_one" = "each-link"]
    "pgm-binary-source" "routed-binary" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "loss.drop_one" = "source"]
    "pgm-binary-receivers" "routed-binary" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "loss.drop_one" = "each-receiver"]
    "pgm-binary-links" "routed-binary" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "loss.drop_one" = "each-link"]
    "pgm-random-5-source" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "group.receivers" = "5", "loss.drop_one" = "source"]
    "pgm-random-5-receivers" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "group.receivers" = "5", "loss.drop_one" = "each-receiver"]
    "pgm-random-5-links" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "group.receivers" = "5", "loss.drop_one" = "each-link"]
    "pgm-random-20-source" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "group.receivers" = "20", "loss.drop_one" = "source"]
    "pgm-random-20-receivers" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "group.receivers" = "20", "loss.drop_one" = "each-receiver"]
    "pgm-random-20-links" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "group.receivers" = "20", "loss.drop_one" = "each-link"]
    "pgm-random-100-source" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "loss.drop_one" = "source"]
    "pgm-random-100-receivers" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "loss.drop_one" = "each-receiver"]
    "pgm-random-100-links" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "loss.drop_one" = "each-link"]
    "pgm-ts-5-source" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "group.receivers" = "5", "loss.drop_one" = "source"]
    "pgm-ts-5-receivers" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "group.receivers" = "5", "loss.drop_one" = "each-receiver"]
    "pgm-ts-5-links" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "group.receivers" = "5", "loss.drop_one" = "each-link"]
    "pgm-ts-20-source" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "group.receivers" = "20", "loss.drop_one" = "source"]
    "pgm-ts-20-receivers" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "group.receivers" = "20", "loss.drop_one" = "each-receiver"]
    "pgm-ts-20-links" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "group.receivers" = "20", "loss.drop_one" = "each-link"]
    "pgm-ts-100-source" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "loss.drop_one" = "source"]
    "pgm-ts-100-receivers" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "loss.drop_one" = "each-receiver"]
    "pgm-ts-100-links" "routed" ["protocol.name" = "pgm", "protocol.nak_bo_ivl" = "0 ms", "protocol.rdata_delay" = "0 ms", "protocol.ne_nak_rpt_rte" = "1 s", "protocol.nak_elim_ivl" = "5 s", "network.topology" = "transit-stub", "loss.drop_one" = "each-link"]
};
