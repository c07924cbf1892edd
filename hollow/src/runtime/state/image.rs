//! Image references, and the images derived from them.

use std::{fmt, time::Duration};

use rustls::{SupportedCipherSuite, crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256};
use serde::{Deserialize, Serialize};
use wire::cri::{Image, ImageSpec, Int64Value};

use super::super::duration::duration;

/// The most bytes of a reference, about as long as the distribution specification allows.
const MAX_LENGTH: usize = 1024;
/// An image does not exist if its name or tag contains one of these words.
const ABSENT_WORDS: [&str; 3] = ["does-not-exist", "non-existent", "nonexistent"];
/// A tag that no repository has; people use it to see a pull fail.
const ABSENT_TAG: &str = "404";
/// The user that images run as, unless an annotation of the pod says otherwise: as that of "distroless" images.
const IMAGE_USER: i64 = 65_532;
/// The size that every image is reported to have on disk.
pub(crate) const IMAGE_BYTES: u64 = 1 << 20;

/// A complete image reference: `nginx` becomes `docker.io/library/nginx:latest`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Reference {
    host: String,
    repository: String,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Version {
    Tag(String),
    /// `sha256:…`
    Digest(String),
}

/// How the registry of an image responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registry {
    Serves {
        after: Duration,
    },
    /// The registry has no such image.
    Absent,
    Denied,
    /// The registry's host name cannot be resolved.
    Unresolvable,
}

