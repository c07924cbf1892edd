//! The checksum of a stored object: of its value as it lies on the disk, and of the place and revision that it belongs to, so that a
//! value that is found changed, cut or in another's place is noticed when it is read.
//!
//! Source: CRC-32 (ISO-HDLC): finds every change of up to 32 bits in a row, and of two bits in any object of up to 512 MiB.

use crc32fast::Hasher;

use crate::Key;

/// As it stands in the column `checksum`.
pub(super) fn checksum(key: &Key, revision: u64, value: &[u8]) -> i64 {
    let mut hasher = Hasher::new();
    for part in [key.resource.as_str(), &key.namespace, &key.name] {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.update(&revision.to_be_bytes());
    hasher.update(value);
    hasher.finalize().into()
}
