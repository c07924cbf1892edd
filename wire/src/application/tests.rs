//! Recorded requests, keys and paths.

use super::*;

fn recorded_object() -> Value {
    json!({
        "ID": "1", "Key": "/core/v1/configmaps/default/null", "Verb": "list", "Nodename": "edge2", "Option": "e30=",
        "ReqBody": null, "Subresource": "", "RespBody": null, "Status": "InApplying", "Reason": "",
        "Error": {"ErrStatus": {"metadata": {}}}, "Timestamp": "0001-01-01T00:00:00Z",
    })
}

#[test]
fn a_recorded_request_is_read_and_written_as_it_was() {
    let application = Application::read(&recorded_object()).unwrap();
    assert_eq!(
        (application.verb, application.option.as_slice()),
        (Verb::List, b"{}".as_slice())
    );
    assert_eq!(application.write(), recorded_object());
    assert_eq!(application.refusal(), None);
}

#[test]
fn the_same_question_has_the_same_id() {
    let ask = |node: &str, body: &[u8]| {
        Application::new(
            node,
            "/core/v1/pods/null/null".into(),
            Verb::List,
            &json!({}),
            body.to_vec(),
            "",
        )
        .id
    };
    // sha256 over `n/core/v1/pods/null/nulllist{}`
    assert_eq!(
        ask("n", b""),
        "eb14c4c0ffea9fb285a89e928e6d199e2e90eae8bb5ada9425a5b622210380f2"
    );
    assert_ne!(ask("n", b""), ask("m", b""));
    assert_ne!(ask("n", b""), ask("n", b"x"));
}

#[test]
fn keys_are_targets_and_other_paths_are_not() {
    let target = |parts: [&str; 5]| {
        let [group, version, plural, namespace, name] = parts.map(str::to_owned);
        Target {
            group,
            version,
            plural,
            namespace,
            name,
        }
    };
    let rows = [
        (
            "/core/v1/pods/default/web",
            target(["", "v1", "pods", "default", "web"]),
            "/api/v1/namespaces/default/pods/web",
        ),
        (
            "/core/v1/nodes/null/edge",
            target(["", "v1", "nodes", "", "edge"]),
            "/api/v1/nodes/edge",
        ),
        (
            "/core/v1/pods/null/null",
            target(["", "v1", "pods", "", ""]),
            "/api/v1/pods",
        ),
        (
            "/apps/v1/deployments/ns/null",
            target(["apps", "v1", "deployments", "ns", ""]),
            "/apis/apps/v1/namespaces/ns/deployments",
        ),
    ];
    for (key, expected, path) in rows {
        assert_eq!(Target::parse(key).as_ref(), Some(&expected), "{key}");
        assert_eq!(expected.to_string(), key);
        assert_eq!(expected.path(), path);
    }
    assert_eq!(
        Target::parse("/apps/v1/deployments"),
        Some(target(["apps", "v1", "deployments", "", ""]))
    );
    for path in [
        "/version",
        "/api/v1",
        "/apis/apps/v1",
        "/openapi/v3/api",
        "core/v1/pods",
        "//v1/pods",
        "/a/b/c/d/e/f",
        "",
    ] {
        assert_eq!(Target::parse(path), None, "{path}");
    }
}

#[test]
fn what_is_no_application_is_refused_by_name() {
    let with = |field: &str, value: Value| {
        let mut content = recorded_object();
        content[field] = value;
        Application::read(&content).unwrap_err()
    };
    assert!(with("Verb", json!("destroy")).contains("destroy"));
    assert!(with("Option", json!("***")).contains("base64"));
    assert!(with("Nodename", json!(1)).contains("no Application"));
    assert!(Application::read(&Value::Null).is_err());
}

#[test]
fn verbs_are_logged_as_they_are_sent() {
    for verb in [
        "get",
        "list",
        "watch",
        "create",
        "delete",
        "update",
        "updatestatus",
        "patch",
    ] {
        let read: Verb = serde_json::from_value(json!(verb)).unwrap();
        assert_eq!(read.as_str(), verb);
    }
}
