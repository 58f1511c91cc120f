//! Random and mutated datagrams do not stop a transfer; a million of them in the long tier.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carillon_core::Seeds;
use carillon_testkit::is_long_tier;

use crate::delivery::support::{Place, files, listener, loopback_sender, need_multicast, wait_for_part};

#[test]
fn random_and_mutated_datagrams_do_not_stop_a_transfer() {
    need_multicast!();
    let place = Place::new();
    let file = place.file("f", 5_000_000);
    let hears = listener(place.group).expect("the group can be heard");
    let receivers = ["a", "b"].map(|name| place.recv(name).start());
    let sender = place.send("s").arg(&file).args("--receivers 2 --rate 8Mbit/s").start();
    // The invitation contains the sender's address. Without a key it is not authenticated, so a changed copy could
    // divert a receiver that has not joined yet.
    let mut buffer = vec![0; 65_536];
    let (len, address) = hears.recv_from(&mut buffer).expect("an invitation");
    wait_for_part(&place.path("a"));
    wait_for_part(&place.path("b"));
    let mut heard = vec![buffer[..len].to_vec()];
    let sockets: Vec<_> = (0..40).map(|_| loopback_sender().expect("a socket")).collect();
    let mut rng = Seeds::new(1).stream("flood");
    hears.set_nonblocking(true).expect("a socket that does not wait");
    let over = AtomicBool::new(false);
    let (mut sent, wanted) = (0_u32, if is_long_tier() { 1_000_000 } else { 60_000 });
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| {
            let sender = sender.end_within(Duration::from_secs(120));
            over.store(true, Ordering::Relaxed);
            (sender, receivers.map(|receiver| receiver.end()))
        });
        let mut after = 0;
        while sent < wanted {
            if sent.is_multiple_of(64)
                && let Ok((len, _)) = hears.recv_from(&mut buffer)
            {
                let at = rng.below(16) as usize;
                let sample = buffer[..len.min(1500)].to_vec();
                if at < heard.len() { heard[at] = sample } else { heard.push(sample) }
            }
            let mut bytes = match rng.below(3) {
                0 => {
                    let mut noise = vec![0; rng.below(200) as usize];
                    rng.fill(&mut noise);
                    noise
                }
                _ => heard[rng.below(heard.len() as u64) as usize].clone(),
            };
            for _ in 0..rng.below(4) {
                if !bytes.is_empty() {
                    let at = rng.below(bytes.len().min(64) as u64) as usize;
                    bytes[at] = rng.bits() as u8;
                }
            }
            let socket = &sockets[rng.below(sockets.len() as u64) as usize];
            let to = if rng.chance(0.5) { place.group.into() } else { address };
            // Sending is refused once the sender has ended.
            let _ = socket.send_to(&bytes, to);
            sent += 1;
            after += u32::from(over.load(Ordering::Relaxed));
        }
        let (sender, receivers) = transfer.join().expect("the transfer ends");
        let sender = sender.expect(0);
        assert!(sender.out.contains("2 of 2 verified"), "{}", sender.out);
        for receiver in receivers {
            receiver.expect(0);
        }
        eprintln!("{sent} datagrams, {after} of them after the end\n{}", sender.out);
    });
    let expected = blake3::hash(&std::fs::read(file).unwrap());
    for name in ["a", "b"] {
        assert_eq!(files(&place.path(name)).into_iter().collect::<Vec<_>>(), [("f".to_owned(), expected)]);
    }
}
