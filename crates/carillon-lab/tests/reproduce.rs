//! The shipped experiments: well formed, and in agreement with their published numbers. The full
//! runs are `carillon reproduce`; here each has a part of their packets.

use std::path::Path;

use carillon_lab::plan::Plan;
use carillon_lab::plot::{Figure, Marks, svg};
use carillon_lab::report::Page;
use carillon_lab::reproduce::{
    Comparison, EXPERIMENTS, ExperimentKind, Laboratory, Options, Outcome, Verdict, find, matching,
};
use carillon_lab::results::Existing;

fn laboratory(messages: u64, out: &Path) -> Laboratory<'_> {
    Laboratory::new(Options {
        jobs: 2,
        seed: None,
        messages: Some(messages),
        testbed: None,
        out,
        samples: true,
        existing: Existing::Keep,
        stop: &|| false,
        progress: &|_| {},
    })
}

fn table(laboratory: &mut Laboratory<'_>, id: &str) -> Comparison {
    match laboratory.reproduce(find(id).unwrap()).unwrap() {
        Outcome::Table(comparison) => comparison,
        other => panic!("{id} is no table: {other:?}"),
    }
}

#[test]
fn shipped_scenarios_are_valid_and_named_by_experiment() {
    for experiment in EXPERIMENTS.iter() {
        let ExperimentKind::Table(table) = &experiment.shows else { continue };
        let file = table.plan.scenario().unwrap();
        assert_eq!(file.name(), experiment.id);
        assert!(!Plan::new(&file).unwrap().runs.is_empty());
    }
}

#[test]
fn a_source_stands_for_all_its_tables_and_figures() {
    let ids: Vec<&str> = matching("segovia").iter().map(|experiment| experiment.id).collect();
    for number in 1..=13 {
        assert!(ids.contains(&format!("segovia-4.{number}").as_str()), "table 4.{number}");
    }
    for number in 1..=19 {
        assert!(ids.contains(&format!("segovia-fig-4.{number}").as_str()), "figure 4.{number}");
    }
    // Of the six tables under errors the plain reading too, and of five without published numbers both side by side.
    assert_eq!(ids.len(), 13 + 19 + 6 + 5);
    assert_eq!(matching("segovia-4.1").len(), 1);
    assert!(matching("segovia-4").is_empty());
}

#[test]
fn published_means_lie_within_their_bounds() {
    let dir = tempfile::tempdir().unwrap();
    // Of few packets the means scatter more.
    let (messages, slack) = if carillon_testkit::is_long_tier() { (1500, 1.5) } else { (500, 2.5) };
    let mut laboratory = laboratory(messages, dir.path());
    // All of them in the long tier.
    let (mine, others) = (["4.1"], ["4.2", "4.3", "4.4", "4.5", "4.6"]);
    let others = others.into_iter().filter(|_| carillon_testkit::is_long_tier());
    for id in mine.into_iter().chain(others) {
        let comparison = table(&mut laboratory, &format!("segovia-{id}"));
        assert!(comparison.published_cells().count() >= 3, "{id}");
        // Part of the packets: the simulated means scatter too, so the bounds are wider.
        let wider = slack * comparison.tolerance;
        let far = |cell: &&carillon_lab::reproduce::PublishedCell| {
            cell.verdict != Verdict::SamplingError && cell.difference.is_none_or(|gap| gap.abs() > wider)
        };
        assert_eq!(comparison.published_cells().filter(far).count(), 0, "\n{comparison}");
        let mut bounds = comparison.cells().filter_map(|cell| cell.bound.as_ref());
        assert!(bounds.all(|bound| bound.agrees), "\n{comparison}");
        assert!(comparison.unicast_deviation.is_none_or(|deviation| deviation < 1e-9));
    }
}

#[test]
fn a_known_deviation_is_shown_with_its_reason_and_fails_nothing() {
    let comparison = table(&mut laboratory(100, tempfile::tempdir().unwrap().path()), "segovia-4.8-plain");
    assert!(comparison.count(Verdict::ExpectedDeviation) > 10, "\n{comparison}");
    assert!(comparison.holds(), "\n{comparison}");
    assert!(comparison.to_string().contains("NO, known"));
    let reason = comparison.expected_deviation.unwrap();
    assert!(comparison.to_string().contains(reason));
}

#[test]
fn table_without_published_numbers_has_no_such_column() {
    let comparison = table(&mut laboratory(30, tempfile::tempdir().unwrap().path()), "segovia-4.9");
    assert_eq!(comparison.published_cells().count(), 0);
    let text = comparison.to_string();
    assert!(text.contains("No published numbers are at hand"), "{text}");
    assert_eq!(comparison.headings(0), ["mean", "min", "max"]);
}

#[test]
fn every_table_and_figure_is_made_and_stands_on_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut laboratory = laboratory(if carillon_testkit::is_long_tier() { 30 } else { 5 }, dir.path());
    let mut page = Page::new("All");
    let segovia = matching("segovia");
    for experiment in &segovia {
        let outcome = laboratory.reproduce(experiment).unwrap();
        match &outcome {
            Outcome::Table(comparison) => {
                assert!(comparison.rows.len() >= 12, "{}", experiment.id);
                assert!(comparison.cells().all(|cell| cell.value.is_finite()), "{}", experiment.id);
            }
            Outcome::Figure(figure) => {
                assert!(figure.series.len() >= 2, "{}", experiment.id);
                let json = serde_json::to_string(figure).unwrap();
                assert_eq!(svg(&serde_json::from_str::<Figure>(&json).unwrap()), svg(figure));
            }
            Outcome::Study(study) => {
                assert!(study.id.ends_with("-readings"), "{} publishes numbers", study.id);
            }
        }
        page.add(experiment, &outcome);
    }
    let html = page.html();
    assert!(segovia.iter().all(|experiment| html.contains(&format!("id=\"{}\"", experiment.id))));
    // Each of the five studies draws a figure for each of three windows.
    assert_eq!(html.matches("<svg").count(), 19 + 5 * 3);
    assert!(!html.contains("src=") && !html.contains("@import"), "self-contained");
}

#[test]
fn a_published_mean_shows_to_which_of_several_curves_it_belongs() {
    let dir = tempfile::tempdir().unwrap();
    let mut laboratory = laboratory(30, dir.path());
    let Outcome::Figure(figure) = laboratory.reproduce(find("segovia-fig-4.11").unwrap()).unwrap() else {
        panic!("it is a figure");
    };
    // Table 4.1 is whole; of Table 4.3 two values each of waits 12000 and 32000 are at hand.
    let mut published = Vec::new();
    for series in &figure.series {
        let Marks::Points { points, marker } = &series.marks else { continue };
        let curve = figure.series.iter().find_map(|other| match &other.marks {
            Marks::Line { marker: Some(marker), .. } if other.colour == series.colour => {
                Some((other.name.as_str(), *marker))
            }
            _ => None,
        });
        let (name, filled) = curve.expect("a curve of its colour");
        assert_eq!(*marker, filled.outline());
        published.push((name, points.len()));
    }
    assert_eq!(published, [("SAWrand 0", 12), ("SAWrand 12000", 2), ("SAWrand 32000", 2)]);
    let in_legend = |marks: fn(&Marks) -> bool| {
        figure.series.iter().filter(|series| marks(&series.marks) && !series.name.is_empty()).count()
    };
    assert_eq!(in_legend(|marks| matches!(marks, Marks::Points { .. })), 1);
    assert_eq!(in_legend(|marks| matches!(marks, Marks::Band { .. })), 1);
}
