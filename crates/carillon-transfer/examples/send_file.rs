//! Sends a file to whoever joins within two seconds of the first: `cargo run --example send_file -- FILE`.

use carillon_transfer::{SendEvent, send};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("which file?")?;
    let sender = send([file]).start();
    for event in sender.events() {
        match event {
            SendEvent::Joined { name, .. } => println!("{name} is there"),
            SendEvent::Progress { bytes, .. } => println!("{bytes} bytes on their way"),
            _ => {}
        }
    }
    let report = sender.wait()?;
    for one in &report.receivers {
        println!("{}: {}", one.name, one.outcome.name());
    }
    if report.is_success() { Ok(()) } else { Err("not everyone has it".into()) }
}
