//! Keys of signed transfers (Ed25519, RFC 8032).

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use carillon_session::UnknownWord;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::LocalError;
use crate::error::{Context as _, stated};

/// A private key for signing transfers (Ed25519, RFC 8032).
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<Ed25519KeyPair>,
    exposed: bool,
}

/// A public key that identifies a sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerifyingKey([u8; 32]);

impl SigningKey {
    /// Reads a private key in PEM (PKCS #8), as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// The file cannot be read, or contains no such key.
    pub fn read(path: impl AsRef<Path>) -> Result<SigningKey, LocalError> {
        let path = path.as_ref();
        let read = || -> Result<SigningKey, LocalError> {
            let (text, mode) = read_text(path)?;
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pem(&text, "PRIVATE KEY")?);
            let pair = Arc::new(pair.map_err(|error| stated!("not an Ed25519 key: {error}"))?);
            Ok(SigningKey { pair, exposed: mode & 0o006 != 0 })
        };
        read().with_context(|| {
            let path = path.display();
            format!("the signing key {path} (make one with `(umask 077; openssl genpkey -algorithm ed25519 -out {path})`)")
        })
    }

    /// Returns true if users outside the file's owner and group may read or write the key file.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// Signs a text.
    pub(super) fn sign(&self, text: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(text).as_ref());
        signature
    }

    /// The corresponding public key.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        VerifyingKey(bytes)
    }
}

impl VerifyingKey {
    /// Key of these 32 bytes.
    pub(super) fn from_bytes(bytes: [u8; 32]) -> VerifyingKey {
        VerifyingKey(bytes)
    }

    /// The 32 bytes of the key (RFC 8032).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads a public key in PEM, as `openssl pkey -pubout` writes it.
    ///
    /// # Errors
    /// The file cannot be read, or contains no such key.
    pub fn read(path: impl AsRef<Path>) -> Result<VerifyingKey, LocalError> {
        let path = path.as_ref();
        let read = || -> Result<VerifyingKey, LocalError> {
            let bytes = pem(&read_text(path)?.0, "PUBLIC KEY")?;
            let key = bytes.strip_prefix(&PUBLIC_KEY_PREFIX).and_then(|key| key.try_into().ok());
            key.map(VerifyingKey).context("not an Ed25519 key")
        };
        read().with_context(|| {
            let path = path.display();
            format!(
                "the public key {path} (the sender makes it with `openssl pkey -in KEY -pubout -out {path}`)"
            )
        })
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl FromStr for VerifyingKey {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(VerifyingKey).ok_or(UnknownWord { expected: "the 32 bytes of a public key in base64" })
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({self})")
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.verifying_key())
    }
}

/// Reads a text file and its permission bits; 0 for pipes, which only their creators can access.
fn read_text(path: &Path) -> Result<(String, u32), LocalError> {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    let mode = if metadata.is_file() { metadata.mode() } else { 0 };
    let mut text = String::new();
    file.take(MAX_KEY_FILE_BYTES).read_to_string(&mut text)?;
    Ok((text, mode))
}

/// Maximum bytes read from a key file, more than any key has.
const MAX_KEY_FILE_BYTES: u64 = 65_536;

/// Decodes the PEM section of this label (RFC 7468).
fn pem(text: &str, label: &str) -> Result<Vec<u8>, LocalError> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let Some((_, rest)) = text.split_once(&begin) else {
        return Err(stated!("it does not begin with {begin}"));
    };
    let (body, _) = rest.split_once(&end).with_context(|| format!("it does not end with {end}"))?;
    let body: String = body.split_ascii_whitespace().collect();
    BASE64.decode(body).context("it is not in base64")
}

/// DER prefix of an Ed25519 public key (RFC 8410, section 4).
const PUBLIC_KEY_PREFIX: [u8; 12] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00];
