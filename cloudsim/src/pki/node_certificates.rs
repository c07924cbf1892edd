//! Which certificates nodes are known by: given by this cloud, and neither taken back nor replaced.
//!
//! A name is held from the first connection with its certificate until that certificate has expired, the Node is deleted, or an
//! administrator resets the name. Meanwhile no join token gives a certificate for it. A certificate that is not on record for
//! its name is refused, whoever signed it. Names of which there is no record yet (the cloud is an older one's, or its authority
//! was used elsewhere) are taken on record with the certificate that comes first.
//!
//! Kept in the store under the API, in a collection that the API does not serve.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kubeapi::store::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::enroll::{sha256_hex, validity_of};

/// Certificates of a name that are remembered, the newest: a node that has renewed its own may still come with the one before.
const MAX_CERTIFICATES: usize = 16;
/// How often a change is tried while others change the same record.
const ATTEMPTS: usize = 8;

/// The records; cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeCertificates {
    store: Arc<dyn Store>,
}

/// Why a record could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store failed.
    #[error("the record of node certificates cannot be read or written")]
    Store(#[from] StoreError),
    /// It was changed by others each time.
    #[error("the record of the node's certificates is changed by others all the time; try again")]
    Busy,
    /// It holds something else.
    #[error("the record of the node's certificates is damaged; reset the node with `cloudsim node reset`")]
    Damaged(#[source] serde_json::Error),
}

/// What is known of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The certificates that it may show, the newest last.
    certificates: Vec<Given>,
    /// The uid of the Node that the node has, once it has one: when that is gone, so is the right to the name.
    #[serde(default)]
    registered: Option<String>,
}

/// A certificate that was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    /// Of the whole certificate, hex.
    sha256: String,
    /// The authority that signed it, the same of its certificate.
    authority: String,
    /// When it expires, seconds since 1970.
    not_after: u64,
    /// Whether a node has come with it.
    used: bool,
    /// The join token that it was given for, where that one has a name.
    #[serde(default)]
    token: Option<String>,
}

impl Record {
    fn find(&mut self, sha256: &str) -> Option<&mut Given> {
        self.certificates.iter_mut().find(|given| given.sha256 == sha256)
    }

    /// Whether a node of this name is alive: one that has come with a certificate of `authority` that is good at `now`, or was
    /// `grace` ago.
    fn is_held(&self, authority: &str, grace: Duration, now: u64) -> bool {
        let good = |given: &Given| given.not_after.saturating_add(grace.as_secs()) > now;
        self.certificates.iter().any(|given| given.used && given.authority == authority && good(given))
    }

    fn add(&mut self, given: Given) {
        self.certificates.retain(|other| other.sha256 != given.sha256);
        self.certificates.push(given);
        let surplus = self.certificates.len().saturating_sub(MAX_CERTIFICATES);
        self.certificates.drain(..surplus);
    }
}

/// Whether a name may be given by a join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Nothing is on record.
    Unknown,
    /// Nobody has it.
    Free,
    /// A node has it.
    Held,
}

impl NodeCertificates {
    /// The records in the store of the API.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Whether the name may be given. `authority` (DER) is the one that would sign; a certificate that expired less than `grace` ago
    /// can still be renewed.
    pub async fn name(&self, node: &str, authority: &[u8], grace: Duration) -> Result<Name, RecordError> {
        let Some((record, _)) = self.read(node).await? else { return Ok(Name::Unknown) };
        let held = record.is_held(&sha256_hex(authority), grace, now());
        Ok(if held { Name::Held } else { Name::Free })
    }

    /// Whether the name's newest certificate was given for this join token and has not been used: its answer was lost.
    pub async fn is_repeated(&self, node: &str, token: &str) -> Result<bool, RecordError> {
        let Some((record, _)) = self.read(node).await? else { return Ok(false) };
        let newest = record.certificates.last();
        Ok(newest.is_some_and(|given| !given.used && given.token.as_deref() == Some(token)))
    }

    /// A certificate (DER, as its authority's) was given for a join token, where that one has a name: it is the name's only one from now
    /// on. Not where a node has come with the name meanwhile (see [`Self::name`]): then this is false, and nobody may have it.
    pub async fn begun(
        &self,
        node: &str,
        (certificate, authority): (&[u8], &[u8]),
        grace: Duration,
        token: Option<&str>,
    ) -> Result<bool, RecordError> {
        let given = Given { token: token.map(str::to_owned), ..given(certificate, authority) };
        let mut begins = false;
        let change = |record: Option<Record>| {
            begins = !record.is_some_and(|record| record.is_held(&given.authority, grace, now()));
            begins.then(|| Record { certificates: vec![given.clone()], registered: None })
        };
        self.change(node, change).await?;
        Ok(begins)
    }

