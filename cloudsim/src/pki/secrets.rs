//! The Secrets in namespace `kubeedge`, as bytes.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};

use tracing::error;

use super::PkiError;

/// The namespace of CloudCore's Secrets.
pub const NAMESPACE: &str = "kubeedge";

/// The field manager of these writes.
const MANAGER: &str = "cloudsim";

pub(super) struct Secrets(Api<Secret>);

/// The contents of a Secret.
pub(super) struct Data {
    secret: &'static str,
    /// Its resourceVersion.
    pub(super) version: Option<String>,
    fields: BTreeMap<String, ByteString>,
}

impl Data {
    /// Returns the bytes of a key.
    pub(super) fn field(&self, name: &str) -> Result<&[u8], PkiError> {
        let found = self.fields.get(name).map(|bytes| bytes.0.as_slice());
        found.ok_or_else(|| PkiError::Secret {
            secret: self.secret,
            why: format!("it has no field {name}"),
        })
    }
}

impl Secrets {
    pub(super) fn new(client: &Client) -> Self {
        Self(Api::namespaced(client.clone(), NAMESPACE))
    }

    /// Returns the stored contents.
    ///
    /// # Errors
    /// [`PkiError::Damaged`] if they are stored and cannot be read.
    pub(super) async fn get(&self, name: &'static str) -> Result<Option<Data>, PkiError> {
        let found = match self.0.get_opt(name).await {
            Err(kube::Error::Api(status)) if kubeapi::is_damaged(&status) => {
                return Err(PkiError::Damaged {
                    secret: name,
                    why: status.message.clone(),
                });
            }
            found => found?,
        };
        Ok(found.map(|secret| Data {
            secret: name,
            version: secret.metadata.resource_version,
            fields: secret.data.unwrap_or_default(),
        }))
    }

    /// Returns the stored contents, or stores `fields` if there are none. If two do so at the same time, both get the same contents.
    pub(super) async fn ensure(
        &self,
        name: &'static str,
        fields: BTreeMap<&str, Vec<u8>>,
    ) -> Result<Data, PkiError> {
        if let Some(data) = self.get(name).await? {
            return Ok(data);
        }
        match self
            .0
            .create(&PostParams::default(), &secret(name, fields))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            result => drop(result?),
        }
        let missing = || PkiError::Secret {
            secret: name,
            why: "it was deleted right after its creation".to_owned(),
        };
        self.get(name).await?.ok_or_else(missing)
    }

    /// Returns the stored contents as [`Self::ensure`] does, but stores `fields` also in place of contents that are damaged.
    pub(super) async fn ensure_readable(
        &self,
        name: &'static str,
        fields: BTreeMap<&str, Vec<u8>>,
    ) -> Result<Data, PkiError> {
        match self.ensure(name, fields.clone()).await {
            Err(PkiError::Damaged { secret, why }) => {
                error!(
                    secret,
                    error = why,
                    "Secret of the cloud damaged; replacing it"
                );
                self.put(name, fields.clone()).await?;
                self.ensure(name, fields).await
            }
            ensured => ensured,
        }
    }

    /// Replaces whatever is stored by `fields`.
    pub(super) async fn put(
        &self,
        name: &str,
        fields: BTreeMap<&str, Vec<u8>>,
    ) -> Result<(), PkiError> {
        let wanted = secret(name, fields);
        match self.0.create(&PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            result => return Ok(result.map(drop)?),
        }
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        Ok(self
            .0
            .patch(name, &parameters, &Patch::Merge(&wanted))
            .await
            .map(drop)?)
    }

    /// Stores `fields` if the Secret still has this version, or does not exist. Returns false if it has changed.
    pub(super) async fn put_over(
        &self,
        name: &str,
        fields: BTreeMap<&str, Vec<u8>>,
        version: Option<String>,
    ) -> Result<bool, PkiError> {
        let mut wanted = secret(name, fields);
        wanted.metadata.resource_version.clone_from(&version);
        let written = match version {
            None => self.0.create(&PostParams::default(), &wanted).await,
            Some(_) => {
                let parameters = PatchParams {
                    field_manager: Some(MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                self.0
                    .patch(name, &parameters, &Patch::Merge(&wanted))
                    .await
            }
        };
        match written {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            written => Ok(written.map(|_| true)?),
        }
    }
}

fn secret(name: &str, fields: BTreeMap<&str, Vec<u8>>) -> Secret {
    let data = fields
        .into_iter()
        .map(|(field, bytes)| (field.to_owned(), ByteString(bytes)))
        .collect();
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    }
}
