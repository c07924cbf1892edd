//! Tests of [`super`].

use super::*;

const WEB: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  uid: of-the-cloud
  ownerReferences: [{apiVersion: v1, kind: Node, name: edge-1, uid: u}]
  labels: {app: web}
  annotations: {note: mine, kubernetes.io/config.mirror: copied}
spec:
  containers:
  - {name: c, image: 'busybox:1'}
";

fn read(text: &str) -> Result<Pod, Error> {
    pod(text, "web.yaml", "edge-1", jiff::Timestamp::UNIX_EPOCH)
}

#[test]
fn a_manifest_becomes_a_pod_of_this_node() {
    let pod = read(WEB).unwrap();
    let meta = &pod.metadata;
    assert_eq!(meta.name.as_deref(), Some("web-edge-1"));
    assert_eq!(meta.namespace.as_deref(), Some("default"));
    assert_eq!(meta.owner_references, None);
    let uid = meta.uid.as_deref().unwrap();
    assert!(
        uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{uid}"
    );
    let annotations: Vec<_> = meta
        .annotations
        .iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        annotations,
        [
            ("kubernetes.io/config.hash", uid),
            ("kubernetes.io/config.seen", "1970-01-01T00:00:00Z"),
            ("kubernetes.io/config.source", "file"),
            ("note", "mine"),
            ("outrigger.kubeedge.io/manifest", "web.yaml"),
        ]
    );
    let spec = pod.spec.unwrap();
    assert_eq!(
        (spec.node_name.as_deref(), spec.restart_policy.as_deref()),
        (Some("edge-1"), Some("Always"))
    );
    let tolerations = spec.tolerations.unwrap();
    assert_eq!(tolerations.len(), 1);
    assert_eq!(tolerations[0].effect.as_deref(), Some("NoExecute"));
    assert_eq!(
        spec.service_account_name, None,
        "a static pod has no account"
    );
}

#[test]
fn the_uid_follows_content_file_and_node_and_nothing_else() {
    let uid = |text: &str, file: &str, node: &str, seen: i64| {
        pod(
            text,
            file,
            node,
            jiff::Timestamp::from_second(seen).unwrap(),
        )
        .unwrap()
        .metadata
        .uid
        .unwrap()
    };
    let first = uid(WEB, "a.yaml", "edge-1", 0);
    assert_eq!(uid(WEB, "a.yaml", "edge-1", 7), first);
    assert_eq!(
        uid(&format!("# comment\n{WEB}"), "a.yaml", "edge-1", 0),
        first
    );
    assert_eq!(
        uid(
            &WEB.replace("of-the-cloud", "another"),
            "a.yaml",
            "edge-1",
            0
        ),
        first
    );
    let json = serde_json::to_string(&yaml::parse(WEB).unwrap()).unwrap();
    assert_eq!(uid(&json, "a.yaml", "edge-1", 0), first, "JSON is YAML");
    assert_ne!(
        uid(
            &WEB.replace("busybox:1", "busybox:2"),
            "a.yaml",
            "edge-1",
            0
        ),
        first
    );
    assert_ne!(uid(WEB, "b.yaml", "edge-1", 0), first);
    assert_ne!(uid(WEB, "a.yaml", "edge-2", 0), first);
}

#[test]
fn what_is_no_pod_is_refused_with_the_reason() {
    let container = "spec: {containers: [{name: c, image: i}]}";
    let table = [
        ("", "nothing of version nothing"),
        (
            "kind: Deployment\napiVersion: apps/v1\n",
            "Deployment of version apps/v1",
        ),
        ("a: [", "not YAML"),
        (&format!("{WEB}---\n{WEB}"), "second document"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 7}\n",
            "invalid field of the Pod",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
            "spec.containers: Required value",
        ),
        (
            &format!("apiVersion: v1\nkind: Pod\n{container}\n"),
            "metadata.name: Required value",
        ),
        (
            &format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: A_b}}\n{container}\n"),
            "metadata.name: Invalid",
        ),
    ];
    for (text, expected) in table {
        let refused = read(text).unwrap_err().to_string();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "(?s).{0,200}", value in "null|true|-1|text|\\[\\]|\\[1\\]|\\{\\}") {
        let _ = read(&text);
        let _ = read(&format!("apiVersion: v1\nkind: Pod\nmetadata: {value}\nspec: {value}\n"));
        let _ = read(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: {value}}}\n"));
    }
}
