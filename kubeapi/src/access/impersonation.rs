//! Impersonation: a caller acts as another user, as far as roles let it `impersonate` that user:
//! <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::attributes::Attributes;
use crate::{Identity, identity::AUTHENTICATED, status::StatusError};

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The API group of the resources `uids` and `userextras`.
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The user that the headers of a request name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Impersonated {
    user: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Reports whether a request has headers of impersonation.
pub fn is_requested(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

impl Impersonated {
    /// Parses the headers of impersonation.
    ///
    /// # Errors
    /// 400 for headers that name no user, are repeated or unknown.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, StatusError> {
        let mut found = Self::default();
        for (name, value) in headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(PREFIX))
        {
            found.add(name, text(name, value)?)?;
        }
        if found.user.is_empty() {
            return Err(StatusError::bad_request(
                "impersonation names no user: send the header Impersonate-User as well",
            ));
        }
        Ok(found)
    }

    fn add(&mut self, name: &HeaderName, value: String) -> Result<(), StatusError> {
        match name.as_str() {
            "impersonate-user" if !self.user.is_empty() => Err(twice(name)),
            "impersonate-user" => {
                self.user = value;
                Ok(())
            }
            "impersonate-group" => {
                self.groups.push(value);
                Ok(())
            }
            "impersonate-uid" if self.uid.is_some() => Err(twice(name)),
            "impersonate-uid" => {
                self.uid = Some(value);
                Ok(())
            }
            other => {
                let key = other
                    .strip_prefix(EXTRA_PREFIX)
                    .filter(|key| !key.is_empty())
                    .ok_or_else(|| {
                        StatusError::bad_request(format!(
                            "unknown header of impersonation: {other}"
                        ))
                    })?;
                // what does not decode is a key as it stands, as in Kubernetes
                let decoded = percent_decode_str(key).decode_utf8().ok();
                let key = decoded.map_or_else(|| key.to_owned(), |key| key.into_owned());
                self.extra.entry(key).or_default().push(value);
                Ok(())
            }
        }
    }

    /// Returns the permissions that the caller needs.
    pub fn required_rights(&self) -> Vec<Attributes> {
        let of = |group: &str, resource: &str, name: &str| Attributes {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        let mut rights = vec![match Identity::account_of(&self.user) {
            Some((namespace, name)) => Attributes {
                namespace: namespace.to_owned(),
                ..of("", "serviceaccounts", name)
            },
            None => of("", "users", &self.user),
        }];
        rights.extend(self.groups.iter().map(|group| of("", "groups", group)));
        rights.extend(
            self.uid
                .iter()
                .map(|uid| of(AUTHENTICATION_GROUP, "uids", uid)),
        );
        for (key, values) in &self.extra {
            let resource = format!("userextras/{key}");
            rights.extend(
                values
                    .iter()
                    .map(|value| of(AUTHENTICATION_GROUP, &resource, value)),
            );
        }
        rights
    }

    /// Returns the identity, with the groups that Kubernetes adds.
    pub fn into_identity(self) -> Identity {
        let Self {
            user,
            mut groups,
            uid,
            extra,
        } = self;
        if let Some((namespace, name)) = Identity::account_of(&user).filter(|_| groups.is_empty()) {
            groups = Identity::service_account(namespace, name).groups;
        }
        let has = |group: &str| groups.iter().any(|own| own == group);
        if user == ANONYMOUS {
            if !has(UNAUTHENTICATED) {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Identity {
            user,
            groups,
            uid: uid.unwrap_or_default(),
            extra,
        }
    }
}

fn twice(name: &HeaderName) -> StatusError {
    StatusError::bad_request(format!("the header {name} may be sent once"))
}

fn text(name: &HeaderName, value: &HeaderValue) -> Result<String, StatusError> {
    String::from_utf8(value.as_bytes().to_vec())
        .map_err(|_| StatusError::bad_request(format!("the header {name} is not UTF-8")))
}
