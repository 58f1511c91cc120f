//! Pairs of random trees: `send --update --delete` makes each receiver's tree equal to the sender's, at 5 % loss, with
//! processes that are killed and started again. Nothing outside the receivers' directories changes.
//!
//! `CARILLON_SEED` selects a pair, `CARILLON_RUNS` the number of pairs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use carillon_core::{Rng, Seeds};
use carillon_testkit::is_long_tier;

use crate::delivery::support::{Place, in_parallel, need_multicast};

/// Names of which some differ in case or in the composition of characters only.
pub const NAMES: [&str; 18] = [
    "a", "a/b", "a/b/c", "A", "A/b", "d", "d/a", "d/e", "d/e/a", "d/e/f/g", "é", "e\u{301}", "x", "X", "y",
    "y/z", "n\nl", "w/ s",
];

/// Changes a tree at random; `out` is a directory for links that lead outside.
pub fn change(root: &Path, out: Option<&Path>, rng: &mut Rng, steps: u64) {
    fs::create_dir_all(root).expect("a directory");
    let remove = |path: &Path| match path.is_dir() && !path.is_symlink() {
        true => _ = fs::remove_dir_all(path),
        false => _ = fs::remove_file(path),
    };
    for _ in 0..steps {
        let path = root.join(NAMES[rng.below(NAMES.len() as u64) as usize]);
        for above in path.ancestors().skip(1).take_while(|above| *above != root) {
            if above.is_symlink() || (above.exists() && !above.is_dir()) {
                remove(above);
            }
        }
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let is_file = path.is_file() && !path.is_symlink();
        let open = || fs::OpenOptions::new().write(true).open(&path).expect("a file");
        let len = || path.metadata().map_or(0, |found| found.len());
        match rng.below(14) {
            0 | 1 => remove(&path),
            2 => {
                remove(&path);
                symlink(["nowhere", "a", "d/e"][rng.below(3) as usize], &path).expect("a link");
            }
            3 if let Some(out) = out => {
                remove(&path);
                symlink(out, &path).expect("a link");
            }
            4 => {
                let other = root.join(NAMES[rng.below(NAMES.len() as u64) as usize]);
                if !other.starts_with(&path) && other.parent().is_some_and(Path::is_dir) && !other.exists() {
                    _ = fs::rename(&path, &other);
                }
            }
            5 if !path.is_dir() => {
                remove(&path);
                fs::create_dir(&path).expect("a directory");
            }
            6 if is_file => {
                let mode = [0o600, 0o644, 0o755, 0o400, 0o777][rng.below(5) as usize];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its own");
            }
            7 if is_file => open().set_len(rng.below(len() + 1)).expect("truncated"),
            8 if is_file => {
                open().write_all_at(&rng.bits().to_be_bytes(), len()).expect("appended");
            }
            9 if is_file => {
                let hole = len() + rng.below(9 << 20);
                open().write_all_at(b"behind a hole", hole).expect("written");
            }
            10 if out.is_some() && is_file => {
                let other = root.join("x");
                if !other.exists() {
                    _ = fs::hard_link(&path, other);
                }
            }
            _ if path.is_dir() && !path.is_symlink() && rng.chance(0.7) => {}
            _ => {
                remove(&path);
                let len = [0, 10, 1000, 300_000, 5 << 20][rng.below(30).min(4) as usize];
                let mut bytes = vec![0; len];
                blake3::Hasher::new().update(&rng.bits().to_be_bytes()).finalize_xof().fill(&mut bytes);
                fs::write(&path, bytes).expect("a file");
            }
        }
    }
}

/// Entries of a tree: kind with its attributes, and contents. Directories at the receiver keep permissions, and links
/// have times of their own.
fn walk(root: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let about = fs::symlink_metadata(&path).expect("it is there");
            let (kind, contents) = if about.is_symlink() {
                ("link".to_owned(), fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec())
            } else if about.is_dir() {
                todo.push(path.clone());
                ("directory".to_owned(), Vec::new())
            } else {
                let mode = about.mode() & 0o777 & !0o022;
                let text = format!("file {mode:o} {}.{:09}", about.mtime(), about.mtime_nsec());
                (text, blake3::hash(&fs::read(&path).expect("a file")).as_bytes().to_vec())
            };
            found.insert(path.strip_prefix(root).expect("it is below").to_owned(), (kind, contents));
        }
    }
    found
}

/// Changes a tree; the second argument is a directory outside, for links that lead there.
type Change = dyn Fn(&Path, Option<&Path>, &mut Rng, u64) + Sync;

