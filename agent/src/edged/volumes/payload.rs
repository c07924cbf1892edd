//! What is in the files of a volume that is made from API objects. Pure.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, Pod,
    ProjectedVolumeSource, SecretVolumeSource, VolumeProjection,
};

use super::error::Error;
use crate::edged::{
    downward::{self, Downward},
    names,
    references::{Objects, Reference, Unmet},
    specs,
};

/// Mode of files where nothing else is said.
const DEFAULT_MODE: i32 = 0o644;

/// Added to the mode of files that belong to the pod's group, as the kubelet does.
const GROUP_READS: u32 = 0o440;

/// The group that the pod's volumes belong to.
pub(super) fn fs_group(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// The user whose tokens are: the one that all containers run as. Where they are not known to be one, none.
///
/// Source: <https://github.com/kubernetes/enhancements/tree/master/keps/sig-storage/2451-service-account-token-volumes>.
fn fs_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let own = |container: &Container| container.security_context.as_ref().and_then(|own| own.run_as_user);
    let mut users = specs::containers(spec).map(|container| own(container).or(of_pod));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok())?
}

/// A file of a volume. No `Debug`: it may be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// What is in it.
    pub(crate) content: Vec<u8>,
    /// Its permission bits.
    pub(crate) mode: u32,
    /// Whose it is, if not the agent's.
    pub(crate) user: Option<u32>,
}

/// Path below the volume → file.
pub(crate) type Payload = BTreeMap<String, File>;

/// Tokens by volume name and path, or why there is none.
pub(crate) type Tokens = BTreeMap<(String, String), Result<String, String>>;

/// Makes the files of one volume.
pub(super) struct Files<'a> {
    payload: Payload,
    default_mode: i32,
    /// Files belong to the pod's group, which can read them.
    grouped: bool,
    /// Whose tokens are.
    user: Option<u32>,
    /// The volume's name.
    volume: &'a str,
    downward: &'a Downward<'a>,
    objects: &'a Objects,
    tokens: &'a Tokens,
}

impl<'a> Files<'a> {
    /// No files yet, for this volume of the pod.
    pub(super) fn new(
        volume: &'a str,
        downward: &'a Downward<'a>,
        objects: &'a Objects,
        tokens: &'a Tokens,
    ) -> Self {
        let grouped = fs_group(downward.pod).is_some();
        let (payload, user) = (Payload::new(), fs_user(downward.pod));
        Self { payload, default_mode: DEFAULT_MODE, grouped, user, volume, downward, objects, tokens }
    }

    /// The keys of a ConfigMap.
    pub(super) fn of_config_map(mut self, source: &ConfigMapVolumeSource) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let reference = Reference::ConfigMap(source.name.clone());
        self.object(reference, source.items.as_deref(), source.optional)?;
        Ok(self.payload)
    }

    /// The keys of a Secret.
    pub(super) fn of_secret(mut self, source: &SecretVolumeSource) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let reference = Reference::Secret(source.secret_name.clone().unwrap_or_default());
        self.object(reference, source.items.as_deref(), source.optional)?;
        Ok(self.payload)
    }

    /// Fields of the pod.
    pub(super) fn of_downward_api(mut self, source: &DownwardAPIVolumeSource) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        self.downward(source.items.as_deref())?;
        Ok(self.payload)
    }

    /// Several of these, and tokens.
    pub(super) fn of_projected(mut self, source: &ProjectedVolumeSource) -> Result<Payload, Error> {
        self.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        for projection in source.sources.iter().flatten() {
            self.projection(projection)?;
        }
        Ok(self.payload)
    }
}

impl Files<'_> {
    fn projection(&mut self, source: &VolumeProjection) -> Result<(), Error> {
        if let Some(s) = &source.config_map {
            self.object(Reference::ConfigMap(s.name.clone()), s.items.as_deref(), s.optional)?;
        }
        if let Some(s) = &source.secret {
            self.object(Reference::Secret(s.name.clone()), s.items.as_deref(), s.optional)?;
        }
        if let Some(s) = &source.downward_api {
            self.downward(s.items.as_deref())?;
        }
        if let Some(s) = &source.service_account_token {
            let account = self.downward.pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
            let fail = |why: &str| Error::Token(account.unwrap_or_else(|| "default".into()), why.to_owned());
            match self.tokens.get(&(self.volume.to_owned(), s.path.clone())) {
                // A token is for the pod's user or group, where there is one, and nobody else.
                Some(Ok(token)) => {
                    let mode = (self.grouped || self.user.is_some()).then_some(0o600);
                    self.file(&s.path, token.clone().into_bytes(), mode)?;
                    self.payload.entry(s.path.clone()).and_modify(|file| file.user = self.user);
                }
                Some(Err(why)) => return Err(fail(why)),
                None => return Err(fail("it was not asked for")),
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        reference: Reference,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), Error> {
        let optional = optional.unwrap_or(false);
        let Some(data) = self.objects.data(&reference, optional)?.cloned() else { return Ok(()) };
        let Some(items) = items else {
            return data.iter().try_for_each(|(key, value)| self.file(key, value.clone(), None));
        };
        for item in items {
            match data.get(&item.key) {
                Some(value) => self.file(&item.path, value.clone(), item.mode)?,
                None if optional => {}
                None => return Err(Unmet::Key { reference, key: item.key.clone() }.into()),
            }
        }
        Ok(())
    }

    fn downward(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), Error> {
        let downward = self.downward;
        for item in items.into_iter().flatten() {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(selector), _) => downward::field(downward, selector)?,
                (None, Some(selector)) => downward::resource(downward, None, selector)?,
                (None, None) => String::new(),
            };
            self.file(&item.path, text.into_bytes(), item.mode)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &str, content: Vec<u8>, mode: Option<i32>) -> Result<(), Error> {
        // Names that begin with two dots are those with which the volume is swapped.
        if !names::is_below(Path::new(path)) || path.starts_with("..") || path.ends_with('/') {
            return Err(Error::Escape(path.chars().take(256).collect()));
        }
        let mode = u32::try_from(mode.unwrap_or(self.default_mode)).unwrap_or(0o644) & 0o777;
        let mode = if self.grouped { mode | GROUP_READS } else { mode };
        match self.payload.insert(path.to_owned(), File { content, mode, user: None }) {
            None => Ok(()),
            Some(_) => Err(Error::Twice(path.to_owned())),
        }
    }
}
