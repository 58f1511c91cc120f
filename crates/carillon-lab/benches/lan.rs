//! Speed of the simulated LAN: frames and collisions a second, and how long all error-free points
//! of the 1996 thesis's chapter 4 take on one core.
//!
//! `cargo bench -p carillon-lab --bench lan [-- --quick]`

use std::time::Instant;

use carillon_core::{Event, NodeId, Observer, Time};
use carillon_lab::plan::Plan;
use carillon_lab::run::{run_one, run_plan};
use carillon_lab::scenario::ScenarioFile;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let messages = if quick { 500 } else { 5_000 };
    println!("{:>10} {:>12} {:>14} {:>16}", "receivers", "frames/s", "collisions/s", "ns/MAC attempt");
    for receivers in [5, 20, 60, 200, 1000] {
        let messages = (messages * 20 / receivers).max(10);
        let text = scenario("msaw", "", &format!("messages = {messages}"), &format!("[{receivers}]"));
        let file = ScenarioFile::parse("bench", &text).expect("a valid scenario");
        let plan = Plan::new(&file).expect("a valid plan");
        let mut count = Count::default();
        let begin = Instant::now();
        run_one(&plan.runs[0], &mut count).expect("the run finishes");
        let seconds = begin.elapsed().as_secs_f64();
        println!(
            "{receivers:>10} {:>12.3e} {:>14.3e} {:>16.1}",
            count.frames as f64 / seconds,
            count.collisions as f64 / seconds,
            seconds / (count.frames + count.colliding) as f64 * 1e9
        );
    }
    chapter_4();
}

/// 3 to 60 receivers; both protocols, windows 5, 10, 15, waits 0, 12000, 22000, 32000.
fn chapter_4() {
    let waits = r#""protocol.ack_wait" = ["0 bit", "12000 bit", "22000 bit", "32000 bit"]"#;
    let windows = format!("{waits}\n\"protocol.window\" = [5, 10, 15]");
    let receivers = "{ from = 3, to = 60, step = 1 }";
    let begin = Instant::now();
    let mut runs = 0;
    for text in [
        scenario("msaw", waits, "messages = 500", receivers),
        scenario("mbap", &windows, "messages = 450", receivers)
            .replace("[workload]", "ack_timeout = \"600000 bit\"\n[workload]"),
    ] {
        let file = ScenarioFile::parse("bench", &text).expect("a valid scenario");
        let plan = Plan::new(&file).expect("a valid plan");
        runs += run_plan(&plan, 1).expect("the runs finish").len();
    }
    println!("\nchapter 4, {runs} error-free points on one core: {:.2} s", begin.elapsed().as_secs_f64());
}

fn scenario(protocol: &str, axes: &str, messages: &str, receivers: &str) -> String {
    format!(
        "name = \"bench\"\n[network]\nkind = \"lan\"\n[group]\nreceivers = 1\n[protocol]\nname = \"{protocol}\"\n\
         [workload]\n{messages}\nmessage_bytes = 1518\n[sweep]\n{axes}\n\"group.receivers\" = {receivers}\n"
    )
}

#[derive(Default)]
struct Count {
    frames: u64,
    collisions: u64,
    colliding: u64,
}

impl Observer for Count {
    fn event(&mut self, _time: Time, _node: NodeId, event: &Event) {
        match *event {
            Event::FrameSent { .. } => self.frames += 1,
            Event::Collision { frames } => {
                self.collisions += 1;
                self.colliding += u64::from(frames);
            }
            _ => {}
        }
    }
}
