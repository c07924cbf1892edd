//! Credentials for registries, from the pod's image pull Secrets. Pure.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use wire::cri;

use crate::edged::references::{self, Objects};

/// `~/.docker/config.json`, as in Secrets of type `kubernetes.io/dockerconfigjson`.
#[derive(Deserialize)]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

/// The credentials for the image's registry, if a Secret has them.
pub(super) fn credentials(secrets: &Objects, pod: &Pod, image: &str) -> Option<cri::AuthConfig> {
    references::of_pulls(pod).iter().find_map(|reference| {
        let data = secrets.data(reference, true).ok()??;
        let auths = match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
            (Some(json), _) => serde_json::from_slice::<DockerConfig>(json).ok()?.auths,
            (None, Some(json)) => serde_json::from_slice(json).ok()?,
            (None, None) => return None,
        };
        let image = full(image);
        let matching = auths.into_iter().filter(|(server, _)| matches(&place(server), &image));
        let (_, entry) = matching.max_by_key(|(server, _)| place(server).len())?;
        Some(auth(entry))
    })
}

/// The image with its registry, which is Docker Hub's where none is named.
fn full(image: &str) -> String {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    }
}

/// A key of `auths` as host and path.
fn place(server: &str) -> String {
    let bare = server.trim_start_matches("https://").trim_start_matches("http://");
    let bare = bare.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/v2");
    bare.replacen("index.docker.io", "docker.io", 1)
}

/// Whether the image is at that place or below it.
fn matches(place: &str, image: &str) -> bool {
    image.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
}

fn auth(entry: Entry) -> cri::AuthConfig {
    let decoded = STANDARD.decode(&entry.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
    let either = |own: String, decoded: Option<&str>| {
        if own.is_empty() { decoded.unwrap_or_default().to_owned() } else { own }
    };
    cri::AuthConfig {
        username: either(entry.username, pair.map(|pair| pair.0)),
        password: either(entry.password, pair.map(|pair| pair.1)),
        // Runtimes would compare it with the image's host, and want a URL for that. It was compared here.
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
    use crate::edged::references::{Fetched, Reference};

    #[test]
    fn the_longest_matching_place_gives_the_credentials() {
        let config = json!({"auths": {
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:h")},
            "registry.example": {"username": "all", "password": "a"},
            "registry.example/team": {"username": "team", "password": "t"}
        }});
        let mut secrets = Objects::default();
        let data = [(".dockerconfigjson".to_owned(), config.to_string().into_bytes())];
        secrets.insert(Reference::Secret("pull".into()), Fetched::Found(std::sync::Arc::new(data.into())));
        let pod = serde_json::from_value(
            json!({"spec": {"containers": [], "imagePullSecrets": [{"name": "none"}, {"name": "pull"}]}}),
        );
        let pod: Pod = pod.unwrap();
        let user = |image: &str| credentials(&secrets, &pod, image).map(|auth| auth.username);
        assert_eq!(user("nginx").as_deref(), Some("hub"));
        assert_eq!(user("a/b:1").as_deref(), Some("hub"));
        assert_eq!(user("registry.example/x").as_deref(), Some("all"));
        assert_eq!(user("registry.example/team/x").as_deref(), Some("team"));
        assert_eq!(user("registry.example.org/x"), None);
    }
}
