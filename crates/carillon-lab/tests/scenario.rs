//! Scenario files: resolved values, and errors.

use carillon_lab::metrics::without_latency;
use carillon_lab::plan::Plan;
use carillon_lab::scenario::ScenarioFile;

const VALID_SCENARIO: &str = r#"name = "test"

[network]
kind = "lan"
bit_rate = "10 Mbit/s"

[loss]
model = "bernoulli"
p = "1 %"

[group]
receivers = 20

[protocol]
name = "msaw"
ack_wait = "6000 bit"

[workload]
messages = 500
message_bytes = 1518

[run]
replications = 2
seed = 7
"#;

fn error(text: &str) -> String {
    let error = ScenarioFile::parse("test.toml", text).expect_err("the scenario is wrong").to_string();
    assert!(!error.contains('\n'), "an error is one line: {error}");
    error
}

fn replaced(from: &str, to: &str) -> String {
    assert!(VALID_SCENARIO.contains(from));
    error(&VALID_SCENARIO.replace(from, to))
}

#[test]
fn a_scenario_resolves_to_what_it_says() {
    let file = ScenarioFile::parse("test.toml", VALID_SCENARIO).unwrap();
    let plan = Plan::new(&file).unwrap();
    assert_eq!((plan.points.len(), plan.runs.len(), file.seed()), (1, 2, 7));
    let scenario = &plan.runs[0].scenario;
    assert_eq!((scenario.receivers, scenario.workload.messages), (20, 500));
    assert_eq!(scenario.network.lan().unwrap().loss.value(), 0.01);
    assert_eq!(scenario.config.span("ack_wait").to_string(), "6000 bit");
    // Keys that are not given have their defaults.
    assert_eq!(scenario.config.count("retransmission_limit"), 10);
    assert_ne!(plan.runs[0].seeds, plan.runs[1].seeds);
}

/// The reason is known from the scenario before any run.
#[test]
fn run_above_ten_million_deliveries_explains_no_latency() {
    let reason = |messages: u64| {
        let text = VALID_SCENARIO.replace("messages = 500", &format!("messages = {messages}"));
        let file = ScenarioFile::parse("test.toml", &text).unwrap();
        without_latency(&Plan::new(&file).unwrap().runs[0].scenario)
    };
    // Each message reaches 20 receivers.
    assert_eq!(reason(500_000), None, "10 million are not too many");
    let said = reason(500_001).expect("they are too many");
    assert!(said.contains("more than 10 million deliveries"), "{said}");
}

#[test]
fn errors_name_file_line_key_and_valid_values() {
    assert_eq!(
        replaced("receivers = 20", "recievers = 20"),
        "test.toml:12: `recievers`: unknown field `recievers`, expected one of `receivers`, `senders`, `helpers`, `helpers_if_any`, `helper_dies`, `death_told`, `tree`"
    );
    assert_eq!(
        replaced("\"10 Mbit/s\"", "\"10 Mbyte\""),
        "test.toml:5: `bit_rate`: \"10 Mbyte\" is not a bit rate above zero with its unit, such as \"10 Mbit/s\""
    );
    let known: Vec<_> = carillon_proto::REGISTRY.iter().map(|entry| entry.name).collect();
    assert_eq!(
        replaced("\"msaw\"", "\"msow\""),
        format!("test.toml:15: `protocol.name` \"msow\" is no known protocol; known: {}", known.join(", "))
    );
    assert!(replaced("ack_wait = \"6000 bit\"", "ack_weight = 3").starts_with(
        "test.toml:16: `protocol.ack_weight` unknown parameter `ack_weight`; valid are: retransmission,"
    ));
    assert_eq!(
        replaced("\"6000 bit\"", "6000"),
        "test.toml:16: `protocol.ack_wait` `ack_wait = 6000`: expected a span of time such as \"20 ms\" or \"6000 bit\""
    );
    assert_eq!(
        replaced("message_bytes = 1518", "message_bytes = 63"),
        "test.toml:20: `workload.message_bytes` is 63: a frame on a lan has 64 to 9018 bytes, headers included"
    );
    assert_eq!(
        replaced("receivers = 20", "receivers = 0"),
        "test.toml:12: `group.receivers` is 0: give 1 to 10000000"
    );
    assert!(replaced("kind = \"lan\"", "kind = \"token-ring\"").contains("token-ring"));
    assert!(replaced("p = \"1 %\"", "p = 1.5").contains("a probability: a number from 0 to 1"));
    assert!(replaced("messages = 500\n", "").contains("messages"));
    assert!(error("name = ").starts_with("test.toml:1: "));
}

