//! Messages to a group as tasks of tokio, one for each listener and one that talks:
//! `cargo run --example talk_async -- 239.1.2.3:4567 hello everybody`.

use carillon_transfer::socket::bind;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let group = args.next().ok_or("which group?")?.parse()?;

    let listen = async |name: &str| {
        let mut inbound = bind(group).name(name).listen()?.accept_async().await?;
        while let Some(message) = inbound.recv_async().await? {
            println!("{name} hears {}", String::from_utf8_lossy(&message.bytes));
        }
        Ok::<_, carillon_transfer::Error>(())
    };
    let say = async {
        let socket = bind(group).name("carol").expect(["alice", "bob"]);
        let mut outbound = socket.connect_async().await?;
        for word in args {
            outbound.send_async(word.as_bytes()).await?;
        }
        outbound.close_async().await
    };

    let (alice, bob, report) = tokio::join!(listen("alice"), listen("bob"), say);
    alice?;
    bob?;
    if report?.is_success() { Ok(()) } else { Err("not everyone has it".into()) }
}
