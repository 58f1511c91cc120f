//! Figures of result folders: drawn values, captions and errors.

use std::path::Path;

use carillon_lab::plot::{Figure, Folder, Intervals, Marks, PlotSpec, figures, panels_svg};
use carillon_lab::results::{Contents, Existing, SweepOptions, run_into};
use carillon_lab::scenario::ScenarioFile;

const HEAD: &str = "n,mean,sd,min,p25,p50,p75,p95,max,ci95_low,ci95_high";

fn folder(keys: &str, rows: &[&str]) -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{keys},metric,{HEAD}\n{}\n", rows.join("\n"));
    std::fs::write(dir.path().join("summary.csv"), text).unwrap();
    // Two runs with half the samples each, or one with the only sample.
    let mut runs = format!("{keys},replication,metric,n,mean\n");
    for row in rows {
        let cells: Vec<&str> = row.split(',').collect();
        let (point, own) = cells.split_at(keys.split(',').count());
        let n: u64 = own[1].parse().unwrap();
        let mean: f64 = own[2].parse().unwrap_or(f64::NAN);
        let of_runs = if n > 1 { vec![mean - 0.01, mean + 0.01] } else { vec![mean; n as usize] };
        for (run, mean) in of_runs.iter().enumerate() {
            runs += &format!("{},{run},{},{},{mean}\n", point.join(","), own[0], n / of_runs.len() as u64);
        }
    }
    std::fs::write(dir.path().join("runs.csv"), runs).unwrap();
    let folder = Folder::read(dir.path()).unwrap();
    (dir, folder)
}

fn spec(y: &str) -> PlotSpec {
    PlotSpec { y: y.into(), ..PlotSpec::default() }
}

fn only(figures: Vec<Figure>) -> Figure {
    let [figure] = <[Figure; 1]>::try_from(figures).unwrap();
    figure
}

const ROWS: &[&str] = &[
    "20,msaw,latency_s,10,2,,1,1.5,1.9,2.5,,3,1.8,2.2",
    "10,msaw,latency_s,10,1,,0.5,0.8,0.9,1.1,,2,0.9,1.1",
    "10,mbap,latency_s,12,3,,2,2.5,2.9,3.5,,4,2.8,3.2",
    "20,mbap,latency_s,1,4,,4,4,4,4,,4,,",
    "20,mbap,absent,0,,,,,,,,,,",
];

