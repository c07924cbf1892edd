//! Kubeconfigs are merged, never lost.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use kube::config::Kubeconfig;
use serde_json::json;

use super::*;

/// A kubeconfig as people have it: unknown fields, comments, values that are easily misread.
const PROD: &str = r#"# ours
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: prod
clusters:
- name: prod
  cluster: {server: "https://prod.example:6443", insecure-skip-tls-verify: no, proxy-url: "socks5://p:1"}
contexts:
- {name: prod, context: {cluster: prod, user: prod, namespace: "null"}}
users:
- name: prod
  user:
    token: "0123"
    exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token, env: [{name: A, value: "yes"}, {name: B, value: "1e5"},
      {name: C, value: "12:34"}, {name: D, value: "2024-01-01"}, {name: E, value: "a: b # c\n\ttext \n"}, {name: F, value: ""}, {name: G, value: "0o17"}]}
extensions: [{name: x, extension: {since: "2024-01-01T00:00:00Z"}}]
"#;

fn credentials(server: &str) -> Credentials {
    Credentials::new(server.to_owned(), b"ca", server.as_bytes(), b"key")
}

fn merge(destination: &Destination, server: &str) -> Result<Entries, KubeconfigError> {
    destination.merge(&credentials(server))
}

fn value(path: &Path) -> serde_json::Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the value of PROD with nothing of ours.
fn without_ours(path: &Path) -> serde_json::Value {
    let mut value = value(path);
    for section in document::SECTIONS {
        value[section]
            .as_array_mut()
            .unwrap()
            .retain(|entry| entry["name"] == "prod");
    }
    value
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns names in the directory: no lock and no temporary file stays.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn other_contexts_fields_mode_and_link_survive_a_cloud() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("real"), directory.path().join("link"));
    fs::write(&file, PROD).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", &link).unwrap();
    let before = value(&file);
    let destination = Destination::from(link.clone());
    for server in ["https://127.0.0.1:1", "https://127.0.0.1:2"] {
        let mut entries = merge(&destination, server).unwrap();
        assert!(!entries.is_current());
        assert_eq!(without_ours(&file), before);
        let read = Kubeconfig::read_from(&link).unwrap();
        let ours = read
            .clusters
            .iter()
            .filter(|cluster| cluster.name == DEFAULT_CONTEXT);
        let servers: Vec<_> = ours
            .map(|ours| ours.cluster.clone().unwrap().server.unwrap())
            .collect();
        assert_eq!(servers, [server]);
        entries.make_temporary();
    }
    assert_eq!(value(&file), before);
    assert_eq!(mode(&file), 0o640);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
    assert_eq!(names(directory.path()), ["link", "real"]);
}

#[test]
fn current_context_changes_only_if_none_is_set_or_on_request() {
    for (current, make_current, during, after) in [
        ("", false, DEFAULT_CONTEXT, ""),
        ("prod", false, "prod", "prod"),
        ("prod", true, DEFAULT_CONTEXT, "prod"),
        ("gone", true, DEFAULT_CONTEXT, ""),
        (DEFAULT_CONTEXT, false, DEFAULT_CONTEXT, ""),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        fs::write(
            &file,
            PROD.replace(
                "current-context: prod",
                &format!("current-context: {current:?}"),
            ),
        )
        .unwrap();
        let destination = Destination {
            make_current,
            ..Destination::from(file.clone())
        };
        let mut entries = merge(&destination, "https://127.0.0.1:1").unwrap();
        assert_eq!(
            value(&file)["current-context"],
            during,
            "{current} {make_current}"
        );
        assert_eq!(entries.is_current(), during == DEFAULT_CONTEXT);
        entries.make_temporary();
        drop(entries);
        assert_eq!(
            value(&file)["current-context"],
            after,
            "{current} {make_current}"
        );
    }
}

