//! Receives one transfer as a task of tokio, and ends it in order when it takes too long:
//! `cargo run --example receive_async -- DIRECTORY SECONDS`.

use std::time::Duration;

use carillon_transfer::ReceiveEvent;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("which directory?")?;
    let limit = Duration::from_secs(args.next().ok_or("how many seconds?")?.parse()?);

    let transfer = carillon_transfer::receive(directory).start();
    let events = transfer.events();
    let all_events = async {
        while let Some(event) = events.next().await {
            if let ReceiveEvent::File { path, bytes, .. } = event {
                println!("{}: {bytes} bytes", path.display());
            }
        }
    };
    if tokio::time::timeout(limit, all_events).await.is_err() {
        transfer.abort();
    }
    let report = transfer.ended().await?;
    println!("{} files, {} bytes, from {:?}", report.files, report.bytes, report.sender);
    Ok(report.outcome?)
}
