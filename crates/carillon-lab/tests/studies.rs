//! The shipped studies: well formed, shown like other experiments, and with the answers that
//! docs/explanation/open-questions.md gives. The full runs are `carillon reproduce open`; here each has a part of its
//! messages.

use std::collections::BTreeMap;

use carillon_lab::plot::{Figure, Marks, svg};
use carillon_lab::report::Page;
use carillon_lab::reproduce::{
    Analysis, EXPERIMENTS, ExperimentKind, Laboratory, Options, Outcome, Settings, Sheet, Source, Study,
    find, matching,
};
use carillon_lab::results::Existing;
use carillon_testkit::{is_long_or_skipped, is_long_tier};

fn study(id: &str, messages: u64) -> Study {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        jobs: 2,
        seed: None,
        messages: Some(messages),
        testbed: None,
        out: dir.path(),
        samples: true,
        existing: Existing::Keep,
        stop: &|| false,
        progress: &|_| {},
    };
    match Laboratory::new(options).reproduce(find(id).unwrap()).unwrap() {
        Outcome::Study(study) => study,
        other => panic!("{id} is no study: {other:?}"),
    }
}

/// Numbers of a column, in the rows that begin with these keys.
fn column(sheet: &Sheet, label: &str, keys: &[f64]) -> Vec<f64> {
    let labels: Vec<&str> = sheet.columns.iter().map(|column| column.label.as_str()).collect();
    let at = labels.iter().position(|known| *known == label);
    let at = at.unwrap_or_else(|| panic!("no column {label} in {labels:?}"));
    let rows = sheet.rows.iter().filter(|row| row.iter().zip(keys).all(|(number, key)| number.value == *key));
    rows.map(|row| row[at].value).collect()
}

fn sheet<'a>(study: &'a Study, name: &str) -> &'a Sheet {
    study.sheets.iter().find(|sheet| sheet.name == name).unwrap()
}

#[test]
fn study_scenarios_are_valid_with_separate_folders() {
    let mut plans: BTreeMap<&str, (Source, Settings)> = BTreeMap::new();
    for experiment in EXPERIMENTS.iter() {
        let ExperimentKind::Study(study) = &experiment.shows else { continue };
        for plan in study.plans.0 {
            let what = (plan.plan, plan.settings);
            if let Some(other) = plans.insert(plan.id.0, what) {
                // Several experiments may be made from the same runs.
                assert_eq!(other, what, "{} is two things", plan.id);
                continue;
            }
            // What reads them makes their networks, which takes long.
            if is_long_tier() || plans.len() % 32 == 1 {
                let file = plan.plan.scenario().and_then(|file| file.with_all(plan.settings.0));
                let file = file.unwrap_or_else(|error| panic!("{}: {}: {error}", experiment.id, plan.id));
                assert!(!file.points().is_empty(), "{}", plan.id);
            }
        }
        if let Analysis::AckWait(waits) = &study.analysis {
            let known = |id: &str| study.plans.iter().any(|plan| plan.id.0 == id);
            assert!(waits.conditions.iter().all(|one| known(one.constant.0) && known(one.adaptive.0)));
        }
    }
    assert_eq!(matching("open").len(), 3);
}

#[test]
fn the_best_wait_follows_its_law_whatever_packets_and_windows() {
    if !is_long_or_skipped() {
        return;
    }
    let study = study("open-ack-wait", 15);
    assert_eq!(study.sheets.len(), 5);
    for name in ["msaw-1518", "msaw-64", "mbap-5", "mbap-15"] {
        let sheet = sheet(&study, name);
        assert_eq!(sheet.rows.len(), 14);
        for receivers in [50.0, 200.0, 1000.0] {
            let of = |label: &str| column(sheet, label, &[receivers])[0];
            assert!((1.3..=2.0).contains(&of("best R/(a r)")), "{name}, {receivers}\n{sheet}");
            assert!(of("law: excess %") < 8.0, "{name}, {receivers}\n{sheet}");
            assert!(of("no wait: excess %") > 20.0, "{name}, {receivers}\n{sheet}");
        }
    }
    let law = study.figures.iter().find(|figure| figure.id == "open-ack-wait-waits").unwrap();
    let marks = law.series.iter().map(|series| &series.marks);
    assert_eq!(marks.filter(|marks| matches!(marks, Marks::Points { .. })).count(), 5);
}

#[test]
fn retransmission_study_uses_documented_law_waits() {
    let law = "R = a (1.625 r - 3)";
    assert!(include_str!("../../../docs/explanation/open-questions.md").contains(law));
    let ExperimentKind::Study(study) = &find("open-retransmission").unwrap().shows else {
        panic!("it is a study")
    };
    for plan in study.plans.0 {
        for point in plan.plan.scenario().unwrap().points() {
            let number = |key: &str| {
                let (_, value) = point.0.iter().find(|(name, _)| name == key).unwrap();
                let text = value.as_str().map_or(value.to_string(), str::to_owned);
                text.trim_end_matches(" bit").parse::<f64>().unwrap()
            };
            let wait = 512.0 * (1.625 * number("group.receivers") - 3.0);
            assert_eq!(number("protocol.ack_wait"), wait, "{}{point}", plan.id);
        }
    }
}

