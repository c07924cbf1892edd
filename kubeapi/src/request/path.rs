//! Parses the path of a request.

use std::sync::Arc;

use crate::{
    registry::{Kind, Registry},
    request::{
        escapes::decode,
        remote::RemotePath,
        review_kind::ReviewKind,
        subresource::{Remote, Subresource},
    },
};

/// A parsed path.
#[derive(Clone, Debug)]
pub enum RequestPath {
    /// `/healthz`, `/livez`, `/readyz`: which of them, and which of its checks.
    Health(String, Option<String>),
    /// `/`: all other paths.
    Root,
    /// `/metrics`.
    Metrics,
    /// `/version`.
    Version,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`.
    GroupVersion(String, String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApiIndex,
    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/<group>/<version>`.
    OpenApi(String, String),
    /// `/.well-known/openid-configuration`, `/openid/v1/jwks`.
    Issuer(IssuerDocument),
    /// A collection, an object or a subresource.
    Objects(Target),
    /// What another server serves.
    Remote(RemotePath),
    /// A review kind and its namespace (empty for none).
    Review(ReviewKind, String),
    /// Any other path.
    Unknown,
}

/// A document of OpenID discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssuerDocument {
    /// Names the issuer of tokens, and where its keys are.
    Configuration,
    /// The keys.
    Keys,
}

impl IssuerDocument {
    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Configuration => "application/json",
            Self::Keys => "application/jwk-set+json",
        }
    }
}

/// A collection, an object or a subresource.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kind of the objects.
    pub kind: Arc<Kind>,
    /// Empty where the path names none.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// The subresource, if the path names one.
    pub part: Option<Subresource>,
}

impl Target {
    /// The subresource in managed fields: empty for the object itself.
    pub fn part_name(&self) -> &'static str {
        self.part.map_or("", Subresource::name)
    }

    fn is_proxied(&self) -> bool {
        self.part == Some(Subresource::Remote(Remote::Proxy))
    }
}

/// Reports whether objects can be at `path`; all else that does not exist is answered with a page.
pub fn is_of_api(path: &str) -> bool {
    matches!(
        path.split('/').find(|segment| !segment.is_empty()),
        Some("api" | "apis")
    )
}

/// Parses `path`.
pub fn parse(registry: &Registry, path: &str) -> RequestPath {
    let path = decode(path);
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    match segments.as_slice() {
        [] => RequestPath::Root,
        [which @ ("healthz" | "livez" | "readyz")] => {
            RequestPath::Health((*which).to_owned(), None)
        }
        [which @ ("healthz" | "livez" | "readyz"), check] => {
            RequestPath::Health((*which).to_owned(), Some((*check).to_owned()))
        }
        [".well-known", "openid-configuration"] => {
            RequestPath::Issuer(IssuerDocument::Configuration)
        }
        ["openid", "v1", "jwks"] => RequestPath::Issuer(IssuerDocument::Keys),
        ["metrics"] => RequestPath::Metrics,
        ["openapi", "v2"] => RequestPath::OpenApiV2,
        ["version"] => RequestPath::Version,
        ["api"] => RequestPath::CoreVersions,
        ["apis"] => RequestPath::Groups,
        ["apis", group] => RequestPath::Group((*group).to_owned()),
        ["api", version] => RequestPath::GroupVersion(String::new(), (*version).to_owned()),
        ["apis", group, version] => {
            RequestPath::GroupVersion((*group).to_owned(), (*version).to_owned())
        }
        ["openapi", "v3"] => RequestPath::OpenApiIndex,
        ["openapi", "v3", "api", version] => {
            RequestPath::OpenApi(String::new(), (*version).to_owned())
        }
        ["openapi", "v3", "apis", group, version] => {
            RequestPath::OpenApi((*group).to_owned(), (*version).to_owned())
        }
        ["api", version, rest @ ..] => objects(registry, "", version, rest),
        ["apis", group, version, rest @ ..] => objects(registry, group, version, rest),
        _ => RequestPath::Unknown,
    }
}

fn objects(registry: &Registry, group: &str, version: &str, rest: &[&str]) -> RequestPath {
    let target = |namespace: &str, plural: &str, name: &str, part: Option<&str>| {
        let kind = registry.find(group, version, plural)?;
        let part = match part {
            None => None,
            Some(part) => Some(Subresource::find(kind, part)?),
        };
        // a namespace in the path of a cluster-scoped kind, or an object of a namespaced kind without one
        let fits = if kind.namespaced {
            !namespace.is_empty() || name.is_empty()
        } else {
            namespace.is_empty()
        };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        fits.then(|| Target {
            kind: Arc::clone(kind),
            namespace,
            name,
            part,
        })
    };
    let found = match rest {
        ["namespaces", namespace, part @ ("status" | "finalize")] => {
            target("", "namespaces", namespace, Some(part))
        }
        ["namespaces", namespace, plural] => target(namespace, plural, "", None),
        ["namespaces", namespace, plural, name] => target(namespace, plural, name, None),
        ["namespaces", namespace, plural, name, part] => {
            target(namespace, plural, name, Some(part))
        }
        // the path within what is proxied is nobody's here
        ["namespaces", namespace, plural, name, part, ..] => {
            target(namespace, plural, name, Some(part)).filter(Target::is_proxied)
        }
        [plural] => target("", plural, "", None),
        [plural, name] => target("", plural, name, None),
        [plural, name, part] => target("", plural, name, Some(part)),
        [plural, name, part, ..] => target("", plural, name, Some(part)).filter(Target::is_proxied),
        _ => None,
    };
    found.map_or_else(|| review(group, version, rest), RequestPath::Objects)
}

fn review(group: &str, version: &str, rest: &[&str]) -> RequestPath {
    let (namespace, plural) = match rest {
        ["namespaces", namespace, plural] => (*namespace, *plural),
        [plural] => ("", *plural),
        _ => return RequestPath::Unknown,
    };
    let fits = |review: &ReviewKind| {
        review.plural() == plural && (review.is_namespaced() || namespace.is_empty())
    };
    let found = ReviewKind::of(group, version).find(fits);
    found.map_or(RequestPath::Unknown, |review| {
        RequestPath::Review(review, namespace.to_owned())
    })
}
