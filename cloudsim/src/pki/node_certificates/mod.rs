//! The certificates of nodes that are valid: issued by this cloud, and neither revoked nor replaced.
//!
//! A name is held from the first connection with its certificate until that certificate has expired, the Node is deleted, or an
//! administrator resets the name. Meanwhile no join token gives a certificate for it. A certificate that is not recorded for its name is
//! refused, whoever signed it. For a name without a record (of an older cloud, or whose CA was used elsewhere) the certificate that comes
//! first is recorded.
//!
//! What was lost with a damaged database counts as held and as revoked ([`LostRecords`]).
//!
//! The storage is [`Records`].

use std::{sync::Arc, time::Duration};

use kube::Client;
use objectstore::{Key, Resource, Store};
use wire::enroll::sha256_hex;

pub use self::lost::LostRecords;
use self::record::{IssuedCertificate, Record, now, object, read, unused_certificate};
use super::records::{Change, Precondition, RecordEntry, Records, RecordsError};

mod lost;
mod record;

/// How often a change is tried when others change the same record.
const MAX_ATTEMPTS: usize = 8;
/// The record for all names without one, if records were lost; no node can have this name.
pub const UNKNOWN: &str = "*";

/// The records of nodes' certificates; cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeCertificates {
    records: Records,
}

/// A record could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store, or the cluster, failed.
    #[error("cannot access the record of node certificates in the store")]
    Store(#[source] RecordsError),
    /// It was changed by others at each attempt.
    #[error("too many conflicting changes of the node's certificate record; try again")]
    Busy,
    /// It has invalid contents.
    #[error(
        "the record of the node's certificates is damaged; run `cloudsim node reset NAME` to revoke them, and join the machine again"
    )]
    Damaged(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Whether a join token can give a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// There is no record.
    Unknown,
    /// No node holds it.
    Free,
    /// A node holds it.
    Held,
    /// Its record was lost.
    Lost,
}

impl From<RecordsError> for RecordError {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Damaged(..) => Self::Damaged(Box::new(error)),
            error => Self::Store(error),
        }
    }
}

impl NodeCertificates {
    /// The kind of the records.
    pub(crate) const KIND: &str = "nodecertificates";

