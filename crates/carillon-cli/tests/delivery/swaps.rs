//! A local user who swaps directories for links while files arrive leads nothing out.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::delivery::support::{Place, files, need_multicast, wait_until};

#[test]
fn directories_swapped_for_links_lead_no_file_out() {
    need_multicast!();
    let place = Place::new();
    for number in 0..400 {
        place.file(&format!("tree/{}/f{number}", number % 20), 100);
    }
    let (out, outside) = (place.path("a"), place.path("outside"));
    for number in 0..20 {
        fs::create_dir_all(outside.join(number.to_string())).unwrap();
    }
    fs::create_dir(&out).unwrap();
    let receiver = place.recv("a").args("--keep-going --overwrite --json").start();
    let (over, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Each fails when the other side has made or removed it: that is the race.
                let _ = fs::rename(out.join("tree"), out.join("aside"));
                let _ = symlink(&outside, out.join("tree"));
                swaps.fetch_add(1, Ordering::Relaxed);
                let _ = fs::remove_file(out.join("tree"));
                let _ = fs::rename(out.join("aside"), out.join("tree"));
            }
        });
        let least = if carillon_testkit::is_long_tier() { 10 } else { 4 };
        for number in 0..20 * least {
            // Whoever swaps may hardly have had its turn.
            if number >= least && swaps.load(Ordering::Relaxed) > MIN_SWAPS {
                break;
            }
            // Whether it arrives depends on the moment; where it arrives does not.
            let ended = place.send("s").arg(place.path("tree")).args("--receivers 1").run();
            assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.err);
            wait_until("a report", || receiver.out().matches("\"report\"").count() == number + 1);
        }
        over.store(true, Ordering::Relaxed);
    });
    receiver.signal("TERM");
    receiver.end();
    assert!(swaps.load(Ordering::Relaxed) > MIN_SWAPS, "it was swapped often");
    assert_eq!(files(&outside).len(), 0);
}

/// So often at least.
const MIN_SWAPS: u32 = 100;
