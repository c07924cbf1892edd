//! What is known of a name: pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::enroll::{key_sha256_of, sha256_hex, validity_of};

/// Certificates of a name that are remembered, the newest: a node that has renewed its own may still come with the one before.
pub(super) const MAX_CERTIFICATES: usize = 16;

/// What is known of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The certificates that it may show, the newest last.
    pub(super) certificates: Vec<IssuedCertificate>,
    /// The uid of the Node that the node has, once it has one: when that is gone, so is the right to the name.
    #[serde(default)]
    pub(super) registered: Option<String>,
    /// What was on record was lost with the cloud's database: no certificate counts, since it may have been taken back, and no token
    /// gives another one, since the name may have been a node's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) withheld: bool,
}

/// A certificate that was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuedCertificate {
    /// Of the whole certificate, hex.
    pub(super) sha256: String,
    /// The authority that signed it, the same of its certificate.
    pub(super) authority: String,
    /// When it expires, seconds since 1970.
    pub(super) not_after: u64,
    /// Whether a node has come with it.
    pub(super) used: bool,
    /// The join token that it was given for, where that one has a name.
    #[serde(default)]
    pub(super) token: Option<String>,
    /// Of the public key that it is for, hex; older records do not have it.
    #[serde(default)]
    pub(super) key: Option<String>,
}

impl Record {
    /// Of a name whose record was lost. `closed`: certificates of it may be shown and verified.
    pub(super) fn lost(closed: bool) -> Self {
        Self { withheld: closed, ..Self::default() }
    }

    /// With one certificate.
    pub(super) fn of(given: IssuedCertificate) -> Self {
        Self { certificates: vec![given], ..Self::default() }
    }

    /// Whether there is anything to take back.
    pub(super) fn has_any(&self) -> bool {
        self.withheld || !self.certificates.is_empty()
    }

    pub(super) fn find(&mut self, sha256: &str) -> Option<&mut IssuedCertificate> {
        self.certificates.iter_mut().find(|given| given.sha256 == sha256).filter(|_| !self.withheld)
    }

    /// Whether a node of this name is alive: one that has come with a certificate of `authority` that is good at `now`, or was
    /// `grace` ago.
    pub(super) fn is_held(&self, authority: &str, grace: Duration, now: u64) -> bool {
        let good = |given: &IssuedCertificate| given.not_after.saturating_add(grace.as_secs()) > now;
        let alive = |given: &IssuedCertificate| given.used && given.authority == authority && good(given);
        self.withheld || self.certificates.iter().any(alive)
    }

    /// Whether the newest certificate was given for this join token and this key, and has not been used.
    pub(super) fn is_repeated(&self, token: &str, key: &str) -> bool {
        let is_same = |given: &IssuedCertificate| {
            !given.used && given.token.as_deref() == Some(token) && given.key.as_deref() == Some(key)
        };
        !self.withheld && self.certificates.last().is_some_and(is_same)
    }

    pub(super) fn add(&mut self, given: IssuedCertificate) {
        self.certificates.retain(|other| other.sha256 != given.sha256);
        self.certificates.push(given);
        let surplus = self.certificates.len().saturating_sub(MAX_CERTIFICATES);
        self.certificates.drain(..surplus);
    }
}

/// The record as it is stored.
pub(super) fn object(node: &str, record: &Record) -> Value {
    json!({"metadata": {"name": node}, "record": record})
}

/// What is stored as a record.
pub(super) fn read(object: &Value) -> Result<Record, serde_json::Error> {
    Record::deserialize(object.get("record").unwrap_or(&Value::Null))
}

/// A certificate (DER, as its authority's) that nobody has come with.
pub(super) fn given(certificate: &[u8], authority: &[u8]) -> IssuedCertificate {
    let end = validity_of(certificate).ok().and_then(|(_, end)| end.duration_since(UNIX_EPOCH).ok());
    IssuedCertificate {
        sha256: sha256_hex(certificate),
        authority: sha256_hex(authority),
        not_after: end.unwrap_or_default().as_secs(),
        used: false,
        token: None,
        key: key_sha256_of(certificate).ok(),
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
