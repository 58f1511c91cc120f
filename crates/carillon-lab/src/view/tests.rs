use std::io::Write as _;
use std::path::PathBuf;

use carillon_core::{Event, NodeId, Observer as _, Time};
use carillon_proto::REGISTRY;
use carillon_run::trace::recording::RecordingHeader;

use super::*;
use crate::scenario::InputContents;
use crate::trace::TraceFile;

const TEXT: &str = "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"binary-tree\"\nheight = 2\n\
    [loss]\nmodel = \"bernoulli\"\np = 0.05\n[protocol]\nname = \"lms\"\n[workload]\nmessages = 20\nmessage_bytes = 500\n";

fn header(view: &View) -> (RecordingHeader, serde_json::Value) {
    let length = u32::from_le_bytes(view.recording[8..12].try_into().unwrap()) as usize;
    let json = serde_json::from_slice(&view.recording[12..12 + length]).unwrap();
    (recording::check(&view.recording).unwrap(), json)
}

/// Traces of one run in all formats, in a folder.
fn traces(folder: &Path) -> usize {
    let file = ScenarioFile::parse("x.toml", TEXT).unwrap();
    let run = &Plan::new(&file).unwrap().runs[0];
    for extension in ["carr", "jsonl", "pcapng"] {
        let mut trace =
            TraceFile::of_run(&folder.join("run").with_extension(extension), &run.scenario).unwrap();
        crate::run::run_one(run, &mut trace).unwrap();
        trace.finish().unwrap();
    }
    std::fs::read_to_string(folder.join("run.jsonl")).unwrap().lines().count()
}

#[test]
fn traces_of_each_format_become_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let events = traces(folder.path());
    let of = |name: &str, limit| View::of_trace(&folder.path().join(name), None, limit).unwrap();
    for name in ["run.carr", "run.jsonl"] {
        let (read, json) = header(&of(name, 100_000));
        assert_eq!(read.count, events as u64, "{name}");
        assert_eq!((&json["protocol"], &json["network"]["kind"]), (&"lms".into(), &"graph".into()), "{name}");
        let kinds: std::collections::BTreeSet<&str> =
            json["packets"].as_array().unwrap().iter().filter_map(|packet| packet["kind"].as_str()).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["control", "data", "repair", "request"], "{name}");
    }
    let (read, json) = header(&of("run.pcapng", 100_000));
    assert!(read.count > 50 && read.count < events as u64);
    assert_eq!((&json["protocol"], &json["network"]["kind"]), (&"lms".into(), &"real".into()));
    assert_eq!(json["network"]["nodes"][0]["name"], "10.0.0.1");
    for name in ["run.jsonl", "run.pcapng"] {
        let part = of(name, 7);
        assert_eq!((header(&part).0.count, part.truncated), (7, true), "{name}");
    }
    let pgm = carillon_proto::find("pgm");
    let named = View::of_trace(&folder.path().join("run.jsonl"), pgm, 10).unwrap();
    assert_eq!(header(&named).1["protocol"], "pgm");
}

#[test]
fn scenario_is_run_once_and_kept_for_the_page() {
    let text = format!("{TEXT}[run]\nreplications = 9\nseed = 5\n");
    let view =
        View::of_scenario(&ScenarioFile::parse("x.toml", &text).unwrap(), 1_000_000, &|| false).unwrap();
    let (read, json) = header(&view);
    assert!(!view.truncated && read.count > 100);
    assert_eq!(json["seed"], 5);
    assert!(json["metrics"].as_array().unwrap().len() > 3);
    // The kept scenario is the same run.
    let kept = view.scenario.unwrap();
    let again = ScenarioFile::parse("kept.toml", &kept).unwrap();
    let again = View::of_scenario(&again, 1_000_000, &|| false).unwrap();
    assert_eq!(again.recording, view.recording);

    let sweep = ScenarioFile::parse("x.toml", &format!("{TEXT}[sweep]\n\"loss.p\" = [0.0, 0.1]\n")).unwrap();
    let error = View::of_scenario(&sweep, 10, &|| false).unwrap_err().to_string();
    assert!(error.contains("2 sweep points") && error.contains("--set loss.p=VALUE"), "{error}");
    let stopped = View::of_scenario(&ScenarioFile::parse("x.toml", TEXT).unwrap(), 10, &|| true).map(|_| ());
    assert!(stopped.is_ok() || matches!(stopped, Err(ViewError::Stopped)));
}

