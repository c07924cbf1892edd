//! Encryption at rest: objects of some collections are encrypted (sealed), each bound to its key and revision, so that a copy of the
//! file reveals no Secret and a moved row is detected.
//!
//! A sealed value is `0x01`, four bytes that name the key, a nonce of twelve bytes, and what AES-256-GCM made of the JSON; a JSON
//! object never begins with `0x01`. The key file has one key of 32 bytes in base64 a line; `#` begins a comment. The first key
//! seals, all of them open: a key is changed by writing a new one above the old.
//!
//! Source: RFC 5116 (`AEAD_AES_256_GCM`); NIST SP 800-38D for how often a key may be used with random nonces (2^32).

use std::{
    fmt, fs,
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};

use crate::{Key, Resource};

/// The first byte of a sealed value.
pub(super) const MARK: u8 = 1;
const NAME_LEN: usize = 4;
const HEAD_LEN: usize = 1 + NAME_LEN + NONCE_LEN;
const KEY_LEN: usize = 32;
/// The largest key file in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Why keys cannot be used, or a value cannot be decrypted.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key file cannot be read.
    #[error("cannot read the key file {path}; `db new-key {path}` creates one")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users may read the key file.
    #[error("the key file {0} is readable by other users; run `chmod 600 {0}`")]
    Open(PathBuf),
    /// A line of the key file is not a key.
    #[error(
        "line {line} of {place} is not a 32-byte key in base64; remove the line, or restore it from a copy"
    )]
    NoKey {
        /// What holds the keys.
        place: String,
        /// The line number, from 1.
        line: usize,
    },
    /// There is no key.
    #[error("{0} has no key; `db new-key FILE` creates one")]
    Empty(String),
    /// A value was sealed with another key.
    #[error(
        "{0} was encrypted with an unknown key; add this key below the others, or move the database away: the cloud sends a node's objects again, a cloud's objects are lost"
    )]
    WrongKey(Key),
    /// A value was changed or moved to another object.
    #[error("{0} was changed after it was encrypted")]
    Forged(Key),
    /// A value is encrypted, and no key is given.
    #[error(
        "{0} is encrypted, and the key is missing; name the key (edge-agent: database.keyFile or database.keyring in edgecore.yaml; cloudsim: --key-file), or move the database away: the cloud sends a node's objects again, a cloud's objects are lost"
    )]
    NotGiven(Key),
    /// The key file cannot be written.
    #[error("cannot write the key file {path}; check permissions and free space of its directory")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("the system returned no random numbers, so nothing can be encrypted")]
    NoRandomness,
}

/// The encrypted collections and the keys. Cheap to clone.
#[derive(Clone)]
pub struct Seal(Arc<Inner>);

struct Inner {
    /// The keys; the first one encrypts. Never empty.
    keys: Vec<NamedKey>,
    resources: Vec<Resource>,
}

struct NamedKey {
    name: [u8; NAME_LEN],
    key: LessSafeKey,
}