#[test]
fn sweeps_are_the_cross_product_with_the_last_axis_fastest() {
    let text = format!(
        "{VALID_SCENARIO}[sweep]\n\"group.receivers\" = {{ from = 5, to = 15, step = 5 }}\n\"loss.p\" = [0, 0.01]\n"
    );
    let file = ScenarioFile::parse("test.toml", &text).unwrap();
    let points: Vec<String> = file.points().iter().map(ToString::to_string).collect();
    assert_eq!(points.len(), 6);
    assert_eq!(points[0], " at group.receivers = 5, loss.p = 0");
    assert_eq!(points[1], " at group.receivers = 5, loss.p = 0.01");
    assert_eq!(points[5], " at group.receivers = 15, loss.p = 0.01");
    // Setting a swept key by hand ends its sweep.
    assert_eq!(file.with("group.receivers", "9").unwrap().points().len(), 2);
}

#[test]
fn keys_may_be_swept_together() {
    let axis =
        "[sweep]\n\"group.receivers, protocol.timeout\" = [[20, \"45000 bit\"], [40, \"90000 bit\"]]\n";
    let file = ScenarioFile::parse("test.toml", &format!("{VALID_SCENARIO}{axis}")).unwrap();
    let plan = Plan::new(&file).unwrap();
    let seen: Vec<_> = plan
        .runs
        .iter()
        .map(|run| (run.scenario.receivers, run.scenario.config.span("timeout").to_string()))
        .collect();
    assert_eq!(seen[0], (20, "45000 bit".into()));
    assert_eq!(seen[2], (40, "90000 bit".into()));
    assert!(file.with("group.receivers", "9").unwrap_err().to_string().contains("swept together"));
}

#[test]
fn decimal_steps_stay_what_they_look_like() {
    let text = format!("{VALID_SCENARIO}[sweep]\n\"loss.p\" = {{ from = 0.0, to = 0.3, step = 0.1 }}\n");
    let file = ScenarioFile::parse("test.toml", &text).unwrap();
    let last = file.points().pop().unwrap();
    assert_eq!(last.to_string(), " at loss.p = 0.3");
}

#[test]
fn wrong_sweeps_are_refused() {
    for (axis, expected) in [
        ("\"receivers\" = [1]", "is no key of a section"),
        ("\"group.receivers\" = []", "has no values"),
        ("\"group.receivers\" = 5", "is neither a list of values nor a range"),
        ("\"group.receivers\" = { from = 1, to = 9 }", "is no range"),
        ("\"group.receivers\" = { from = 9, to = 1, step = 1 }", "is no range"),
        ("\"group.receivers\" = { from = 1, to = 9, step = 0 }", "is no range"),
        ("\"group.receivers\" = { from = 1, to = 9000000000000000000, step = 1 }", "is no range"),
        ("\"group.receivers, loss.p\" = [[1, 0.5], [2]]", "names several keys"),
        ("\"group.receivers\" = [[1]]", "has a value that is no number"),
        ("\"group.sources\" = [1]", "senders"),
        ("\"group.receivers\" = [5, -1]", "-1"),
    ] {
        let message = error(&format!("{VALID_SCENARIO}[sweep]\n{axis}\n"));
        assert!(message.contains(expected), "{axis}: {message}");
    }
}

#[test]
fn a_frame_without_room_for_the_headers_is_refused() {
    let text = VALID_SCENARIO.replace("message_bytes = 1518", "message_bytes = 64");
    let file = ScenarioFile::parse("test.toml", &text).unwrap();
    // 64 - 18 - 9 = 37 bytes of payload: the least frame has room.
    let run = &Plan::new(&file).unwrap().runs[0];
    assert!(carillon_lab::run::run_one(run, &mut carillon_core::NoObserver).is_ok());
}

const MIXED_CHILDREN: &str = r#"
name = "both"
[network]
kind = "lan"
[group]
receivers = 3
[protocol]
name = "msaw"
ack_bytes = 100
[protocol.mbap]
window = 12
ack_bytes = 80
[workload]
messages = 24
message_bytes = 1000
[sweep]
"protocol.name" = ["msaw", "mbap"]
"#;

