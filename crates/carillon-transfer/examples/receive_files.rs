//! Receives one transfer into a directory: `cargo run --example receive_files -- DIRECTORY`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("which directory?")?;
    let report = carillon_transfer::receive(directory).run()?;
    println!("{} files, {} bytes, from {:?}", report.files, report.bytes, report.sender);
    Ok(report.outcome?)
}
