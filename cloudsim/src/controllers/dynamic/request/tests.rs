//! Every verb as a request, and invalid calls.

use super::*;

fn application(verb: Verb, key: &str, option: Value, body: Value, part: &str) -> Application {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    Application::new("edge-1", key.to_owned(), verb, &option, body, part)
}

#[test]
fn every_verb_is_a_request() {
    let named = json!({"metadata": {"name": "m"}});
    // base64 of {}
    let patch = json!({"Name": "m", "PatchType": "application/merge-patch+json", "Data": "e30=",
        "Options": {"force": true, "fieldManager": "a b"}, "Subresources": ["status"]});
    let (list, one) = ("/core/v1/configmaps/ns/null", "/core/v1/configmaps/ns/m");
    let selected = json!({"labelSelector": "a=b", "limit": 5, "watch": true, "continue": ""});
    let rows = [
        (
            application(Verb::Get, one, json!({}), Value::Null, ""),
            "GET /api/v1/namespaces/ns/configmaps/m",
        ),
        (
            application(Verb::Get, one, json!({}), Value::Null, "scale"),
            "GET /api/v1/namespaces/ns/configmaps/m/scale",
        ),
        (
            application(Verb::List, list, selected, Value::Null, ""),
            "GET /api/v1/namespaces/ns/configmaps?labelSelector=a%3Db&limit=5",
        ),
        (
            application(
                Verb::Create,
                list,
                json!({"dryRun": ["All"]}),
                named.clone(),
                "",
            ),
            "POST /api/v1/namespaces/ns/configmaps?dryRun=All",
        ),
        (
            application(Verb::Create, list, json!({}), named.clone(), "x"),
            "POST /api/v1/namespaces/ns/configmaps/m/x",
        ),
        (
            application(Verb::Update, list, json!({}), named.clone(), ""),
            "PUT /api/v1/namespaces/ns/configmaps/m",
        ),
        (
            application(Verb::UpdateStatus, one, json!({}), named, ""),
            "PUT /api/v1/namespaces/ns/configmaps/m/status",
        ),
        (
            application(Verb::Patch, list, patch, Value::Null, ""),
            "PATCH /api/v1/namespaces/ns/configmaps/m/status?force=true&fieldManager=a+b",
        ),
        (
            application(
                Verb::Delete,
                one,
                json!({"gracePeriodSeconds": 0}),
                Value::Null,
                "",
            ),
            "DELETE /api/v1/namespaces/ns/configmaps/m",
        ),
    ];
    for (application, expected) in rows {
        let request = Call::of(&application).unwrap().request().unwrap();
        assert_eq!(format!("{} {}", request.method(), request.uri()), expected);
    }
}

#[test]
fn what_would_lead_elsewhere_is_refused() {
    let with = |key: &str, part: &str| {
        Call::of(&application(Verb::Get, key, json!({}), Value::Null, part)).unwrap_err()
    };
    for key in [
        "/core/v1/pods/ns/..",
        "/core/v1/pods/../x",
        "/core/v1/pods?x=1/ns/p",
        "/version",
        "/core/v1/pods/ns/null",
    ] {
        with(key, "");
    }
    assert!(with("/core/v1/pods/ns/p", "../q").contains("part of a path"));
    let patch = application(
        Verb::Patch,
        "/core/v1/pods/ns/p",
        json!({"Name": "a/b", "PatchType": "x"}),
        Value::Null,
        "",
    );
    assert!(Call::of(&patch).is_err());
    let body = Application {
        req_body: b"{".to_vec(),
        ..application(
            Verb::Create,
            "/core/v1/pods/ns/null",
            json!({}),
            Value::Null,
            "",
        )
    };
    assert!(Call::of(&body).unwrap_err().contains("not JSON"));
}