#[test]
fn protocols_are_compared_with_parameters_of_their_own() {
    let file = ScenarioFile::parse("both.toml", MIXED_CHILDREN).unwrap();
    let points: Vec<_> = file.points().iter().map(|point| file.resolve(point).unwrap()).collect();
    let [msaw, mbap] = &points[..] else { panic!("two points") };
    assert_eq!((msaw.protocol.name, msaw.config.size("ack_bytes").0), ("msaw", 100));
    assert_eq!((mbap.protocol.name, mbap.config.size("ack_bytes").0), ("mbap", 80));
    assert_eq!(mbap.config.count("window"), 12);
    // They can be swept and set like any other key.
    let set = file.with("protocol.mbap.window", "4").unwrap();
    assert_eq!(set.resolve(&set.points()[1]).unwrap().config.count("window"), 4);
    let swept = MIXED_CHILDREN.to_owned() + "\"protocol.mbap.window\" = [2, 3]\n";
    let swept = ScenarioFile::parse("both.toml", &swept).unwrap();
    let windows: Vec<u64> = swept
        .points()
        .iter()
        .map(|point| swept.resolve(point).unwrap())
        .filter(|scenario| scenario.protocol.name == "mbap")
        .map(|scenario| scenario.config.count("window"))
        .collect();
    assert_eq!(windows, [2, 3]);
}

#[test]
fn settings_of_a_protocol_that_is_not_run_are_looked_at_too() {
    let error = |from: &str, to: &str| {
        ScenarioFile::parse("both.toml", &MIXED_CHILDREN.replace(from, to)).unwrap_err().to_string()
    };
    let unknown = error("window = 12", "windw = 12");
    assert!(unknown.contains("both.toml:11") && unknown.contains("protocol.mbap.windw"), "{unknown}");
    assert!(error("[protocol.mbap]", "[protocol.mbpa]").contains("nor a protocol"));
}

#[test]
fn sizes_have_units_or_are_bytes() {
    let message_bytes = |value: &str| {
        let text = MIXED_CHILDREN.replace("message_bytes = 1000", &format!("message_bytes = {value}"));
        let file = ScenarioFile::parse("both.toml", &text).map_err(|error| error.to_string())?;
        Ok::<_, String>(file.resolve(&file.points()[0]).unwrap().workload.message_bytes)
    };
    assert_eq!(message_bytes("1000"), Ok(1000));
    assert_eq!(message_bytes("\"1 KiB\""), Ok(1024));
    assert_eq!(message_bytes("\"1.5 kB\""), Ok(1500));
    for wrong in ["\"1 Kib\"", "-5", "1.5", "\"5 GB\""] {
        let error = message_bytes(wrong).unwrap_err();
        assert!(error.contains("both.toml:15") && error.contains("such as \"1 KiB\""), "{error}");
    }
}

#[test]
fn what_would_take_all_memory_is_refused_before_it_is_taken() {
    let error = |key: &str, value: &str| {
        let file = ScenarioFile::parse("both.toml", MIXED_CHILDREN).unwrap();
        file.with(key, value).unwrap_err().to_string()
    };
    let runs = error("run.replications", "4000000000");
    assert!(runs.contains("more than 100000 runs") && runs.contains("replicate less"), "{runs}");
    let messages = error("workload.messages", "1000000000000");
    assert!(messages.contains("3 receivers") && messages.contains("send fewer messages"), "{messages}");
    assert!(error("group.receivers", "4000000000").contains("group.receivers"));
    let points = error("sweep.\"group.receivers\"", "{ from = 1, to = 1000000, step = 1 }");
    assert!(points.contains("100000"), "{points}");
}

/// A comparison of all protocols names none of them.
#[test]
fn sweep_of_all_protocols_keeps_only_suitable_ones() {
    let text = VALID_SCENARIO.replace("ack_wait = \"6000 bit\"\n", "profile = \"delivery\"\n")
        + "[sweep]\n\"protocol.name\" = \"all\"\n";
    let file = ScenarioFile::parse("test.toml", &text).unwrap();
    let fits = |entry: &&&carillon_core::ProtocolEntry| {
        entry.delivery.repairs && entry.networks.contains(&carillon_core::NetworkKind::Lan)
    };
    assert_eq!(file.points().len(), carillon_proto::REGISTRY.iter().filter(fits).count());
    let plan = Plan::new(&file).unwrap();
    for run in &plan.runs {
        let (entry, config) = (run.scenario.protocol, &run.scenario.config);
        for (key, value) in entry.settings.delivery {
            let found = config.iter().find(|(name, _)| name == key).unwrap().1.to_string();
            let mut said = carillon_core::Config::defaults(entry.parameters);
            said.set(entry.parameters, key, value).unwrap();
            let said = said.iter().find(|(name, _)| name == key).unwrap().1.to_string();
            let host = entry.settings.host.iter().any(|(name, _)| name == key);
            assert!(found == said || host, "{}: {key} is {found}", entry.name);
        }
    }
    assert!(error(&text.replace("\"all\"", "\"every\"")).contains("neither a list"));
    assert!(error(&text.replace("\"delivery\"", "\"mine\"")).contains("give \"defaults\" or \"delivery\""));
}

