//! The report on a result folder: what it states, draws and refuses.

use std::path::Path;

use carillon_lab::report::{FolderReport, Page, SourceTally};
use carillon_lab::reproduce::{Laboratory, Options, find};
use carillon_lab::results::{Contents, Existing, SweepOptions, run_into};
use carillon_lab::scenario::ScenarioFile;

const SWEEP: &str = r#"name = "two <protocols>"
[network]
kind = "lan"
[loss]
model = "bernoulli"
p = 0.05
[group]
receivers = 2
[protocol]
name = "msaw"
[workload]
messages = 30
message_bytes = 1000
[run]
replications = 3
[sweep]
"protocol.name" = ["msaw", "mbap"]
"group.receivers" = [2, 4]
"#;

fn run(text: &str, dir: &Path) {
    let options = SweepOptions {
        contents: Contents::default(),
        existing: Existing::Replace,
        threads: 2.into(),
        testbed: None,
        shared: None,
        stop: &|| false,
        progress: &|_| {},
    };
    run_into(&ScenarioFile::parse("sweep.toml", text).unwrap(), dir, &options).unwrap();
}

#[test]
fn report_states_run_tables_plots_and_repetition() {
    let dir = tempfile::tempdir().unwrap();
    run(SWEEP, dir.path());
    let html = FolderReport::read(dir.path()).unwrap().html();
    let manifest = std::fs::read_to_string(dir.path().join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    for fact in ["scenario_hash", "version"] {
        assert!(html.contains(manifest[fact].as_str().unwrap()), "{fact}");
    }
    assert!(html.contains("two &lt;protocols&gt;") && !html.contains("<protocols>"));
    assert!(html.contains("<th>Runs</th><td>12</td>") && html.contains("carillon run two--protocols-.toml"));
    // A metric that varies has a plot with intervals and a table with a row for each point.
    let section = html.split("<section id=\"").find(|part| part.starts_with("message_latency_s")).unwrap();
    assert_eq!((section.matches("<svg").count(), section.matches("<tr>").count()), (1, 5));
    assert!(section.contains("<th>msaw</th><th>2</th>") && section.contains("<td>3</td><td>90</td>"));
    // Nothing comes from elsewhere.
    assert!(
        !html.contains("http://")
            || html.matches("http://").count() == html.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!html.contains("<script") && !html.contains("<link"));
    // The page has the scenario: it runs to the same results.
    let scenario = html.rsplit_once("<pre>").unwrap().1.split_once("</pre>").unwrap().0;
    let scenario = scenario.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    let other = tempfile::tempdir().unwrap();
    run(&scenario, other.path());
    let summary = |dir: &Path| std::fs::read_to_string(dir.join("summary.csv")).unwrap();
    assert!(summary(dir.path()) == summary(other.path()), "{scenario}");
}

#[test]
fn report_compares_a_repeated_table_with_its_published_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = find("segovia-4.1").unwrap();
    let mut laboratory = Laboratory::new(Options {
        jobs: 2,
        seed: None,
        messages: Some(200),
        testbed: None,
        out: dir.path(),
        samples: true,
        existing: Existing::Keep,
        stop: &|| false,
        progress: &|_| {},
    });
    let outcome = laboratory.reproduce(experiment).unwrap();
    let html = FolderReport::read(&dir.path().join("segovia-4.1")).unwrap().html();
    let section = html.split("<section id=\"").find(|part| part.starts_with("published")).unwrap();
    // The same table as on the page of the experiment, and figures 4.3 and 4.4.
    let mut page = Page::new("One");
    page.add(experiment, &outcome);
    let page_html = page.html();
    let body =
        |html: &str| html.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0.to_owned();
    let own = page_html.split("<section id=\"").find(|part| part.starts_with("segovia-4.1")).unwrap();
    assert_eq!(body(section), body(own));
    assert_eq!(section.matches("<svg").count(), 2);
    assert!(html.contains("carillon reproduce segovia-4.1"));
    let [tally] = page.sources().tallies() else { panic!("one source: {:?}", page.sources()) };
    let SourceTally { source, tables, numbers, .. } = tally;
    // 24 means and 24 bounds.
    assert_eq!((*source, *tables, numbers.all()), ("Segovia 1996", 1, 48));
    // Stored counts are of whole sources, and this is one table of one.
    assert!(page.sources().changes().is_empty());
    assert_eq!(page.sources().counts_csv().unwrap(), b"");
    assert!(numbers.hold >= 24 && page_html.contains("of 48 published numbers hold"), "{tally}");
}

#[test]
fn folders_without_results_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let error = |dir: &Path| FolderReport::read(dir).unwrap_err().to_string();
    assert!(error(dir.path()).contains("summary.csv"), "{}", error(dir.path()));
    std::fs::write(dir.path().join("index.html"), "").unwrap();
    assert!(error(dir.path()).contains("several experiments"), "{}", error(dir.path()));
    run(SWEEP, dir.path());
    for damaged in ["", "{}", "[1, 2", "{\"name\": 7}", "\u{0}"] {
        std::fs::write(dir.path().join("manifest.json"), damaged).unwrap();
        let error = error(dir.path());
        assert!(
            error.contains("manifest.json: ") && error.contains("carillon run FILE --out DIR"),
            "{error}"
        );
    }
    std::fs::remove_file(dir.path().join("manifest.json")).unwrap();
    assert!(error(dir.path()).contains("cannot read it"), "{}", error(dir.path()));
}