    /// Uses records in the store of the API.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            records: Records::in_store(Self::KIND, store),
        }
    }

    /// Uses records in a cluster.
    pub fn in_cluster(client: &Client) -> Self {
        Self {
            records: Records::in_cluster(Self::KIND, client),
        }
    }

    /// Returns whether the name can be given. `authority` (DER) is the CA that would sign; a certificate that expired less than `grace`
    /// ago can still be renewed.
    pub async fn name(
        &self,
        node: &str,
        authority: &[u8],
        grace: Duration,
    ) -> Result<Name, RecordError> {
        let Some(record) = self.read(node).await?.0 else {
            return Ok(Name::Unknown);
        };
        let held = record.is_held(&sha256_hex(authority), grace, now());
        Ok(match (record.withheld, held) {
            (true, _) => Name::Lost,
            (false, true) => Name::Held,
            (false, false) => Name::Free,
        })
    }

    /// Reports whether the record of the name was lost.
    pub async fn is_lost(&self, node: &str) -> Result<bool, RecordError> {
        Ok(self
            .read(node)
            .await?
            .0
            .is_some_and(|record| record.withheld))
    }

    /// Reports whether the name's newest certificate was issued for this join token and for the key of `certificate`, and was not used:
    /// its answer was lost. Another key belongs to another machine.
    pub async fn is_repeated(
        &self,
        node: &str,
        token: &str,
        certificate: &[u8],
    ) -> Result<bool, RecordError> {
        let (Some(record), Some(key)) = (
            self.read(node).await?.0,
            unused_certificate(certificate, &[]).key,
        ) else {
            return Ok(false);
        };
        Ok(record.is_repeated(token, &key))
    }

    /// Records a certificate (DER, as its authority's) that was issued for a join token with this id, if it has one: it replaces all
    /// others of the name. Returns false if a node has connected with the name meanwhile (see [`Self::name`]); the certificate must then
    /// be discarded.
    pub async fn record_issued(
        &self,
        node: &str,
        certificate: &[u8],
        authority: &[u8],
        grace: Duration,
        token: Option<&str>,
    ) -> Result<bool, RecordError> {
        let given = IssuedCertificate {
            token: token.map(str::to_owned),
            ..unused_certificate(certificate, authority)
        };
        let mut begins = false;
        let change = |record: Option<Record>| {
            begins = !record.is_some_and(|record| record.is_held(&given.authority, grace, now()));
            begins.then(|| Record::of(given.clone()))
        };
        self.change(node, change).await?;
        Ok(begins)
    }

    /// Records a certificate (DER, as its authority's) that was issued for `old`, which stays valid. Returns false if `old` was revoked
    /// meanwhile; the new one must then be discarded.
    pub async fn record_renewed(
        &self,
        node: &str,
        old: &[u8],
        (certificate, authority): (&[u8], &[u8]),
    ) -> Result<bool, RecordError> {
        let (old, given) = (sha256_hex(old), unused_certificate(certificate, authority));
        let mut counts = false;
        let change = |record: Option<Record>| {
            let mut record = record?;
            counts = record.find(&old).is_some();
            record.add(given.clone());
            counts.then_some(record)
        };
        self.change(node, change).await?;
        Ok(counts)
    }

    /// Reports whether the node may connect with this certificate, which TLS has verified, and records its use.
    pub async fn admit(
        &self,
        node: &str,
        certificate: &[u8],
        authority: &[u8],
    ) -> Result<bool, RecordError> {
        let shown = IssuedCertificate {
            used: true,
            ..unused_certificate(certificate, authority)
        };
        if let Some(mut record) = self.read(node).await?.0 {
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
                Some(Record::of(shown.clone()))
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

    /// Reports whether the node could connect with this certificate (DER), which the cloud's CA has signed; changes nothing.
    pub async fn counts(&self, node: &str, certificate: &[u8]) -> Result<bool, RecordError> {
        let record = self.read(node).await?.0;
        Ok(record.is_none_or(|mut record| record.find(&sha256_hex(certificate)).is_some()))
    }

    /// Records the uid of the node's Node.
    pub async fn set_uid(&self, node: &str, uid: &str) -> Result<(), RecordError> {
        let change = |record: Option<Record>| {
            let mut record = record.filter(Record::has_any)?;
            record.registered = Some(uid.to_owned());
            Some(record)
        };
        self.change(node, change).await.map(drop)
    }

    /// Returns the uid of the node's Node, if it has had one since it joined.
    pub async fn uid(&self, node: &str) -> Result<Option<String>, RecordError> {
        Ok(self
            .read(node)
            .await?
            .0
            .and_then(|record| record.registered))
    }

    /// Reports whether the name has anything to revoke.
    pub async fn has_any(&self, node: &str) -> Result<bool, RecordError> {
        match self.read(node).await {
            Err(RecordError::Damaged(_)) => Ok(true),
            read => Ok(read?.0.is_some_and(|record| record.has_any())),
        }
    }

    /// Revokes all certificates of the name, which is then free, even if its record was lost. Returns whether there was anything to
    /// revoke.
    pub async fn reset(&self, node: &str) -> Result<bool, RecordError> {
        let mut any = false;
        let change = |record: Option<Record>| {
            any = record.is_some_and(|record| record.has_any());
            Some(Record::default())
        };
        match self.change(node, change).await {
            Err(RecordError::Damaged(_)) => {
                let value = Some(object(node, &Record::default()));
                let change = Change {
                    name: node.to_owned(),
                    expected: Precondition::Anything,
                    value,
                };
                self.records.write(vec![change]).await?;
                Ok(true)
            }
            changed => changed.map(|()| any),
        }
    }

    /// Returns the names whose records were lost, with [`UNKNOWN`] if it is not known which others.
    pub async fn lost_names(&self) -> Result<Vec<String>, RecordError> {
        let is_lost = |name: String, record: Record| record.withheld.then_some(name);
        self.all(is_lost).await
    }

    /// Frees all names whose records were lost: earlier certificates are invalid, and a join token gives the names. Returns them as
    /// [`Self::lost_names`] does.
    pub async fn reset_lost(&self) -> Result<Vec<String>, RecordError> {
        let lost = self.lost_names().await?;
        for name in &lost {
            self.reset(name).await?;
        }
        Ok(lost)
    }

    /// Returns the nodes that have had a Node, with its uid.
    pub async fn all_registered(&self) -> Result<Vec<(String, String)>, RecordError> {
        self.all(|name, record| Some((name, record.registered?)))
            .await
    }

    async fn all<T>(
        &self,
        wanted: impl Fn(String, Record) -> Option<T>,
    ) -> Result<Vec<T>, RecordError> {
        let found = |entry: RecordEntry| {
            let record = read(&entry.value).ok()?;
            wanted(entry.name, record)
        };
        Ok(self
            .records
            .list()
            .await?
            .into_iter()
            .filter_map(found)
            .collect())
    }

    /// Reads the record of the name, and the precondition of a change to it.
    async fn read(&self, node: &str) -> Result<(Option<Record>, Precondition), RecordError> {
        match self.read_stored(node).await? {
            Some((record, version)) => Ok((Some(record), version)),
            // a cluster's are never repaired
            None if !self.records.is_store() => Ok((None, Precondition::Absent)),
            None => Ok((
                self.read_stored(UNKNOWN).await?.map(|(record, _)| record),
                Precondition::Absent,
            )),
        }
    }

    async fn read_stored(&self, name: &str) -> Result<Option<(Record, Precondition)>, RecordError> {
        let Some(entry) = self.records.get(name).await? else {
            return Ok(None);
        };
        let record = read(&entry.value).map_err(|error| RecordError::Damaged(Box::new(error)))?;
        Ok(Some((record, entry.version)))
    }

    /// Changes the record. `change` returns `None` to keep it, and is called again after a conflict.
    async fn change(
        &self,
        node: &str,
        mut change: impl FnMut(Option<Record>) -> Option<Record>,
    ) -> Result<(), RecordError> {
        for _ in 0..MAX_ATTEMPTS {
            let (before, expected) = self.read(node).await?;
            let Some(record) =
                change(before.clone()).filter(|record| before.as_ref() != Some(record))
            else {
                return Ok(());
            };
            let change = Change {
                name: node.to_owned(),
                expected,
                value: Some(object(node, &record)),
            };
            match self.records.write(vec![change]).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RecordError::Busy)
    }
}

fn resource() -> Resource {
    Resource::new("cloudsim", NodeCertificates::KIND)
}

fn key(node: &str) -> Key {
    Key::new(resource(), "", node)
}

#[cfg(test)]
mod tests;
