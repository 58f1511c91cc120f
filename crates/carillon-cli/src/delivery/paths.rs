//! Paths in JSON, and the entries of a transfer that are not sent.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carillon_transfer::files::Loss;
use carillon_transfer::{Deleted, Skipped};
use serde_json::{Value, json};

use super::notice;

/// Adds a path to a JSON object under this key. In a path that is not UTF-8, U+FFFD replaces invalid bytes, and the
/// exact bytes are added in base64 under the key with the suffix `_bytes`.
pub fn with_path(mut object: Value, key: &str, path: &Path) -> Value {
    let bytes = path.as_os_str().as_bytes();
    object[key] = path.to_string_lossy().into();
    if std::str::from_utf8(bytes).is_err() {
        object[format!("{key}_bytes")] = STANDARD.encode(bytes).into();
    }
    object
}

/// The entries that were not sent.
pub fn skipped_json(skipped: &[Skipped]) -> Value {
    let one = |Skipped { path, reason, .. }: &Skipped| {
        let object =
            json!({ "kind": reason.name(), "reason": reason.to_string(), "wanted": reason.is_wanted() });
        with_path(object, "path", path)
    };
    skipped.iter().map(one).collect()
}

/// The entries that a receiver could not store.
pub fn unstored_json(unstored: &[(PathBuf, String)]) -> Value {
    unstored.iter().map(|(path, reason)| with_path(json!({ "reason": reason }), "path", path)).collect()
}

/// Paths, each in an object.
pub fn paths_json(paths: &[PathBuf]) -> Value {
    paths.iter().map(|path| with_path(json!({}), "path", path)).collect()
}

/// Attributes that a receiver could not store.
pub fn losses_json(losses: &[Loss]) -> Value {
    let one = |loss: &Loss| {
        let paths: Vec<Value> = loss
            .names
            .iter()
            .map(|name| with_path(json!({}), "path", Path::new(OsStr::from_bytes(name))))
            .collect();
        json!({ "what": loss.what, "reason": loss.reason, "count": loss.count, "paths": paths })
    };
    losses.iter().map(one).collect()
}

/// Deleted entries: their number, and the paths that are known.
pub fn deleted_json(deleted: &Deleted) -> Value {
    json!({ "count": deleted.count, "paths": paths_json(&deleted.paths) })
}

/// Links that were followed out of the tree.
pub fn followed_out_json(links: &[(PathBuf, PathBuf)]) -> Value {
    links
        .iter()
        .map(|(link, target)| with_path(with_path(json!({}), "path", link), "target", target))
        .collect()
}

/// Prints the number of entries that were not sent. They were listed at the start.
pub fn say_skip_count(skipped: &[Skipped]) {
    match skipped.iter().filter(|skipped| !skipped.reason.is_wanted()).count() {
        0 => {}
        1 => notice("1 entry was skipped, as listed above"),
        count => notice(format_args!("{count} entries were skipped, as listed above")),
    }
}
