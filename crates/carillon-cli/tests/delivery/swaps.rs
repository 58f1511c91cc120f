//! A local user replaces directories by links while files arrive: no file leaves the directory of the receiver.

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
                // Each step fails if the other side was faster; that race is the test.
                let _ = fs::rename(out.join("tree"), out.join("aside"));
                let _ = symlink(&outside, out.join("tree"));
                swaps.fetch_add(1, Ordering::Relaxed);
                let _ = fs::remove_file(out.join("tree"));
                let _ = fs::rename(out.join("aside"), out.join("tree"));
            }
        });
        let least = if carillon_testkit::is_long_tier() { 10 } else { 4 };
        for number in 0..20 * least {
            // The swapping thread may hardly be scheduled on a busy machine.
            if number >= least && swaps.load(Ordering::Relaxed) > MIN_SWAPS {
                break;
            }
            // The timing decides if a file arrives; it may arrive only in the directory.
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

/// Minimum number of swaps for a valid run.
const MIN_SWAPS: u32 = 100;