/// A name that is authorized is the one of the request: a list, watch or create of a collection has none.
#[test]
fn only_calls_about_one_object_have_a_name() {
    let named = json!({"metadata": {"name": "other"}});
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["*"]});
    let access: ServiceAccountAccessSpec =
        serde_json::from_value(json!({"accessClusterRoleBinding": [{"rules": [rule]}]})).unwrap();
    for (verb, part, name) in [
        (Verb::List, "", ""),
        (Verb::Watch, "", ""),
        (Verb::Create, "", ""),
        (Verb::Create, "token", "one"),
        (Verb::Get, "", "one"),
        (Verb::Update, "", "one"),
        (Verb::Delete, "", "one"),
    ] {
        let call = Call::of(&application(
            verb,
            "/core/v1/secrets/ns/one",
            json!({}),
            named.clone(),
            part,
        ))
        .unwrap();
        assert_eq!(call.target.name, name, "{verb:?}");
        assert_eq!(
            call.review("n")["spec"]["resourceAttributes"]["name"],
            name,
            "{verb:?}"
        );
        let path = call.request().unwrap().uri().path().to_owned();
        assert_eq!(path.contains("/one"), !name.is_empty(), "{path}");
        if part.is_empty() {
            assert_eq!(call.is_allowed_by(&access), !name.is_empty(), "{verb:?}");
        }
    }
    for verb in [Verb::List, Verb::Watch] {
        let part = application(verb, "/core/v1/pods/ns/p", json!({}), Value::Null, "log");
        assert!(Call::of(&part).unwrap_err().contains("cannot be listed"));
    }
}

#[test]
fn a_selector_is_added_to_the_calls_own() {
    let list = |option: Value| {
        let call = Call::of(&application(
            Verb::List,
            "/core/v1/pods/null/null",
            option,
            Value::Null,
            "",
        ))
        .unwrap();
        call.within("spec.nodeName=n").option_text("fieldSelector")
    };
    assert_eq!(list(json!({})), "spec.nodeName=n");
    assert_eq!(list(json!({"fieldSelector": "a=b"})), "spec.nodeName=n,a=b");
    // the comma would belong to the value
    assert_eq!(
        list(json!({"fieldSelector": r"a!=b\"})),
        r"spec.nodeName=n,a!=b\"
    );
    assert_eq!(list(Value::Null), "spec.nodeName=n");
}

#[test]
fn accounts_may_make_the_calls_that_their_rules_name() {
    let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    let binding = json!({"metadata": {"name": "b", "namespace": "ns"}, "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}});
    let access: ServiceAccountAccessSpec = serde_json::from_value(json!({
        "accessRoleBinding": [{"roleBinding": binding, "rules": [rule("configmaps", &["list", "update"])]}],
        "accessClusterRoleBinding": [{"rules": [rule("nodes", &["get"]), rule("pods/status", &["update"])]}],
    }))
    .unwrap();
    let named = json!({"metadata": {"name": "m"}});
    let rows = [
        (Verb::List, "/core/v1/configmaps/ns/null", "", true),
        (Verb::List, "/core/v1/configmaps/other/null", "", false),
        (Verb::List, "/core/v1/configmaps/null/null", "", false),
        (Verb::Watch, "/core/v1/configmaps/ns/null", "", false),
        (Verb::Update, "/core/v1/configmaps/ns/m", "", true),
        (Verb::Update, "/core/v1/configmaps/ns/m", "x", false),
        (Verb::UpdateStatus, "/core/v1/pods/any/m", "", true),
        (Verb::Update, "/core/v1/pods/any/m", "", false),
        (Verb::Get, "/core/v1/nodes/null/m", "", true),
        (Verb::Get, "/apps/v1/nodes/null/m", "", false),
    ];
    for (verb, key, part, expected) in rows {
        let call = Call::of(&application(verb, key, json!({}), named.clone(), part)).unwrap();
        assert_eq!(
            call.is_allowed_by(&access),
            expected,
            "{verb:?} {key} {part}"
        );
    }
}
