//! FLUTE by the crate `flute`, which knows nothing of Carillon, for `scripts/check-strangers.py`:
//!
//! - `flute_peer send CODE VERSION ENCODING PASSES RATE INTERFACE GROUP FILE...`, with RATE in bytes a second;
//! - `flute_peer recv FOLDER COUNT SECONDS INTERFACE GROUP` prints READY, and ends after COUNT files, or with 1 after
//!   SECONDS without a packet.
//!
//! INTERFACE is an IPv4 address, and GROUP an address and a port.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use flute_crate::core::lct::Cenc;
use flute_crate::core::{Oti, UDPEndpoint};
use flute_crate::receiver::MultiReceiver;
use flute_crate::receiver::writer::ObjectWriterBufferBuilder;
use flute_crate::sender::{CarouselRepeatMode, Config, ObjectDesc, Profile, Sender, TransferConfig};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", code, version, encoding, passes, rate, interface, group, ref files @ ..] => {
            let sender = sender(code, version, encoding, passes.parse()?, files)?;
            send(sender, rate.parse()?, interface.parse()?, group.parse()?)
        }
        ["recv", folder, count, seconds, interface, group] => {
            let silence = Duration::from_secs(seconds.parse()?);
            receive(Path::new(folder), count.parse()?, silence, interface.parse()?, group.parse()?)
        }
        _ => Err("see the head of its source for its arguments".into()),
    }
}

/// Sender with all files.
fn sender(code: &str, version: &str, encoding: &str, passes: u32, files: &[&str]) -> Result<Sender> {
    let oti = match code {
        "no-code" => Oti::new_no_code(1400, 64),
        "reed-solomon" => explained(Oti::new_reed_solomon_rs28(1400, 64, 16))?,
        "raptorq" => explained(Oti::new_raptorq(1400, 64, 16, 1, 4))?,
        "raptor" => explained(Oti::new_raptor(1400, 64, 16, 1, 4))?,
        other => return Err(format!("no code {other}").into()),
    };
    let config = Config {
        profile: if version == "1" { Profile::RFC3926 } else { Profile::RFC6726 },
        fdt_carousel_mode: CarouselRepeatMode::DelayBetweenTransfers(TABLE_INTERVAL),
        ..Config::default()
    };
    let table = Oti::new_no_code(1400, 64);
    let mut sender = Sender::new(endpoint(), 9, &table, &config);
    for file in files {
        let content = std::fs::read(file)?;
        let name = Path::new(file).file_name().and_then(|name| name.to_str()).ok_or("no name")?;
        let transfer = TransferConfig {
            max_transfer_count: passes,
            cenc: if encoding == "gzip" { Cenc::Gzip } else { Cenc::Null },
            // The crate encodes blocks of Raptor only if they have four symbols.
            oti: Some(if code == "raptor" && content.len() < 8000 { table.clone() } else { oti.clone() }),
            ..TransferConfig::default()
        };
        let url = url::Url::parse(&format!("file:///{name}"))?;
        let object =
            ObjectDesc::create_from_buffer(content, "application/octet-stream", &url, true, transfer);
        explained(sender.add_object(0, explained(object)?))?;
    }
    explained(sender.publish(SystemTime::now()))?;
    Ok(sender)
}

/// Interval in which the table is repeated.
const TABLE_INTERVAL: Duration = Duration::from_millis(20);
/// Number of packets at the begin that are sent slowly.
const SLOW_PACKETS: u32 = 30;

/// Sends everything, and announces the end.
fn send(mut sender: Sender, rate: f64, interface: Ipv4Addr, group: SocketAddrV4) -> Result<()> {
    let socket = UdpSocket::bind(SocketAddrV4::new(interface, 0))?;
    let (begin, mut bytes, mut packets) = (Instant::now(), 0, 0);
    while sender.nb_objects() > 0 {
        let Some(packet) = sender.read(SystemTime::now()) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        bytes += socket.send_to(&packet, group)?;
        // The table is repeated by time: all passes of a short file could be over before.
        let slow = if packets < SLOW_PACKETS { TABLE_INTERVAL } else { Duration::ZERO };
        packets += 1;
        let due = Duration::from_secs_f64(bytes as f64 / rate);
        std::thread::sleep(due.saturating_sub(begin.elapsed()).max(slow));
    }
    let close = sender.read_close_session(SystemTime::now());
    for _ in 0..3 {
        socket.send_to(&close, group)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Receives this number of files.
fn receive(
    folder: &Path,
    count: usize,
    silence: Duration,
    interface: Ipv4Addr,
    group: SocketAddrV4,
) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let writer = Rc::new(ObjectWriterBufferBuilder::new(true));
    let mut receiver = MultiReceiver::new(writer.clone(), None, false);
    let socket = UdpSocket::bind(group)?;
    socket.join_multicast_v4(group.ip(), &interface)?;
    socket.set_read_timeout(Some(silence))?;
    println!("READY");
    let mut packet = [0; 65536];
    while writer.objects.borrow().iter().filter(|object| object.borrow().complete).count() < count {
        let length = socket.recv(&mut packet)?;
        let now = SystemTime::now();
        if let Err(error) = receiver.push(&endpoint(), &packet[..length], now) {
            println!("REFUSED {error:?}");
        }
        receiver.cleanup(now);
    }
    for object in writer.objects.borrow().iter().filter(|object| object.borrow().complete) {
        let object = object.borrow();
        let name = object.meta.content_location.rsplit('/').next().unwrap_or_default();
        std::fs::write(folder.join(name), &object.data)?;
    }
    Ok(())
}

/// Result of the crate, the errors of which are no errors of the standard library.
fn explained<T, E: std::fmt::Debug>(result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|error| format!("{error:?}").into())
}

fn endpoint() -> UDPEndpoint {
    UDPEndpoint::new(None, "224.0.0.1".to_owned(), 3400)
}