    /// A certificate was given for an older one of the same node, which stays good.
    pub async fn renewed(&self, node: &str, certificate: &[u8], authority: &[u8]) -> Result<(), RecordError> {
        let given = given(certificate, authority);
        let change = |record: Option<Record>| {
            let mut record = record.unwrap_or_default();
            record.add(given.clone());
            Some(record)
        };
        self.change(node, change).await.map(drop)
    }

    /// Whether the node may come with this certificate, which TLS has verified; it is the node's from then on.
    pub async fn admit(&self, node: &str, certificate: &[u8], authority: &[u8]) -> Result<bool, RecordError> {
        let shown = Given { used: true, ..given(certificate, authority) };
        if let Some((mut record, _)) = self.read(node).await? {
            match record.find(&shown.sha256) {
                None => return Ok(false),
                Some(known) if known.used => return Ok(true),
                Some(_) => {}
            }
        }
        let mut admitted = false;
        let change = |record: Option<Record>| match record {
            None => {
                admitted = true;
                Some(Record { certificates: vec![shown.clone()], registered: None })
            }
            Some(mut record) => {
                let known = record.find(&shown.sha256);
                admitted = known.is_some();
                known?.used = true;
                Some(record)
            }
        };
        self.change(node, change).await?;
        Ok(admitted)
    }

    /// The node has the Node of this uid.
    pub async fn registered(&self, node: &str, uid: &str) -> Result<(), RecordError> {
        let change = |record: Option<Record>| {
            let mut record = record.filter(|record| !record.certificates.is_empty())?;
            record.registered = Some(uid.to_owned());
            Some(record)
        };
        self.change(node, change).await.map(drop)
    }

    /// The uid of the node's Node, where it has had one since it joined.
    pub async fn uid(&self, node: &str) -> Result<Option<String>, RecordError> {
        Ok(self.read(node).await?.and_then(|(record, _)| record.registered))
    }

    /// Takes all certificates of the name back. The name is free then. Whether there were any.
    pub async fn reset(&self, node: &str) -> Result<bool, RecordError> {
        let mut any = false;
        let change = |record: Option<Record>| {
            any = record.is_some_and(|record| !record.certificates.is_empty());
            Some(Record::default())
        };
        // a damaged record is replaced
        match self.change(node, change).await {
            Err(RecordError::Damaged(_)) => {
                let write = Write {
                    key: key(node),
                    expect: Expect::Anything,
                    value: Some(object(node, &Record::default())),
                };
                self.store.commit(vec![write]).await?;
                Ok(true)
            }
            changed => changed.map(|()| any),
        }
    }

    /// The nodes that have had a Node, with its uid.
    pub async fn all_registered(&self) -> Result<Vec<(String, String)>, RecordError> {
        let scope = Scope { resource: resource(), namespace: None };
        let listing = self.store.list(&scope, &Page::default()).await?;
        let registered = |stored: &kubeapi::store::Object| {
            let uid = read(&stored.value().ok()?).ok()?.registered?;
            Some((stored.key.name.clone(), uid))
        };
        Ok(listing.items.iter().filter_map(registered).collect())
    }

    async fn read(&self, node: &str) -> Result<Option<(Record, u64)>, RecordError> {
        let Some(stored) = self.store.get(&key(node)).await? else { return Ok(None) };
        let record = read(&stored.value()?).map_err(RecordError::Damaged)?;
        Ok(Some((record, stored.revision)))
    }

    /// Changes the record; `change` answers `None` where it is to stay, and is called again when others were faster.
    async fn change(
        &self,
        node: &str,
        mut change: impl FnMut(Option<Record>) -> Option<Record>,
    ) -> Result<(), RecordError> {
        for _ in 0..ATTEMPTS {
            let (before, expect) = match self.read(node).await? {
                Some((record, revision)) => (Some(record), Expect::Revision(revision)),
                None => (None, Expect::Absent),
            };
            let Some(record) = change(before.clone()).filter(|record| before.as_ref() != Some(record)) else {
                return Ok(());
            };
            let write = Write { key: key(node), expect, value: Some(object(node, &record)) };
            match self.store.commit(vec![write]).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Exists(_) | StoreError::Missing(_) | StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RecordError::Busy)
    }
}

fn resource() -> Resource {
    Resource::new("cloudsim", "nodecertificates")
}

fn key(node: &str) -> Key {
    Key::new(resource(), "", node)
}

fn object(node: &str, record: &Record) -> Value {
    json!({"metadata": {"name": node}, "record": record})
}

fn read(object: &Value) -> Result<Record, serde_json::Error> {
    Record::deserialize(object.get("record").unwrap_or(&Value::Null))
}

fn given(certificate: &[u8], authority: &[u8]) -> Given {
    let end = validity_of(certificate).ok().and_then(|(_, end)| end.duration_since(UNIX_EPOCH).ok());
    Given {
        sha256: sha256_hex(certificate),
        authority: sha256_hex(authority),
        not_after: end.unwrap_or_default().as_secs(),
        used: false,
        token: None,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