#[test]
fn unicast_repeats_pay_when_acknowledgments_dominate() {
    if !is_long_or_skipped() {
        return;
    }
    let study = study("open-retransmission", 40);
    let throughput = sheet(&study, "throughput");
    assert_eq!(throughput.rows.len(), 2 * 5 * 7);
    let of = |label: &str, d: f64, r: f64| column(throughput, label, &[d, r]);
    for r in [2.0, 5.0, 10.0, 20.0, 60.0] {
        // Without loss nothing is repeated by either.
        assert_eq!(of("r d: unicast", 1518.0, r)[0], of("r d: multicast", 1518.0, r)[0]);
        let sum = |label: &str, d: f64| of(label, d, r).iter().sum::<f64>();
        assert!(sum("2250 r: multicast", 1518.0) > sum("2250 r: unicast", 1518.0), "{r}\n{throughput}");
        let quotient = column(sheet(&study, "unicast-to-multicast"), "unicast / multicast", &[64.0, r]);
        assert!((quotient[0] - 1.0).abs() < 0.02, "{quotient:?}");
        let best = |way: &str| sum(&format!("r d: {way}"), 64.0).max(sum(&format!("2250 r: {way}"), 64.0));
        assert!(quotient.iter().sum::<f64>() > 0.98 * 7.0 && best("unicast") > 0.98 * best("multicast"));
        assert!(sum("r d: unicast", 64.0) > 0.98 * sum("r d: multicast", 64.0), "{r}\n{throughput}");
    }
}

#[test]
fn errors_cost_least_where_one_receiver_at_a_time_acknowledges() {
    if !is_long_or_skipped() {
        return;
    }
    let study = study("open-error-tolerance", 60);
    let throughput = sheet(&study, "throughput");
    for receivers in [20.0, 60.0] {
        let of = |label: &str| column(throughput, label, &[receivers]);
        for at in 0..of("rra").len() {
            let [ack, nak, rra] = ["msaw ack", "msaw nak", "rra"].map(|label| of(label)[at]);
            assert!(ack < nak && nak < rra, "{receivers}, row {at}\n{throughput}");
        }
    }
    // The interval is that of the replications: throughput has one sample in each, latencies have many that
    // share their fate, so that all their samples together would seem to say more than they do.
    for sheet in &study.sheets {
        assert!(sheet.rows.iter().flat_map(|row| &row[2..]).all(|number| number.half_width.is_some()));
    }
    let latency = sheet(&study, "delivery-latency").rows[1][2];
    assert!(latency.half_width.unwrap() > 0.02 * latency.value, "{latency:?}");
}

#[test]
fn study_writes_all_findings_to_page_and_files() {
    let study = study("open-error-tolerance", if is_long_tier() { 20 } else { 6 });
    assert_eq!((study.sheets.len(), study.figures.len()), (4, 8));
    for figure in &study.figures {
        // A line and its interval for each of five alternatives.
        assert_eq!(figure.series.len(), 10, "{}", figure.id);
        let json = serde_json::to_string(figure).unwrap();
        assert_eq!(svg(&serde_json::from_str::<Figure>(&json).unwrap()), svg(figure));
    }
    for receivers in [20.0, 60.0] {
        let id = format!("open-error-tolerance-throughput-{receivers}-receivers");
        let figure = study.figures.iter().find(|figure| figure.id == id).unwrap();
        let line = figure.series.iter().find(|series| series.name == "rra").unwrap();
        let Marks::Line { points, .. } = &line.marks else { panic!("means are lines") };
        let throughput = sheet(&study, "throughput");
        let drawn: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
        assert_eq!(drawn, column(throughput, "rra", &[receivers]));
        assert_eq!(points.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [0.0, 0.5, 1.0, 2.0, 5.0]);
    }
    let text = study.to_string();
    for sheet in &study.sheets {
        assert!(text.contains(&sheet.to_string()));
        let mut csv = Vec::new();
        sheet.table().unwrap().to_csv(&mut csv).unwrap();
        assert_eq!(String::from_utf8(csv).unwrap().lines().count(), 1 + sheet.rows.len());
    }
    let mut page = Page::new("All");
    page.add(find("open-error-tolerance").unwrap(), &Outcome::Study(study));
    let html = page.html();
    // Four sheets, and the table of sources.
    assert_eq!((html.matches("<svg").count(), html.matches("<table>").count()), (8, 5));
    assert!(html.contains("id=\"open-error-tolerance\"") && html.contains("msaw nak"));
}
