//! Policies for symbolic links, and empty directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::delivery::support::{Place, files, need_multicast};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Creates a tree with links of all kinds.
fn tree(place: &Place) -> std::path::PathBuf {
    let tree = place.path("tree");
    let file = place.file("tree/dir/file", 1000);
    symlink("dir/file", tree.join("to-file")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    symlink(&file, tree.join("absolute")).unwrap();
    tree
}

#[test]
fn followed_links_arrive_as_contents_and_dangling_are_skipped() {
    need_multicast!();
    let place = Place::new();
    let tree = tree(&place);
    symlink(place.file("elsewhere", 10), tree.join("outside")).unwrap();
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(&tree).args("--symlinks follow --receivers 1").run().expect(1);
    receiver.end().expect(0);
    let lines: Vec<_> = sender.err.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].ends_with("tree/dangling is a symbolic link that leads nowhere: not sent"), "{lines:?}");
    assert!(lines[1].contains("tree/outside leads out of the tree, to /"), "{lines:?}");
    assert!(lines[2].ends_with("1 entry was skipped, as listed above"), "{lines:?}");
    let arrived = files(&place.path("a/tree"));
    assert_eq!(arrived.keys().collect::<Vec<_>>(), ["absolute", "dir/file", "outside", "to-file"]);
    assert!(!place.path("a/tree/to-file").is_symlink());
}

#[test]
fn links_are_kept_and_skipped_if_they_lead_out() {
    need_multicast!();
    let place = Place::new();
    let tree = tree(&place);
    symlink("../../x", tree.join("dir/up")).unwrap();
    symlink("../../../x", tree.join("dir/out")).unwrap();
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(&tree).args("--receivers 1").run().expect(1);
    receiver.end().expect(0);
    let lines: Vec<_> = sender.err.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let text = "is a symbolic link that could lead out of the tree, to";
    assert!(lines[0].contains(&format!("tree/absolute {text} /")), "{lines:?}");
    assert!(lines[1].contains(&format!("tree/dir/out {text} ../../../x: not sent")), "{lines:?}");
    let says = |name: &str| fs::read_link(place.path("a/tree").join(name)).unwrap();
    assert_eq!(says("to-file"), Path::new("dir/file"));
    assert_eq!(says("dangling"), Path::new("nowhere"));
    assert_eq!(says("dir/up"), Path::new("../../x"));
    assert!(!place.path("a/tree/absolute").is_symlink());
    assert_eq!(fs::read(place.path("a/tree/to-file")).unwrap(), fs::read(tree.join("dir/file")).unwrap());

    // In a second transfer they exist, and are replaced only with `--overwrite`.
    let [keeps, replaces] = [("a", ""), ("b", "--overwrite")];
    symlink("elsewhere", {
        fs::create_dir_all(place.path("b/tree")).unwrap();
        place.path("b/tree/dangling")
    })
    .unwrap();
    let receivers = [keeps, replaces].map(|(name, flags)| place.recv(name).args(flags).start());
    place.send("t").arg(&tree).args("--symlinks keep --receivers 2").run().expect(1);
    let [keeps, replaces] = receivers;
    keeps.end().expect(2).one_line(&["a/tree/", "exists", "--overwrite"]);
    replaces.end().expect(0);
    assert_eq!(fs::read_link(place.path("b/tree/dangling")).unwrap(), Path::new("nowhere"));
}

#[test]
fn links_are_skipped() {
    need_multicast!();
    let place = Place::new();
    let tree = tree(&place);
    let receiver = place.recv("a").start();
    let sender = place.send("s").arg(&tree).args("--symlinks skip --receivers 1").run().expect(0);
    receiver.end().expect(0);
    sender.one_line(&["3 symbolic links are not sent"]);
    assert_eq!(files(&place.path("a/tree")).keys().collect::<Vec<_>>(), ["dir/file"]);
}

#[test]
fn link_policy_is_one_of_three_values() {
    let place = Place::new();
    let file = place.file("f", 1);
    let ended = place.send("s").arg(file).args("--symlinks copy").run().expect(2);
    assert!(ended.err.contains("follow, keep or skip"), "{}", ended.err);
}

/// Directories keep their permissions, also if they are empty or not writable.
#[test]
fn directories_keep_their_permissions() {
    need_multicast!();
    let place = Place::new();
    place.file("tree/closed/below/file", 1000);
    place.file("tree/private/file", 1000);
    for (name, mode) in
        [("tree/empty", 0o750), ("tree/closed/below", 0o755), ("tree/closed", 0o555), ("tree/private", 0o700)]
    {
        fs::create_dir_all(place.path(name)).unwrap();
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // Existing directories keep their permissions.
    fs::create_dir_all(place.path("b/tree/empty")).unwrap();
    fs::set_permissions(place.path("b/tree/empty"), fs::Permissions::from_mode(0o711)).unwrap();
    let receivers = ["a", "b"].map(|name| place.recv(name).start());
    place.send("s").arg(place.path("tree")).args("--receivers 2").run().expect(0);
    for receiver in receivers {
        receiver.end().expect(0);
    }
    for (name, expected) in [("empty", 0o750), ("closed", 0o555), ("private", 0o700)] {
        assert_eq!(mode(&place.path("a/tree").join(name)), expected, "{name}");
    }
    assert_eq!(mode(&place.path("b/tree/empty")), 0o711);
    assert_eq!(files(&place.path("a/tree")), files(&place.path("tree")));
    for out in ["a", "b", ""] {
        fs::set_permissions(place.path(out).join("tree/closed"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn an_empty_directory_alone_arrives() {
    need_multicast!();
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    let receiver = place.recv("a").start();
    place.send("s").arg(place.path("empty")).args("--receivers 1").run().expect(0);
    receiver.end().expect(0);
    assert!(place.path("a/empty").is_dir());
}

#[test]
fn link_named_on_the_command_line_arrives_as_contents() {
    need_multicast!();
    let place = Place::new();
    let (small, big) = (place.file("small", 1000), place.file("big", 400_000));
    symlink(&small, place.path("to-small")).unwrap();
    symlink(&big, place.path("to-big")).unwrap();
    let receiver = place.recv("a").start();
    let job = place.send("s").arg(place.path("to-small")).arg(place.path("to-big"));
    job.args("--receivers 1").run().expect(0);
    receiver.end().expect(0);
    for (link, file) in [("to-small", small), ("to-big", big)] {
        assert_eq!(fs::read(place.path("a").join(link)).unwrap(), fs::read(file).unwrap());
        assert!(!place.path("a").join(link).is_symlink());
    }
}