/// Kind of transfer that makes trees equal.
pub struct Mirror<'a> {
    pub change: &'a Change,
    /// Further arguments of receivers and senders.
    pub recv: &'a str,
    pub send: &'a str,
    /// Compares the tree of this receiver with the sender's.
    pub assert: &'a (dyn Fn(&Place, &str, u64) + Sync),
    /// Text that describes everything in a directory.
    pub state: &'a (dyn Fn(&Path) -> String + Sync),
}

/// Makes one pair of trees equal; returns the number of processes that were killed.
fn mirror(seed: u64, options: &Mirror<'_>) -> usize {
    let change = options.change;
    let mut rng = Seeds::new(seed).stream("mirror");
    let place = Place::new();
    let outside = place.path("outside");
    place.file("outside/a", 100);
    let site = place.path("site");
    change(&site, None, &mut rng, 40);
    for name in ["r1", "r2"] {
        // A version of the sender's tree, or another one.
        let out = place.path(name);
        fs::create_dir_all(&out).expect("a directory");
        if rng.chance(0.7) {
            let copied = std::process::Command::new("cp").arg("-a").arg(&site).arg(&out).status();
            assert!(copied.expect("cp runs").success());
        }
        change(&out.join("site"), Some(&outside), &mut rng, 30);
        fs::write(out.join("own"), name).expect("a file");
    }
    change(&site, None, &mut rng, 10);
    std::thread::sleep(Duration::from_millis(30));
    let untouched = (options.state)(&outside);
    let kills = rng.below(4) as usize;
    for attempt in 0..=kills {
        let mut start = |name: &str| {
            let line = format!("--overwrite --allow-delete --drop 0.05 --seed {}", rng.below(1 << 30));
            place.recv(name).args(&line).args(options.recv).start()
        };
        let mut receivers = [start("r1"), start("r2")];
        let line = "--expect r1,r2 --update --delete --timeout 3 --rate 200Mbit/s --name s";
        let mut sender = place.send("s").args(line).args(options.send).arg(&site).start();
        if attempt == kills {
            let sent = sender.end();
            let came = receivers.map(|receiver| receiver.end());
            let [one, two] = &came;
            assert_eq!(sent.code, Some(0), "seed {seed}: {}{}{}{}", sent.out, sent.err, one.err, two.err);
            came.into_iter().for_each(|came| _ = came.expect(0));
            break;
        }
        std::thread::sleep(Duration::from_millis(100 + rng.below(1500)));
        match rng.below(3) {
            0 => sender.kill(),
            one => receivers[one as usize - 1].kill(),
        }
        // The others end, or are stopped as by an administrator.
        drop((sender, receivers));
    }
    for name in ["r1", "r2"] {
        (options.assert)(&place, name, seed);
        assert_eq!(fs::read(place.path(name).join("own")).expect("it stays"), name.as_bytes());
    }
    assert!((options.state)(&outside) == untouched, "seed {seed}: something was written outside");
    kills
}

/// Makes pairs of trees equal, on two threads.
pub fn run_pairs(options: &Mirror<'_>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let runs = number("CARILLON_RUNS").unwrap_or(if is_long_tier() { 200 } else { 3 });
    let seeds: Vec<u64> = match number("CARILLON_SEED") {
        Some(seed) => vec![seed],
        None => (number("CARILLON_FROM").unwrap_or(1)..).take(runs as usize).collect(),
    };
    let killed = AtomicUsize::new(0);
    in_parallel(2, &seeds, |seed| _ = killed.fetch_add(mirror(*seed, options), Ordering::Relaxed));
    let killed = killed.into_inner();
    println!("{} pairs of trees, {killed} processes killed", seeds.len());
    assert!(seeds.len() == 1 || killed >= seeds.len() / 2, "{killed} processes were killed");
}

#[test]
fn random_trees_are_equal_after_kills_and_losses() {
    need_multicast!();
    run_pairs(&Mirror {
        change: &change,
        recv: "",
        send: "",
        assert: &|place, name, seed| {
            let (expected, came) = (walk(&place.path("site")), walk(&place.path(name).join("site")));
            let differs = expected.iter().find(|(path, about)| came.get(*path) != Some(about));
            let more = came.keys().find(|path| !expected.contains_key(*path));
            assert!(differs.is_none() && more.is_none(), "seed {seed}, {name}: {differs:?} {more:?}");
        },
        state: &|directory| format!("{:?}", walk(directory)),
    });
}
