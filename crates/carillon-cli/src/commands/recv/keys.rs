//! Keys that a receiver trusts, and the file that remembers signing times.

use std::path::{Path, PathBuf};

use carillon_transfer::VerifyingKey;

use crate::delivery::notice;

/// Parses a public key: a file, or the key itself in base64.
pub(super) fn trusted(text: &str) -> Result<VerifyingKey, String> {
    text.parse().or_else(|_| VerifyingKey::read(text).map_err(|error| error.to_string()))
}

/// Returns the default file for signing times, or `None` with a warning if it cannot be written.
pub(super) fn default_history() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = of("STATE_DIRECTORY").or_else(|| of("XDG_STATE_HOME"));
    let state = state.or_else(|| of("HOME").map(|home| home.join(".local/state")));
    let path = state.unwrap_or_else(|| "/var/lib".into()).join("carillon/accepted");
    match can_be_used(&path) {
        Ok(()) => Some(path),
        Err(error) => {
            notice(format_args!(
                "cannot remember signatures in {} ({error}): an older transfer that is sent again would be taken as new. \
                 Name a file with --trust-history",
                path.display()
            ));
            None
        }
    }
}

/// Checks that a file can be created and written there.
fn can_be_used(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}
