//! The record of a name. Pure.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::enroll::{key_sha256_of, sha256_hex, validity_of};

/// The newest certificates of a name that are kept: a node that has renewed its own may still connect with the one before.
pub(super) const MAX_CERTIFICATES: usize = 16;

/// The record of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The certificates that the node may show, the newest last.
    pub(super) certificates: Vec<IssuedCertificate>,
    /// The uid of the node's Node, once there is one: when that Node is deleted, the name is free.
    #[serde(default)]
    pub(super) registered: Option<String>,
    /// Whether the record was lost with the cloud's database: no certificate is valid, since it may have been revoked, and no token gives
    /// another one, since a node may have the name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) withheld: bool,
}

/// An issued certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuedCertificate {
    /// The SHA-256 of the certificate, hex.
    pub(super) sha256: String,
    /// The SHA-256 of the CA certificate that signed it.
    pub(super) authority: String,
    /// Its expiry, seconds since 1970.
    pub(super) not_after: u64,
    /// Whether a node has connected with it.
    pub(super) used: bool,
    /// The id of the join token for which it was issued, if it has one.
    #[serde(default)]
    pub(super) token: Option<String>,
    /// The SHA-256 of its public key, hex; older records lack it.
    #[serde(default)]
    pub(super) key: Option<String>,
}

impl Record {
    /// Creates the placeholder of a lost record. `closed` if certificates of the name can still be verified.
    pub(super) fn lost(closed: bool) -> Self {
        Self {
            withheld: closed,
            ..Self::default()
        }
    }

    /// Creates a record with one certificate.
    pub(super) fn of(given: IssuedCertificate) -> Self {
        Self {
            certificates: vec![given],
            ..Self::default()
        }
    }

    /// Reports whether there is anything to revoke.
    pub(super) fn has_any(&self) -> bool {
        self.withheld || !self.certificates.is_empty()
    }

    pub(super) fn find(&mut self, sha256: &str) -> Option<&mut IssuedCertificate> {
        self.certificates
            .iter_mut()
            .find(|given| given.sha256 == sha256)
            .filter(|_| !self.withheld)
    }

    /// Reports whether a node of this name is alive: it has connected with a certificate of `authority` that is valid at `now`, or
    /// expired less than `grace` ago.
    pub(super) fn is_held(&self, authority: &str, grace: Duration, now: u64) -> bool {
        let good =
            |given: &IssuedCertificate| given.not_after.saturating_add(grace.as_secs()) > now;
        let alive =
            |given: &IssuedCertificate| given.used && given.authority == authority && good(given);
        self.withheld || self.certificates.iter().any(alive)
    }

    /// Reports whether the newest certificate was issued for this join token and key, and was not used.
    pub(super) fn is_repeated(&self, token: &str, key: &str) -> bool {
        let is_same = |given: &IssuedCertificate| {
            !given.used
                && given.token.as_deref() == Some(token)
                && given.key.as_deref() == Some(key)
        };
        !self.withheld && self.certificates.last().is_some_and(is_same)
    }

    pub(super) fn add(&mut self, given: IssuedCertificate) {
        self.certificates
            .retain(|other| other.sha256 != given.sha256);
        self.certificates.push(given);
        let surplus = self.certificates.len().saturating_sub(MAX_CERTIFICATES);
        self.certificates.drain(..surplus);
    }
}

/// Returns the record as it is stored.
pub(super) fn object(node: &str, record: &Record) -> Value {
    json!({"metadata": {"name": node}, "record": record})
}

/// Reads a stored record.
pub(super) fn read(object: &Value) -> Result<Record, serde_json::Error> {
    Record::deserialize(object.get("record").unwrap_or(&Value::Null))
}

/// Returns an unused certificate (DER, as its authority's).
pub(super) fn unused_certificate(certificate: &[u8], authority: &[u8]) -> IssuedCertificate {
    let end = validity_of(certificate)
        .ok()
        .and_then(|(_, end)| end.duration_since(UNIX_EPOCH).ok());
    IssuedCertificate {
        sha256: sha256_hex(certificate),
        authority: sha256_hex(authority),
        not_after: end.unwrap_or_default().as_secs(),
        used: false,
        token: None,
        key: key_sha256_of(certificate).ok(),
    }
}

/// Returns the seconds since 1970.
pub(super) fn now() -> u64 {
    clock::since_unix_epoch().as_secs()
}
