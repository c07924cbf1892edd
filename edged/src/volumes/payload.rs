//! Builds the files of volumes that are made from API objects. Pure.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath,
    Pod, ProjectedVolumeSource, SecretVolumeSource, VolumeProjection,
};

use super::error::Error;
use crate::{
    downward::{self, Downward},
    names,
    references::{Objects, Reference, ReferenceError},
    specs,
};

/// Default mode of files.
const DEFAULT_MODE: i32 = 0o644;

/// Bits added to the mode of files if the pod has an `fsGroup`, as in the kubelet.
const GROUP_READ_BITS: u32 = 0o440;

/// Returns the user that owns token files: the one as which all containers run, `None` if they may differ.
///
/// Source: <https://github.com/kubernetes/enhancements/tree/master/keps/sig-storage/2451-service-account-token-volumes>.
fn fs_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec
        .security_context
        .as_ref()
        .and_then(|context| context.run_as_user);
    let own = |container: &Container| {
        container
            .security_context
            .as_ref()
            .and_then(|own| own.run_as_user)
    };
    let mut users = specs::containers(spec).map(|container| own(container).or(of_pod));
    let first = users.next()??;
    users
        .all(|user| user == Some(first))
        .then(|| u32::try_from(first).ok())?
}

/// A file of a volume. Has no `Debug`, as its content may be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// The content.
    pub(crate) content: Vec<u8>,
    /// The permission bits.
    pub(crate) mode: u32,
    /// The owner, if not the agent's user.
    pub(crate) user: Option<u32>,
}

/// Files by their path in the volume.
pub(crate) type Payload = BTreeMap<String, File>;

/// Tokens by volume name and path, or why there is none.
pub(crate) type Tokens = BTreeMap<(String, String), Result<String, String>>;

/// Builds the files of one volume.
pub(super) struct PayloadBuilder<'a> {
    payload: Payload,
    default_mode: i32,
    /// Whether the pod has an `fsGroup`, which may read the files.
    has_fs_group: bool,
    /// The owner of token files.
    user: Option<u32>,
    /// The volume's name.
    volume: &'a str,
    downward: &'a Downward<'a>,
    objects: &'a Objects,
    tokens: &'a Tokens,
}

impl<'a> PayloadBuilder<'a> {
    /// Starts without files, for this volume of the pod.
    pub(super) fn new(
        volume: &'a str,
        downward: &'a Downward<'a>,
        objects: &'a Objects,
        tokens: &'a Tokens,
    ) -> Self {
        let has_fs_group = downward.fs_group().is_some();
        let (payload, user) = (Payload::new(), fs_user(downward.pod));
        Self {
            payload,
            default_mode: DEFAULT_MODE,
            has_fs_group,
            user,
            volume,
            downward,
            objects,
            tokens,
        }
    }

    /// Builds the files of a `configMap` volume.
    pub(super) fn of_config_map(
        mut self,
        source: &ConfigMapVolumeSource,
    ) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let reference = Reference::ConfigMap(source.name.clone());
        self.add_object(reference, source.items.as_deref(), source.optional)?;
        Ok(self.payload)
    }

    /// Builds the files of a `secret` volume.
    pub(super) fn of_secret(mut self, source: &SecretVolumeSource) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let reference = Reference::Secret(source.secret_name.clone().unwrap_or_default());
        self.add_object(reference, source.items.as_deref(), source.optional)?;
        Ok(self.payload)
    }

    /// Builds the files of a `downwardAPI` volume.
    pub(super) fn of_downward_api(
        mut self,
        source: &DownwardAPIVolumeSource,
    ) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        self.add_downward(source.items.as_deref())?;
        Ok(self.payload)
    }

    /// Builds the files of a `projected` volume.
    pub(super) fn of_projected(mut self, source: &ProjectedVolumeSource) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        for projection in source.sources.iter().flatten() {
            self.add_projection(projection)?;
        }
        Ok(self.payload)
    }
}

impl PayloadBuilder<'_> {
    fn add_projection(&mut self, source: &VolumeProjection) -> Result<(), Error> {
        if let Some(s) = &source.config_map {
            self.add_object(
                Reference::ConfigMap(s.name.clone()),
                s.items.as_deref(),
                s.optional,
            )?;
        }
        if let Some(s) = &source.secret {
            self.add_object(
                Reference::Secret(s.name.clone()),
                s.items.as_deref(),
                s.optional,
            )?;
        }
        if let Some(s) = &source.downward_api {
            self.add_downward(s.items.as_deref())?;
        }
        if let Some(s) = &source.service_account_token {
            let account = self
                .downward
                .pod
                .spec
                .as_ref()
                .and_then(|spec| spec.service_account_name.clone());
            let fail = |why: &str| {
                Error::Token(account.unwrap_or_else(|| "default".into()), why.to_owned())
            };
            match self.tokens.get(&(self.volume.to_owned(), s.path.clone())) {
                // Only the pod's user or group may read a token, if there is one.
                Some(Ok(token)) => {
                    let mode = (self.has_fs_group || self.user.is_some()).then_some(0o600);
                    self.add_file(&s.path, token.clone().into_bytes(), mode)?;
                    self.payload
                        .entry(s.path.clone())
                        .and_modify(|file| file.user = self.user);
                }
                Some(Err(why)) => return Err(fail(why)),
                None => return Err(fail("it was not requested")),
            }
        }
        Ok(())
    }

    fn add_object(
        &mut self,
        reference: Reference,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), Error> {
        let optional = optional.unwrap_or(false);
        let Some(data) = self.objects.data(&reference, optional)?.cloned() else {
            return Ok(());
        };
        let Some(items) = items else {
            return data
                .iter()
                .try_for_each(|(key, value)| self.add_file(key, value.clone(), None));
        };
        for item in items {
            match data.get(&item.key) {
                Some(value) => self.add_file(&item.path, value.clone(), item.mode)?,
                None if optional => {}
                None => {
                    return Err(ReferenceError::Key {
                        reference,
                        key: item.key.clone(),
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    fn add_downward(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), Error> {
        let downward = self.downward;
        for item in items.into_iter().flatten() {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(selector), _) => downward::field(downward, selector)?,
                (None, Some(selector)) => downward::resource(downward, None, selector)?,
                (None, None) => String::new(),
            };
            self.add_file(&item.path, text.into_bytes(), item.mode)?;
        }
        Ok(())
    }

    fn add_file(&mut self, path: &str, content: Vec<u8>, mode: Option<i32>) -> Result<(), Error> {
        // Names that begin with two dots are used for the atomic update.
        if !names::is_below(Path::new(path)) || path.starts_with("..") || path.ends_with('/') {
            return Err(Error::path_escape(path));
        }
        let mode = u32::try_from(mode.unwrap_or(self.default_mode)).unwrap_or(0o644) & 0o777;
        let mode = if self.has_fs_group {
            mode | GROUP_READ_BITS
        } else {
            mode
        };
        match self.payload.insert(
            path.to_owned(),
            File {
                content,
                mode,
                user: None,
            },
        ) {
            None => Ok(()),
            Some(_) => Err(Error::DuplicatePath(path.to_owned())),
        }
    }
}