#[test]
fn file_that_is_no_kubeconfig_is_rejected_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    for (text, why) in [
        (&b"my notes\nand more\n"[..], "no mapping"),
        (b"a: b\n", "neither kind: Config nor clusters"),
        (b"- a\n- b\n", "no mapping"),
        (
            b"kind: Pod\napiVersion: v1\nmetadata: {name: a}\n",
            "kind is not Config",
        ),
        (b"kind: Config\napiVersion: v2\n", "apiVersion is not v1"),
        (b"kind: Config\nclusters: 3\n", "clusters are no list"),
        (
            b"kind: Config\nusers: [{user: {token: t}}]\n",
            "users are no list",
        ),
        (
            b"kind: Config\ncurrent-context: [a]\n",
            "current-context is no name",
        ),
        (b"kind: [\n", "not YAML"),
        (b"kind: Config\n---\nkind: Config\n", "not YAML"),
        (b"\xff\xfe\x00", "no text"),
    ] {
        fs::write(&file, text).unwrap();
        let destination = Destination::from(file.clone());
        for error in [
            destination.find_cluster().map(drop).unwrap_err(),
            merge(&destination, "https://127.0.0.1:1")
                .map(drop)
                .unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.contains("was not changed") && error.contains(why),
                "{why}: {error}"
            );
            assert!(
                error.contains("--kubeconfig") && error.contains(file.to_str().unwrap()),
                "{error}"
            );
        }
        assert_eq!(fs::read(&file).unwrap(), text);
        assert_eq!(names(directory.path()), ["file"]);
    }
    let folder = Destination::from(directory.path().to_owned());
    assert!(
        folder
            .find_cluster()
            .unwrap_err()
            .to_string()
            .contains("no regular file")
    );
}

#[test]
fn new_file_is_for_its_owner_and_ends_with_a_cloud_that_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for text in [None, Some(""), Some("# nothing yet\n---\n")] {
        for is_temporary in [true, false] {
            let file = directory.path().join("new/config");
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            let mut entries = merge(&Destination::from(file.clone()), "https://[::1]:1").unwrap();
            assert!(entries.is_current());
            assert_eq!(value(&file)["current-context"], DEFAULT_CONTEXT);
            if text.is_none() {
                assert_eq!(mode(&file), 0o600);
            }
            if is_temporary {
                entries.make_temporary();
            }
            drop(entries);
            assert_eq!(file.exists(), text.is_some() || !is_temporary, "{text:?}");
            if is_temporary && text.is_some() {
                assert!(value(&file)["clusters"].as_array().unwrap().is_empty());
            }
            let _ = fs::remove_file(&file);
        }
    }
}

#[test]
fn file_of_a_killed_cloud_ends_with_the_next_one_unless_it_has_anything_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("prod"), PROD).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("real"), "").unwrap();
    symlink("real", path("link")).unwrap();
    for name in ["new", "prod", "link"] {
        let destination = Destination::from(path(name));
        // as after `kill -9`
        let mut killed = merge(&destination, "https://a").unwrap();
        killed.make_temporary();
        std::mem::forget(killed);
        let mut next = merge(&destination, "https://b").unwrap();
        next.make_temporary();
        drop(next);
    }
    // one that was there, and had no entries
    let mut only = merge(&Destination::from(path("empty")), "https://a").unwrap();
    only.make_temporary();
    drop(only);
    assert_eq!(names(directory.path()), ["empty", "link", "prod", "real"]);
    let prod: serde_json::Value = serde_saphyr::from_str(PROD).unwrap();
    assert_eq!(without_ours(&path("prod")), prod);
}

#[test]
fn entries_of_a_later_cloud_are_not_removed_with_the_earlier_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let destination = Destination::from(file.clone());
    let mut earlier = merge(&destination, "https://127.0.0.1:1").unwrap();
    let later = merge(&destination, "https://127.0.0.1:2").unwrap();
    earlier.make_temporary();
    drop(earlier);
    assert_eq!(
        value(&file)["clusters"][0]["cluster"]["server"],
        "https://127.0.0.1:2"
    );
    drop(later);
}

