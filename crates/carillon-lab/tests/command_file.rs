//! Command files and statistics files of the 1996 simulator (Segovia, sections 3.5 and 3.6).

use carillon_lab::command_file::CommandFile;
use carillon_lab::plan::Plan;
use carillon_lab::run::run_plan;
use carillon_lab::statistics_file::write_pass;

/// Command file of the run with the output in section 3.5.
const SAMPLE: &str = "\
# a comment
LOGFILE =
STATSFILE = bapwin.dat
PROTO = BAP
STARTRECS = 3
ENDRECS = 3
INCRECS = 1
BAPPKTIMEOUTMETHOD = formula
STARTBAPPKTIMEOUT = 1000
STARTBAPACKTIMEOUT = 95000
STARTBAPWIN = 1
STARTBAPRANDWAIT = 6000
STARTPKTS = 100
REPETITIONS = 1
";

fn statistics(text: &str) -> String {
    let command = CommandFile::parse("sample.cmd", text).unwrap();
    let plan = Plan::new(&command.scenario).unwrap();
    let runs = run_plan(&plan, 1).unwrap();
    let mut out = Vec::new();
    for pass in runs.chunk_by(|a, b| a.point == b.point) {
        let run = plan.runs.iter().find(|run| run.point == pass[0].point).unwrap();
        let replications = command.scenario.replications();
        let messages = pass.iter().flat_map(|run| &run.messages);
        write_pass(&mut out, &run.scenario, replications, "Sun Aug  4 12:01:27 1996", messages).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn the_header_of_the_sample_run_is_the_one_in_the_thesis() {
    let text = statistics(SAMPLE);
    assert_eq!(
        text.lines().next().unwrap(),
        "Pkts=100 Recs=3 Data=1518 Ack=64 FailRate=0 Reps=1 Proto=BAP BAPWin=1 BAPPktT=115680 BAPAckT=95000 BAPrand=6000 Date=Sun Aug  4 12:01:27 1996"
    );
}

#[test]
fn rows_follow_each_other_as_in_the_sample() {
    let text = statistics(SAMPLE);
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 100);
    assert!(text.lines().nth(1).unwrap().starts_with(" 1 1518 1 0 "), "ids are two wide");
    for (number, row) in rows.iter().enumerate() {
        let [id, size, window, start, end, elapsed, each, retransmissions, failed] = row[..] else {
            panic!("nine columns: {row:?}")
        };
        assert_eq!(id, (number + 1).to_string());
        assert_eq!((size, window, retransmissions, failed), ("1518", "1", "0", "0"));
        let [start, end, elapsed] = [start, end, elapsed].map(|n| n.parse::<u64>().unwrap());
        assert_eq!(elapsed, end - start);
        assert_eq!(each, format!("{elapsed}.00"));
        // Least latency d + r a; the sample's ten lie between 13887 and 18598.
        assert!((13_680..22_000).contains(&elapsed), "{elapsed}");
        if number > 0 {
            assert_eq!(rows[number - 1][4], row[3], "a packet starts when the previous one ends");
        }
    }
}

#[test]
fn ranges_form_the_cross_product_and_both_spellings_are_known() {
    for spelling in ["INCRECS", "INCRRECS"] {
        let text = SAMPLE
            .replace("ENDRECS = 3\nINCRECS = 1", &format!("ENDRECS = 9\n{spelling} = 3"))
            .replace("STARTBAPWIN = 1", "STARTBAPWIN = 1\nENDBAPWIN = 4\nINCRBAPWIN = 3")
            .replace("STARTPKTS = 100", "STARTPKTS = 12");
        let headers: Vec<String> =
            statistics(&text).lines().filter(|line| line.starts_with("Pkts")).map(str::to_owned).collect();
        assert_eq!(headers.len(), 3 * 2);
        assert!(headers[1].contains("Recs=3 ") && headers[1].contains("BAPWin=4 "));
        assert!(headers[2].contains("Recs=6 ") && headers[2].contains("BAPWin=1 "));
    }
}

#[test]
fn stop_and_wait_has_its_own_header() {
    let text = "PROTO = SAW\nSTARTRECS = 20\nSTARTPKTS = 5\nSAWTIMEOUTMETHOD = formula\nSTARTSAWTIMEOUT = 20000\n\
                SAWRETRANS = unicast\nSTARTSAWRETRANSLIM = 10\nSTARTSAWRANDWAIT = 6000\nREPETITIONS = 2\n";
    let statistics = statistics(text);
    // d + a r + i + increment = 12144 + 10240 + 6000 + 20000
    assert!(statistics.starts_with(
        "Pkts=5 Recs=20 Data=1518 Ack=64 FailRate=0 Reps=2 Proto=SAW SAWtimeM=for SAWtimeI=20000 SAWtime=48384 SAWretr=10 SAWretrM=uni SAWrand=6000 Date="
    ));
    assert_eq!(statistics.lines().count(), 1 + 10, "all repetitions follow the header of their pass");
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (text, expected) in [
        ("PROTO = SAW\nSTARTRECS\n", "c:2: \"STARTRECS\" is no assignment; write VARIABLE = value"),
        ("PROTO = SAW\nSTARTRECX = 3\n", "c:2: unknown variable `STARTRECX`; did you mean `STARTRECS`?"),
        ("PROTO = FOO\n", "c:1: `PROTO = FOO` is none of SAW, BAP, GBN"),
        ("STARTRECS = 3\n", "c: `PROTO` is not set; valid are SAW and BAP"),
        ("PROTO = SAW\nSTARTRECS = 1\n", "c:2: `STARTRECS = 1` is no whole number from 2 to 100"),
        ("PROTO = SAW\nSTARTRECS = 9\nENDRECS = 3\n", "c:3: `ENDRECS = 3` is below STARTRECS = 9"),
        (
            "PROTO = SAW\nSTARTRECS = 9\nINCRECS = 0\n",
            "c:3: `INCRRECS = 0` is no whole number from 1 to 9223372036854775807",
        ),
        ("PROTO = SAW\n", "c: `STARTRECS` is not set"),
    ] {
        assert_eq!(CommandFile::parse("c", text).unwrap_err().to_string(), expected);
    }
}