#[test]
fn unfinished_run_counts_only_if_the_scenario_keeps_it() {
    use carillon_lab::run::{RunError, run_one};
    let lossy = VALID_SCENARIO
        .replace("p = \"1 %\"", "p = \"60 %\"")
        .replace("[run]\n", "[run]\ntime_limit = \"1 s\"\n");
    let run = |text: &str| {
        let plan = Plan::new(&ScenarioFile::parse("test.toml", text).unwrap()).unwrap();
        run_one(&plan.runs[0], &mut carillon_core::NoObserver)
    };
    assert!(matches!(run(&lossy), Err(RunError::Unfinished { .. })));
    let keep = |text: &str| text.replace("[run]\n", "[run]\nunfinished = \"keep\"\n");
    let share = |text: &str| {
        let result = run(text).unwrap();
        let named = |(metric, _): &&(&str, Vec<f64>)| *metric == "undelivered_share";
        let (_, shares) = result.samples.iter().find(named).unwrap();
        (shares[0], result.samples.len())
    };
    let (missing, metrics) = share(&keep(&lossy));
    assert!(missing > 0.1 && missing < 1.0 && metrics > 5, "{missing}");
    // A group that is too large for it: nothing is measured, and nothing is said to be 0.
    let large = VALID_SCENARIO
        .replace("receivers = 20", "receivers = 200")
        .replace("name = \"msaw\"\nack_wait = \"6000 bit\"", "name = \"chang-maxemchuk\"");
    assert!(matches!(run(&large), Err(RunError::Config(_))));
    assert_eq!(share(&keep(&large)), (1.0, 1));
}

const FAST_STAR: &str = "name = \"fast\"\n[network]\nkind = \"star\"\nlatency = \"1 ms\"\n[group]\nreceivers = 3\n[protocol]\n\
                    name = \"carillon\"\n[workload]\nmessages = 200\nmessage_bytes = 1000\n[run]\n";

#[test]
fn a_machine_beyond_the_emission_limit_is_named_with_the_time() {
    use carillon_lab::run::{RunError, run_one};
    let run = |limits: &str| {
        let text = format!("{FAST_STAR}{limits}\n");
        let plan = Plan::new(&ScenarioFile::parse("test.toml", &text).unwrap()).unwrap();
        run_one(&plan.runs[0], &mut carillon_core::NoObserver)
    };
    assert!(run("emission_limit = 1000").is_ok());
    let error = run("emission_limit = 10").unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, RunError::Runaway { .. }), "{said}");
    assert!(said.contains("node n0, the sender of carillon, sent 11 datagrams"), "{said}");
    assert!(said.contains("in one event at 0.0"), "{said}");
    // Within one event steps are counted too.
    let error = run("step_limit = 10").unwrap_err();
    assert!(matches!(error, RunError::Steps { .. }), "{error}");
    assert!(error.to_string().contains("raise run.step_limit"), "{error}");
}

#[test]
fn a_run_beyond_its_memory_limit_ends_as_an_error() {
    use carillon_lab::run::{RunError, run_one};
    let text = format!("{FAST_STAR}memory_limit = \"100 kB\"\n");
    let plan = Plan::new(&ScenarioFile::parse("test.toml", &text).unwrap()).unwrap();
    let error = run_one(&plan.runs[0], &mut carillon_core::NoObserver).unwrap_err();
    assert!(matches!(error, RunError::Memory { .. }), "{error}");
}

#[test]
fn radio_is_a_medium_with_a_turnaround() {
    let text = VALID_SCENARIO.replace("kind = \"lan\"", "kind = \"radio\"\nturnaround = \"20 ms\"");
    let file = ScenarioFile::parse("test.toml", &text).unwrap();
    let scenario = Plan::new(&file).unwrap().runs[0].scenario.clone();
    let radio = scenario.network.lan().unwrap().radio.unwrap();
    assert_eq!((radio.turnaround.as_millis(), radio.contention_slots), (20, 16));
    let wrong = replaced("kind = \"lan\"", "kind = \"lan\"\nturnaround = \"20 ms\"");
    assert!(wrong.contains("belongs to kind = \"radio\""), "{wrong}");
    let wrong = replaced("kind = \"lan\"", "kind = \"radio\"\ninterframe_gap = \"96 bit\"");
    assert!(wrong.contains("belongs to kind = \"lan\""), "{wrong}");
}