#[test]
fn entries_of_the_same_name_that_no_cloud_wrote_are_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    for section in document::SECTIONS {
        let field = section.trim_end_matches('s');
        let text = format!("kind: Config\n{section}: [{{name: prod, {field}: {{}}}}]\n");
        fs::write(&file, &text).unwrap();
        let destination = Destination {
            context: "prod".into(),
            ..Destination::from(file.clone())
        };
        for error in [
            destination.find_cluster().map(drop).unwrap_err(),
            merge(&destination, "https://127.0.0.1:1")
                .map(drop)
                .unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.contains("that cloudsim did not write") && error.contains("--context"),
                "{error}"
            );
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    // entries beside a cloud's cluster may be somebody else's
    let cluster =
        json!({"name": "prod", "cluster": {"server": "https://127.0.0.1:1", EXTENSIONS: mark()}});
    let text = format!(
        "kind: Config\nclusters: [{cluster}]\nusers: [{{name: prod, user: {{token: KEEP}}}}]\n"
    );
    fs::write(&file, &text).unwrap();
    let destination = Destination {
        context: "prod".into(),
        ..Destination::from(file.clone())
    };
    assert!(merge(&destination, "https://127.0.0.1:1").is_err());
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    fs::write(&file, "").unwrap();
    let destination = Destination::from(file);
    for server in ["https://127.0.0.1:1", "https://127.0.0.1:2"] {
        merge(&destination, server).unwrap();
    }
}

#[test]
fn list_of_files_is_changed_by_the_rules_of_kubectl() {
    let mark = format!("{EXTENSIONS}: {}", mark());
    let ours = PROD
        .replace("{server: ", &format!("{{{mark}, server: "))
        .replace("context: {", &format!("context: {{{mark}, "))
        .replace("  user:\n", &format!("  user:\n    {mark}\n"))
        .replace("prod", DEFAULT_CONTEXT);
    // each file: absent, with another cluster, or with ours; and which one then has the cluster, and which the current context
    for (texts, cluster, current) in [
        ([None, None], 1, Some(1)),
        ([None, Some(PROD)], 1, None),
        ([Some(PROD), Some(PROD)], 0, None),
        ([Some(PROD), Some(&*ours)], 1, None),
        ([Some("kind: Config\n"), Some("kind: Config\n")], 0, Some(0)),
        ([Some("kind: Config\n"), Some(PROD)], 0, None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a", "b"].map(|name| directory.path().join(name)).into();
        for (file, text) in files.iter().zip(texts) {
            if let Some(text) = text {
                fs::write(file, text).unwrap();
            }
        }
        let destination = Destination {
            files: files.clone(),
            ..Destination::from(PathBuf::new())
        };
        let server = "https://127.0.0.1:1";
        let entries = merge(&destination, server).unwrap();
        assert_eq!(entries.file(), files[cluster], "{texts:?}");
        assert_eq!(entries.is_current(), current.is_some(), "{texts:?}");
        for (index, file) in files.iter().enumerate() {
            let text = fs::read_to_string(file).unwrap_or_default();
            assert_eq!(text.contains(server), index == cluster, "{texts:?}");
            let is_current = text.contains(&format!("current-context: {DEFAULT_CONTEXT}"));
            assert_eq!(
                is_current,
                current == Some(index) || texts[index] == Some(&ours),
                "{texts:?}"
            );
            if index != cluster && current != Some(index) {
                assert_eq!(
                    text,
                    texts[index].unwrap_or_default(),
                    "written in vain: {texts:?}"
                );
            }
        }
    }
}

#[test]
fn file_that_another_program_has_locked_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    fs::write(directory.path().join("config.lock"), "").unwrap();
    let error = Locked::try_take(std::slice::from_ref(&file), 2)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("is locked") && error.contains("config.lock"),
        "{error}"
    );
    assert_eq!(names(directory.path()), ["config.lock"]);
    fs::remove_file(directory.path().join("config.lock")).unwrap();
    let locked = Locked::try_take(std::slice::from_ref(&file), 2).unwrap();
    assert_eq!(names(directory.path()), ["config.lock"]);
    drop(locked);
    assert!(names(directory.path()).is_empty());
}

#[test]
fn directory_that_cannot_be_created_is_named() {
    let error = merge(
        &Destination::from(PathBuf::from("/proc/nowhere/config")),
        "s",
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("/proc/nowhere/config") && error.contains("--kubeconfig"),
        "{error}"
    );
}