#[test]
fn numbers_are_joined_by_lines_in_their_order_and_names_are_not() {
    let (_dir, folder) = folder("group.receivers,protocol.name", ROWS);
    let folders = [folder];
    let figure = only(figures(&folders, &spec("latency_s")).unwrap());
    assert_eq!((figure.x.label.as_str(), figure.y.unit.as_deref()), ("Receivers", Some("s")));
    let lines: Vec<_> = figure
        .series
        .iter()
        .filter_map(|series| match &series.marks {
            Marks::Line { points, .. } => Some((series.name.as_str(), points.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(lines, [("msaw", vec![(10.0, 1.0), (20.0, 2.0)]), ("mbap", vec![(10.0, 3.0), (20.0, 4.0)])]);
    let bars: usize = figure
        .series
        .iter()
        .map(|series| match &series.marks {
            Marks::Whiskers { points } => points.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(bars, 3, "one run has no interval");
    let caption = figure.notes.join("\n");
    assert!(caption.contains("95 % confidence") && caption.contains("n = 1 to 2 at"), "{caption}");
    assert!(caption.contains("1 of 4 points have one run only"), "{caption}");

    let names = PlotSpec { x: Some("protocol.name".into()), ..spec("latency_s") };
    let figure = only(figures(&folders, &names).unwrap());
    assert_eq!(figure.x.categories, ["msaw", "mbap"]);
    assert!(figure.series.iter().all(|series| !matches!(series.marks, Marks::Line { .. })));
    assert!(panels_svg(&[figure]).contains(">mbap</text>"));
}

#[test]
fn the_means_of_runs_can_be_the_samples() {
    let (dir, _) = folder(
        "group.receivers",
        &["10,latency_s,900,2,,1,1,2,3,,3,1.99,2.01", "20,latency_s,300,5,,,,,,,,,"],
    );
    std::fs::remove_file(dir.path().join("runs.csv")).unwrap();
    let figure = only(figures(&[Folder::read(dir.path()).unwrap()], &spec("latency_s")).unwrap());
    let bars =
        |figure: &Figure| figure.series.iter().any(|series| matches!(series.marks, Marks::Whiskers { .. }));
    assert!(!bars(&figure), "an interval of samples is none");
    let caption = figure.notes.join("\n");
    assert!(caption.contains("2 of 2 points are of a folder without runs.csv, so no interval"), "{caption}");
    let refused = Folder::read_runs(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("runs.csv"), "{refused}");
    // Of a metric with that name there is another one, and a run that has no sample.
    let runs =
        "10,0,latency_s,600,1\n10,1,latency_s,300,3\n10,2,latency_s,0,\n10,0,other,1,9\n20,0,latency_s,300,5";
    let runs = format!("group.receivers,replication,metric,n,mean\n{runs}\n");
    std::fs::write(dir.path().join("runs.csv"), runs).unwrap();

    let of_samples = only(figures(&[Folder::read(dir.path()).unwrap()], &spec("latency_s")).unwrap());
    let figure = only(figures(&[Folder::read_runs(dir.path()).unwrap()], &spec("latency_s")).unwrap());
    assert_eq!(of_samples, figure, "an interval is one over the runs either way");
    let [bars, line] = &figure.series[..] else { panic!("{:?}", figure.series) };
    let Marks::Whiskers { points } = &bars.marks else { panic!("{bars:?}") };
    let [(x, low, high)] = points[..] else { panic!("one run has no interval: {points:?}") };
    // Of two, t is 12.706, and the standard error 1.
    assert!(x == 10.0 && (low + 10.706).abs() < 0.001 && (high - 14.706).abs() < 0.001, "{points:?}");
    let Marks::Line { points, .. } = &line.marks else { panic!("{line:?}") };
    assert_eq!(*points, [(10.0, 2.0), (20.0, 5.0)]);
    let caption = figure.notes.join("\n");
    assert!(caption.contains("over the means of runs") && caption.contains("n = 1 to 2"), "{caption}");
}

#[test]
fn a_panel_for_each_value_has_the_axes_of_all() {
    let (_dir, folder) = folder("group.receivers,protocol.name", ROWS);
    let facets =
        PlotSpec { facets: Some("protocol.name".into()), intervals: Intervals::Range, ..spec("latency_s") };
    let panels = figures(&[folder], &facets).unwrap();
    assert_eq!(panels.len(), 2);
    assert_eq!(panels[0].y.range, Some((0.5, 4.0)));
    assert_eq!((panels[0].x.range, panels[0].y.range), (panels[1].x.range, panels[1].y.range));
    assert_eq!(panels_svg(&panels).matches("<svg").count(), 3);
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let (_dir, folder) = folder("group.receivers,protocol.name", ROWS);
    let folders = [folder];
    let refused = |spec: &PlotSpec| figures(&folders, spec).unwrap_err().to_string();
    assert_eq!(refused(&spec("")), "give --y METRIC; there are latency_s, absent");
    assert!(refused(&spec("absent")).contains("has no samples"));
    let x = PlotSpec { x: Some("loss".into()), ..spec("latency_s") };
    assert!(refused(&x).contains("--x loss: no such column; there are group.receivers, protocol.name"));
    let one = PlotSpec { only: vec![("protocol.name".into(), "srm".into())], ..spec("latency_s") };
    assert_eq!(refused(&one), "--where protocol.name=srm: no such value; there are msaw, mbap");
    let few = PlotSpec { series: Some(Vec::new()), ..spec("latency_s") };
    assert!(refused(&few).contains("protocol.name (msaw, mbap)"), "{}", refused(&few));
    assert!(Folder::read(Path::new("/nowhere")).unwrap_err().to_string().contains("summary.csv"));
}

#[test]
fn keys_that_change_together_make_no_series() {
    let rows = ["10,512 bit,x,2,1,,1,1,1,1,,1,1,1", "20,1024 bit,x,2,2,,1,1,1,1,,1,1,1"];
    let (_dir, folder) = folder("group.receivers,protocol.ack_wait", &rows);
    let folders = [folder];
    let figure = only(figures(&folders, &spec("x")).unwrap());
    assert_eq!(figure.series.iter().filter(|series| matches!(series.marks, Marks::Line { .. })).count(), 1);
    let waits = PlotSpec { x: Some("protocol.ack_wait".into()), ..spec("x") };
    let figure = only(figures(&folders, &waits).unwrap());
    assert_eq!((figure.x.label.as_str(), figure.x.unit.as_deref()), ("Ack wait", Some("bit")));
}

/// The folder of a few messages of Table 4.1, with some settings.
fn table_4_1(settings: &[(&str, &str)]) -> Figure {
    let text = include_str!("../../../experiments/plans/segovia-4.1.toml");
    let file = ScenarioFile::parse("segovia-4.1", text).unwrap();
    let file = file.with_all(&[&[("workload.messages", "5")], settings].concat()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = SweepOptions {
        contents: Contents::default(),
        existing: Existing::Keep,
        threads: 1.into(),
        testbed: None,
        shared: None,
        stop: &|| false,
        progress: &|_| {},
    };
    run_into(&file, dir.path(), &options).unwrap();
    only(figures(&[Folder::read(dir.path()).unwrap()], &spec("relative_throughput")).unwrap())
}

#[test]
fn published_means_appear_only_beside_repeated_tables() {
    let published = |figure: &Figure| {
        figure.series.iter().find_map(|series| match &series.marks {
            Marks::Points { points, .. } if series.name.contains("published") => Some(points.clone()),
            _ => None,
        })
    };
    let figure = table_4_1(&[]);
    let points = published(&figure).unwrap();
    assert_eq!((points.len(), points[0]), (12, (5.0, 3.504)));
    assert!(figure.notes[0].contains("Segovia 1996, Table 4.1"), "{:?}", figure.notes);
    assert_eq!(published(&table_4_1(&[("loss.model", "bernoulli"), ("loss.p", "0.01")])), None);
}