/// Opens a key file. A pipe without a writer would hold up the program.
fn open_regular(path: &Path) -> io::Result<fs::File> {
    if fs::metadata(path)?.is_file() {
        return fs::File::open(path);
    }
    let why = "it is not a regular file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Reports whether only the owner can read a file. A credential of systemd is `root:root` with mode 0440 where its user is in an ACL,
/// whose mask is shown as the group's permissions.
fn is_private(mode: u32, user: u32, group: u32) -> bool {
    let is_credential = mode & 0o777 == 0o440 && user == 0 && group == 0;
    mode & 0o077 == 0 || is_credential
}

impl Seal {
    /// Reads the keys in the file at `path`, for these collections.
    ///
    /// # Errors
    /// The file is missing, readable by others, or not a key file.
    pub fn from_file(path: &Path, resources: Vec<Resource>) -> Result<Self, SealError> {
        let read = |source| SealError::Read {
            path: path.to_owned(),
            source,
        };
        let file = open_regular(path).map_err(read)?;
        let found = file.metadata().map_err(read)?;
        if !is_private(found.mode(), found.uid(), found.gid()) {
            return Err(SealError::Open(path.to_owned()));
        }
        let mut text = String::new();
        file.take(MAX_FILE)
            .read_to_string(&mut text)
            .map_err(read)?;
        Self::from_text(
            &format!("the key file {}", path.display()),
            &text,
            resources,
        )
    }

    /// Parses the content of a key file, for these collections. `place` names its origin in errors.
    ///
    /// # Errors
    /// It holds no key, or something else.
    pub fn from_text(place: &str, text: &str, resources: Vec<Resource>) -> Result<Self, SealError> {
        let mut keys = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let no_key = || SealError::NoKey {
                    place: place.to_owned(),
                    line: number + 1,
                };
                keys.push(NamedKey::read(line).ok_or_else(no_key)?);
            }
        }
        if keys.is_empty() {
            return Err(SealError::Empty(place.to_owned()));
        }
        Ok(Self(Arc::new(Inner { keys, resources })))
    }

    /// Generates a key as a line of a key file.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new_key() -> Result<String, SealError> {
        let mut key = [0; KEY_LEN];
        SystemRandom::new()
            .fill(&mut key)
            .map_err(|_| SealError::NoRandomness)?;
        Ok(STANDARD.encode(key))
    }

    /// Adds a new key at the top of the key file at `path`, which is created where it is missing; the existing keys stay below it. The
    /// file is replaced atomically.
    ///
    /// # Errors
    /// The existing file is not a key file, or it cannot be written.
    pub fn add_key(path: &Path) -> Result<(), SealError> {
        let read = |source| SealError::Read {
            path: path.to_owned(),
            source,
        };
        let old = match open_regular(path) {
            Ok(file) => io::read_to_string(file.take(MAX_FILE)).map_err(read)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(read(error)),
        };
        if !old.is_empty() {
            // what is no key file is not made one
            Self::from_file(path, Vec::new())?;
        }
        let text = format!("{}\n{old}", Self::new_key()?);
        replace(path, &text).map_err(|source| SealError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Reports whether values of this collection are encrypted.
    pub(super) fn covers(&self, resource: &Resource) -> bool {
        self.0.resources.contains(resource)
    }

    /// Reports whether the value is encrypted with the current key, or rightly not at all.
    pub(super) fn is_up_to_date(&self, resource: &Resource, value: &[u8]) -> bool {
        match value {
            [MARK, rest @ ..] => self.covers(resource) && rest.starts_with(&self.0.keys[0].name),
            _ => !self.covers(resource),
        }
    }

    /// Encrypts a value for the disk, where its collection is covered.
    pub(super) fn seal(&self, key: &Key, revision: u64, json: &[u8]) -> Result<Vec<u8>, SealError> {
        let NamedKey { name, key: secret } = &self.0.keys[0];
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| SealError::NoRandomness)?;
        let mut value = Vec::with_capacity(HEAD_LEN + json.len() + AES_256_GCM.tag_len());
        value.push(MARK);
        value.extend_from_slice(name);
        value.extend_from_slice(&nonce);
        let mut body = json.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        // it fails for what is longer than any memory only
        secret
            .seal_in_place_append_tag(nonce, Aad::from(place(key, revision)), &mut body)
            .map_err(|_| SealError::Forged(key.clone()))?;
        value.append(&mut body);
        Ok(value)
    }

    /// Decrypts a value.
    pub(super) fn open(
        &self,
        key: &Key,
        revision: u64,
        mut value: Vec<u8>,
    ) -> Result<Vec<u8>, SealError> {
        let forged = || SealError::Forged(key.clone());
        let name = value.get(1..1 + NAME_LEN).ok_or_else(forged)?;
        let secret = self.0.keys.iter().find(|one| one.name == name);
        let secret = secret.ok_or_else(|| SealError::WrongKey(key.clone()))?;
        let nonce = value.get(1 + NAME_LEN..HEAD_LEN).ok_or_else(forged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| forged())?;
        let mut body = value.split_off(HEAD_LEN);
        let opened = secret
            .key
            .open_in_place(nonce, Aad::from(place(key, revision)), &mut body);
        let length = opened.map_err(|_| forged())?.len();
        body.truncate(length);
        Ok(body)
    }
}

impl NamedKey {
    fn read(line: &str) -> Option<Self> {
        let bytes = STANDARD
            .decode(line)
            .ok()
            .filter(|bytes| bytes.len() == KEY_LEN)?;
        let name = digest(&SHA256, &bytes).as_ref().first_chunk().copied()?;
        Some(Self {
            name,
            key: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?),
        })
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // a path without a folder is in the working directory
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::File::open(folder)?.sync_all()
}

/// Returns the associated data, which binds a value to its key and revision.
fn place(key: &Key, revision: u64) -> Vec<u8> {
    format!(
        "{}\0{}\0{}\0{revision}",
        key.resource, key.namespace, key.name
    )
    .into_bytes()
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal")
            .field("keys", &self.0.keys.len())
            .field("resources", &self.0.resources)
            .finish()
    }
}

#[cfg(test)]
mod tests;
