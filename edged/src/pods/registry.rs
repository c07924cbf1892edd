//! Credentials of image registries, from the pod's image pull Secrets. Pure.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use wire::cri;

use crate::references::{self, Objects};

/// `~/.docker/config.json`, as in Secrets of type `kubernetes.io/dockerconfigjson`.
#[derive(Deserialize)]
struct DockerConfig {
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

/// `AuthConfig` of CRI.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PlainAuth {
    server_address: String,
    identity_token: String,
    registry_token: String,
    #[serde(flatten)]
    entry: AuthEntry,
}

/// Returns all credentials for the image's registry, those with the longest matching pattern first, then in the order of the
/// Secrets. There may be several because one may be out of date.
///
/// Source: <https://kubernetes.io/docs/concepts/containers/images/#config-json>.
pub(super) fn credentials(secrets: &Objects, pod: &Pod, image: &str) -> Vec<cri::AuthConfig> {
    let all = references::of_image_pulls(pod);
    let data = all
        .iter()
        .filter_map(|reference| secrets.data(reference, true).ok().flatten())
        .map(Arc::as_ref);
    credentials_of(data, image)
}

/// Returns all credentials for the image's registry in the data of Secrets, as [`credentials`].
pub(crate) fn credentials_of<'a>(
    secrets: impl IntoIterator<Item = &'a BTreeMap<String, Vec<u8>>>,
    image: &str,
) -> Vec<cri::AuthConfig> {
    let image = qualified_name(image);
    let mut matching: Vec<_> = secrets
        .into_iter()
        .flat_map(auths)
        .map(|(server, entry)| (server_pattern(&server), entry))
        .filter(|(pattern, _)| matches(pattern, &image))
        .collect();
    matching.sort_by_key(|(pattern, _)| Reverse(pattern.len()));
    matching
        .into_iter()
        .map(|(_, entry)| auth_config(entry))
        .collect()
}

/// Returns the credentials of a Secret whose `.dockerconfigjson` is CRI's `AuthConfig` itself. KubeEdge's jobs use these for all images.
pub(crate) fn plain_credentials(
    secret: &BTreeMap<String, Vec<u8>>,
    image: &str,
) -> Option<cri::AuthConfig> {
    let plain = secret.get(".dockerconfigjson")?;
    let PlainAuth {
        server_address,
        identity_token,
        registry_token,
        mut entry,
    } = serde_json::from_slice(plain).ok()?;
    entry.identitytoken = identity_token;
    entry.registrytoken = registry_token;
    let is_for_image = server_address.is_empty()
        || matches(&server_pattern(&server_address), &qualified_name(image));
    let auth = auth_config(entry);
    (is_for_image && auth != cri::AuthConfig::default()).then_some(auth)
}

/// Returns a Secret's credentials by server; none if they cannot be parsed.
fn auths(data: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, AuthEntry> {
    let read = match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
        (Some(json), _) => serde_json::from_slice::<DockerConfig>(json).map(|config| config.auths),
        (None, Some(json)) => serde_json::from_slice(json),
        (None, None) => return BTreeMap::new(),
    };
    read.unwrap_or_default()
}

/// Returns the image's name with its registry, by default Docker Hub's.
fn qualified_name(image: &str) -> String {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    }
}

/// Converts a key of `auths` to host and path.
fn server_pattern(server: &str) -> String {
    let bare = server
        .trim_start_matches("https://")
        .trim_start_matches("http://");
    let bare = bare
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .trim_end_matches("/v2");
    bare.replacen("index.docker.io", "docker.io", 1)
}

/// Reports whether the image is at `pattern` or below it. In the host of the pattern, `*` matches any text without a dot.
fn matches(pattern: &str, image: &str) -> bool {
    let (host, path) = pattern.split_once('/').unwrap_or((pattern, ""));
    let Some((image_host, image_path)) = image.split_once('/') else {
        return false;
    };
    let below = path.is_empty()
        || image_path
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']));
    let (parts, image_parts) = (host.split('.'), image_host.split('.'));
    below
        && parts.clone().count() == image_parts.clone().count()
        && parts
            .zip(image_parts)
            .all(|(pattern, part)| matches_glob(pattern, part))
}

/// Reports whether the text matches the pattern, in which each `*` matches any text. Takes linear time for any pattern.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let (first, last) = (parts.next().unwrap_or_default(), parts.next_back());
    let Some(last) = last else {
        return first == text;
    };
    let Some(mut rest) = text
        .strip_prefix(first)
        .and_then(|rest| rest.strip_suffix(last))
    else {
        return false;
    };
    parts.all(|part| {
        let after = rest.split_once(part).map(|(_, after)| after);
        rest = after.unwrap_or_default();
        after.is_some()
    })
}

