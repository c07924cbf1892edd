//! The encryption keys of the database: from a file, or from the kernel's keyring, where they are on no disk at all.
//!
//! Source: keyrings(7), user-keyring(7), keyctl(1).

use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};
use objectstore::{Seal, SealError};

use crate::{
    config::{Config, DatabaseKeys},
    metamanager,
};

/// Why the keys of the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The keys of the file are invalid.
    #[error("database.keyFile cannot be used")]
    File(#[source] SealError),
    /// The keys of the keyring are invalid.
    #[error("database.keyring cannot be used")]
    Keyring(#[source] SealError),
    /// The keyring does not have the key.
    #[error(
        "database.keyring cannot be used: the kernel's keyring has no key {0:?}; add it as the agent's user before the agent starts: \
         `keyctl padd user {0:?} @u <FILE`"
    )]
    Missing(String),
    /// The keyring cannot be read.
    #[error(
        "database.keyring cannot be used: the kernel refuses to read the key {description:?}; make it readable for the agent's user, \
         and allow keyctl(2) in the agent's container"
    )]
    Refused {
        /// The description of the key.
        description: String,
        /// The error of the kernel.
        source: KeyError,
    },
}

/// Returns the encryption of the store of a configured agent; `None` if it is not encrypted.
///
/// # Errors
/// The keys cannot be read.
pub fn seal(config: &Config) -> Result<Option<Seal>, KeysError> {
    let resources = metamanager::confidential();
    match &config.database_keys {
        None => Ok(None),
        Some(DatabaseKeys::File(path)) => Seal::from_file(path, resources)
            .map(Some)
            .map_err(KeysError::File),
        Some(DatabaseKeys::Keyring(description)) => {
            let keys = read_key(description).and_then(|key| key.read_to_vec());
            let keys = keys.map_err(|source| match source {
                KeyError::KeyDoesNotExist => KeysError::Missing(description.clone()),
                source => KeysError::Refused {
                    description: description.clone(),
                    source,
                },
            })?;
            let place = format!("the key {description:?} of the kernel's keyring");
            let seal = Seal::from_text(&place, &String::from_utf8_lossy(&keys), resources);
            seal.map(Some).map_err(KeysError::Keyring)
        }
    }
}

/// Returns the key of type `user` with this description from the keyring of the session, or of the user, which a service's
/// session need not link.
fn read_key(description: &str) -> Result<Key, KeyError> {
    let process = KeyRing::from_special_id(KeyRingIdentifier::Process, true)?;
    // only keys that this process's keyrings link to may be read
    process.link_keyring(KeyRing::from_special_id(KeyRingIdentifier::User, true)?)?;
    process.request_key(description, None::<&str>)
}