impl Reference {
    /// Completes an image name as containerd does.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let invalid = |why: &str| format!("invalid reference {name:?}: {why}");
        let allowed = |c: char| c.is_ascii_alphanumeric() || "./:@_-".contains(c);
        if name.is_empty() || name.len() > MAX_LENGTH || !name.chars().all(allowed) {
            return Err(invalid("it must be an image name"));
        }
        let (path, digest) = name
            .split_once('@')
            .map_or((name, None), |(path, digest)| (path, Some(digest)));
        let (host, path) = match path.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("docker.io", path),
        };
        let (repository, tag) = path
            .split_once(':')
            .map_or((path, None), |(path, tag)| (path, Some(tag)));
        if repository.split('/').any(str::is_empty)
            || tag.is_some_and(|tag| tag.contains([':', '/']))
        {
            return Err(invalid("it must be [host/]path[:tag][@digest]"));
        }
        if repository.contains(|c: char| c.is_ascii_uppercase()) {
            return Err(invalid("repository name must be lowercase"));
        }
        let version = match digest {
            Some(digest) if is_digest(digest) => Version::Digest(digest.into()),
            Some(_) => {
                return Err(invalid(
                    "its digest must be sha256: and 64 hexadecimal digits",
                ));
            }
            None => Version::Tag(tag.filter(|tag| !tag.is_empty()).unwrap_or("latest").into()),
        };
        let library = if host == "docker.io" && !repository.contains('/') {
            "library/"
        } else {
            ""
        };
        Ok(Self {
            host: host.into(),
            repository: format!("{library}{repository}"),
            version,
        })
    }

    /// Returns the id that `PullImage` returns.
    pub(crate) fn id(&self) -> String {
        format!("sha256:{}", self.bare_id())
    }

    pub(super) fn bare_id(&self) -> String {
        match &self.version {
            Version::Digest(digest) => digest.trim_start_matches("sha256:").into(),
            Version::Tag(_) => sha256(&self.to_string()),
        }
    }

    /// Returns the reference by digest.
    pub(super) fn by_digest(&self) -> String {
        format!("{}/{}@{}", self.host, self.repository, self.id())
    }

    /// Returns the host of its registry.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Reports whether its name says that there is no such image.
    fn is_absent(&self) -> bool {
        let tag = match &self.version {
            Version::Tag(tag) => tag.as_str(),
            Version::Digest(_) => "",
        };
        let name = self.repository.rsplit('/').next().unwrap_or_default();
        tag == ABSENT_TAG
            || ABSENT_WORDS
                .iter()
                .any(|word| tag.contains(word) || name.contains(word))
    }

    /// Returns how its registry responds, by its host's name and the image's own name.
    pub(crate) fn registry(&self) -> Registry {
        if self.host.starts_with("invalid.") || self.host.ends_with(".invalid") {
            return Registry::Unresolvable;
        }
        if self.is_absent() {
            return Registry::Absent;
        }
        match self.host.strip_suffix(".sim") {
            Some("absent") => Registry::Absent,
            Some("denied") => Registry::Denied,
            Some(host) => {
                let delay = host
                    .strip_prefix("slow-")
                    .and_then(|delay| duration(delay).ok());
                Registry::Serves {
                    after: delay.unwrap_or_default(),
                }
            }
            None => Registry::Serves {
                after: Duration::ZERO,
            },
        }
    }

    pub(crate) fn image(&self) -> Image {
        Image {
            id: self.id(),
            repo_tags: match &self.version {
                Version::Tag(_) => vec![self.to_string()],
                Version::Digest(_) => Vec::new(),
            },
            repo_digests: vec![self.by_digest()],
            size: IMAGE_BYTES,
            uid: Some(Int64Value { value: IMAGE_USER }),
            spec: Some(ImageSpec {
                image: self.to_string(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        match &self.version {
            Version::Tag(tag) => write!(f, ":{tag}"),
            Version::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns a hash in hexadecimal digits. The TLS suite's SHA-256 is used because this program contains it anyway.
fn sha256(text: &str) -> String {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        return String::new();
    };
    let hash = suite.common.hash_provider.hash(text.as_bytes());
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_containerd_does() {
        let hex = "0123456789abcdef".repeat(4);
        for (name, complete) in [
            ("nginx", "docker.io/library/nginx:latest".to_owned()),
            ("nginx:1.27", "docker.io/library/nginx:1.27".into()),
            ("kubeedge/mapper:v1", "docker.io/kubeedge/mapper:v1".into()),
            ("localhost/a", "localhost/a:latest".into()),
            (
                "registry.example:5000/a/b:c",
                "registry.example:5000/a/b:c".into(),
            ),
            (
                &format!("quay.io/a:v1@sha256:{hex}"),
                format!("quay.io/a@sha256:{hex}"),
            ),
        ] {
            assert_eq!(Reference::parse(name).unwrap().to_string(), complete);
        }
        for name in [
            "",
            "Nginx",
            "a b",
            "a//b",
            "quay.io/",
            "a:b:c",
            "a@sha256:12",
            &"a".repeat(2000),
        ] {
            assert!(Reference::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_digest_is_the_names_sha256_or_the_given_one() {
        assert_eq!(
            sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let given = Reference::parse(&format!("a@sha256:{}", "1".repeat(64))).unwrap();
        assert_eq!(given.id(), format!("sha256:{}", "1".repeat(64)));
    }

    #[test]
    fn some_registries_misbehave() {
        let registry = |name| Reference::parse(name).unwrap().registry();
        assert_eq!(registry("absent.sim/a"), Registry::Absent);
        assert_eq!(registry("denied.sim/a"), Registry::Denied);
        for name in [
            "invalid.registry.k8s.io/invalid/alpine:3.1",
            "registry.invalid/a",
            "a.b.invalid/c/d:1",
        ] {
            assert_eq!(registry(name), Registry::Unresolvable, "{name}");
        }
        for name in [
            "foo:non-existent",
            "webserver:404",
            "quay.io/a/does-not-exist",
            "a:v1-nonexistent",
        ] {
            assert_eq!(registry(name), Registry::Absent, "{name}");
        }
        for name in ["a:4040", "non-existent/a", "invalid/a"] {
            assert_eq!(
                registry(name),
                Registry::Serves {
                    after: Duration::ZERO
                },
                "{name}"
            );
        }
        assert_eq!(
            registry("slow-20ms.sim/a"),
            Registry::Serves {
                after: Duration::from_millis(20)
            }
        );
        assert_eq!(
            registry("quay.io/absent.sim/a"),
            Registry::Serves {
                after: Duration::ZERO
            }
        );
    }
}