fn auth_config(entry: AuthEntry) -> cri::AuthConfig {
    let decoded = STANDARD
        .decode(&entry.auth)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
    let either = |own: String, decoded: Option<&str>| {
        if own.is_empty() {
            decoded.unwrap_or_default().to_owned()
        } else {
            own
        }
    };
    cri::AuthConfig {
        username: either(entry.username, pair.map(|pair| pair.0)),
        password: either(entry.password, pair.map(|pair| pair.1)),
        // Runtimes would compare it with the image's host and need a URL for that; it was compared here.
        server_address: String::new(),
        identity_token: entry.identitytoken,
        registry_token: entry.registrytoken,
        auth: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::references::{Fetched, Reference};

    #[test]
    fn matching_credentials_are_sorted_longest_pattern_first() {
        let config = json!({"auths": {
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:h")},
            "registry.example": {"username": "all", "password": "a"},
            "registry.example/team": {"username": "team", "password": "t"},
            "*.registry.example:5000": {"username": "any", "password": "a"}
        }});
        let outdated = json!({"registry.example": {"username": "old", "password": "o"}});
        let mut secrets = Objects::default();
        for (name, key, json) in [
            ("old", ".dockercfg", outdated),
            ("bad", ".dockercfg", json!(1)),
            ("pull", ".dockerconfigjson", config),
        ] {
            let data = [(key.to_owned(), json.to_string().into_bytes())];
            secrets.insert(
                Reference::Secret(name.into()),
                Fetched::Found(std::sync::Arc::new(data.into())),
            );
        }
        let pod = serde_json::from_value(json!({"spec": {"containers": [], "imagePullSecrets":
                [{"name": "none"}, {"name": "old"}, {"name": "bad"}, {"name": "pull"}]}}));
        let pod: Pod = pod.unwrap();
        let users = |image: &str| -> Vec<String> {
            credentials(&secrets, &pod, image)
                .into_iter()
                .map(|auth| auth.username)
                .collect()
        };
        assert_eq!(users("nginx"), ["hub"]);
        assert_eq!(users("a/b:1"), ["hub"]);
        assert_eq!(users("registry.example/x"), ["old", "all"]);
        assert_eq!(users("registry.example/team/x"), ["team", "old", "all"]);
        assert_eq!(users("registry.example.org/x"), [""; 0]);
        assert_eq!(users("eu.registry.example:5000/x"), ["any"]);
    }

    #[test]
    fn credentials_of_kubeedge_are_for_their_server_or_for_all() {
        let user = |config: serde_json::Value, image: &str| {
            let secret = (
                ".dockerconfigjson".to_owned(),
                config.to_string().into_bytes(),
            );
            plain_credentials(&[secret].into(), image).map(|auth| auth.username)
        };
        let plain = json!({"username": "me", "password": "p"});
        let auth = json!({"auth": STANDARD.encode("me:p"), "server_address": "https://a.example"});
        for (config, image, wanted) in [
            (&plain, "a.example/x", true),
            (&plain, "nginx", true),
            (&auth, "a.example/x:1", true),
            (&auth, "b.example/x", false),
            (
                &json!({"auths": {"a.example": plain}}),
                "a.example/x",
                false,
            ),
            (&json!([1]), "a.example/x", false),
        ] {
            let found = user(config.clone(), image);
            assert_eq!(found.as_deref(), wanted.then_some("me"), "{config} {image}");
        }
    }

    #[test]
    fn registry_patterns_match() {
        for (pattern, image, wanted) in [
            ("a.example", "a.example/x", true),
            ("a.example/x", "a.example/x", true),
            ("a.example/x", "a.example/xy", false),
            ("a.example/x", "a.example/x:1", true),
            ("a.example/x", "a.example/x@sha256:0", true),
            ("*.example", "a.example/x", true),
            ("*.example", "a.b.example/x", false),
            ("*.*.example", "a.b.example/x", true),
            ("pre*post.example", "pre-post.example/x", true),
            ("pre*post.example", "pre.example/x", false),
            ("pre*mid*post.example", "pre-a-mid-post.example/x", true),
            ("pre*mid*post.example", "premidpost.example/x", true),
            ("ab*ba.example", "aba.example/x", false),
            ("*a*b.example", "b-a.example/x", false),
            ("a.example:*", "a.example:5000/x", true),
            ("a.example", "a.example:5000/x", false),
        ] {
            assert_eq!(matches(pattern, image), wanted, "{pattern} {image}");
        }
    }
}