#[test]
fn topologies_of_a_scenario_travel_with_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.edges"), "0 1 10\n1 2 5\n").unwrap();
    std::fs::write(folder.path().join("my.roles"), "nodes 3\nsource 0\nreceiver 2\n").unwrap();
    let text = TEXT.replace("\"binary-tree\"\nheight = 2", "\"my.edges\"");
    let files = crate::inputs::in_folder(folder.path().into(), InputContents::new());
    let file = ScenarioFile::parse_with("x.toml", &text, files, REGISTRY).unwrap();
    let view = View::of_scenario(&file, 100, &|| false).unwrap();
    let (read, _) = header(&view);
    assert_eq!(read.files["my.edges"], "0 1 10\n1 2 5\n");
}

#[test]
fn page_holds_the_recording_and_no_early_end_of_script() {
    let view = View { recording: vec![7; 1000], scenario: Some("# </script>".to_owned()), truncated: false };
    let mut page = Vec::new();
    write_page("<html>\n<!-- carillon-data -->\n</html>\n", &view, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let start = "<html>\n<script id=\"carillon-data\" type=\"application/json\">";
    let data = page.strip_prefix(start).unwrap().strip_suffix("</script>\n</html>\n").unwrap();
    assert!(!data.contains('<'));
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["scenario"], "# </script>");
    use base64::Engine as _;
    let compressed = base64::prelude::BASE64_STANDARD.decode(data["recording"].as_str().unwrap()).unwrap();
    assert_eq!(miniz_oxide::inflate::decompress_to_vec(&compressed).unwrap(), view.recording);
    let error = write_page("<html></html>", &view, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("make page"), "{error}");
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        let error = View::of_trace(&path, None, 100).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        error
    };
    assert!(refused("a.carr", b"CARX").contains("first bytes"));
    assert!(refused("a.txt", b"").contains(".carr, .jsonl or .pcapng"));
    assert!(refused("a.jsonl", b"{\"time_ns\":1}\n").contains(", line 1: no event"));
    assert!(refused("b.jsonl", b"\xff\n").contains("line 1 is not UTF-8"));
    assert!(refused("c.jsonl", &vec![b'x'; 2 << 20]).contains("line 1 has more than 1024 KiB"));
    assert!(refused("a.pcapng", b"no capture").contains("no packet capture"));
    traces(folder.path());
    // Each prefix of a capture is refused or read, and never a panic.
    let capture = std::fs::read(folder.path().join("run.pcapng")).unwrap();
    let path = folder.path().join("part.pcapng");
    for length in (0..capture.len().min(3000)).step_by(7) {
        std::fs::write(&path, &capture[..length]).unwrap();
        let _ = View::of_trace(&path, None, 100);
    }
}

/// The recording of a run that is not simulated has its events only.
#[test]
fn real_traces_have_no_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("received.jsonl");
    let mut trace = TraceFile::create(&path, crate::trace::CaptureOptions::default()).unwrap();
    let (message, source) = (carillon_core::MessageId(3), NodeId(0));
    trace.event(Time::from_nanos(5), NodeId(1), &Event::Received { packet: "odata", message });
    trace.event(Time::from_nanos(6), NodeId(1), &Event::Delivered { source, message });
    trace.finish().unwrap();
    let (read, json) = header(&View::of_trace(&path, None, 100).unwrap());
    assert_eq!((read.count, &json["network"]["kind"]), (2, &"real".into()));
    assert_eq!(json["network"]["nodes"][0]["role"], "receiver");
    assert_eq!(json["protocol"], "pgm");
}

#[test]
fn recordings_and_nam_need_a_simulated_run() {
    for extension in ["carr", "nam"] {
        let path = PathBuf::from("x").with_extension(extension);
        let error =
            TraceFile::create(&path, crate::trace::CaptureOptions::default()).unwrap_err().to_string();
        assert!(error.contains("carillon run") && error.contains(".jsonl"), "{error}");
    }
}
