//! Messages to a group, blocking. Run on each listener, and then on the sender: `cargo run --example talk -- listen
//! 239.1.2.3:4567`, `cargo run --example talk -- say 239.1.2.3:4567 2 hello`.

use carillon_transfer::socket::bind;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", group] => {
            let mut inbound = bind(group.parse()?).listen()?.accept()?;
            while let Some(message) = inbound.recv()? {
                println!("{}: {}", message.sender, String::from_utf8_lossy(&message.bytes));
            }
        }
        ["say", group, listeners, ref words @ ..] => {
            let socket = bind(group.parse()?).protocol("pgm").receivers(listeners.parse()?);
            let mut outbound = socket.connect()?;
            for word in words {
                outbound.send(word.as_bytes())?;
            }
            for one in outbound.close()?.receivers {
                eprintln!("{}: {}", one.name, one.outcome.name());
            }
        }
        _ => return Err("listen GROUP, or say GROUP LISTENERS WORDS".into()),
    }
    Ok(())
}
