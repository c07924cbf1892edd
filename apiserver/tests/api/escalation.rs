//! Writes of roles and bindings by somebody who may write them and grant little: no write makes a role or binding with more effective.

use serde_json::{Value, json};

use super::{
    rbac::{binding, person, rule, user},
    world::{World, refusal},
};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The collections of roles and bindings.
fn collections() -> [String; 4] {
    [
        "clusterroles",
        "namespaces/default/roles",
        "clusterrolebindings",
        "namespaces/default/rolebindings",
    ]
    .map(|path| format!("{RBAC}/{path}"))
}

fn everything() -> Value {
    json!([rule(&["*"], &["*"], &["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}])
}

fn little() -> Value {
    json!([rule(&[""], &["pods"], &["get"])])
}

/// A role or binding of the collection at `path`, which grants everything or little.
fn object(path: &str, name: &str, is_large: bool) -> Value {
    if path.ends_with("bindings") {
        let role = if is_large { "all" } else { "little" };
        binding(name, ("ClusterRole", role), user("User", "eve"))
    } else {
        let mut rules = if is_large { everything() } else { little() };
        if path.contains("namespaces") {
            // those of a namespace cannot hold paths
            rules.as_array_mut().unwrap().truncate(1);
        }
        json!({"metadata": {"name": name}, "rules": rules})
    }
}

/// A world in which ann may write roles and bindings and read pods, and each collection has the objects `large` and `small`.
async fn world() -> World {
    let world = World::strict().await;
    let kinds = [
        "roles",
        "clusterroles",
        "rolebindings",
        "clusterrolebindings",
    ];
    let verbs = ["get", "create", "update", "patch", "delete"];
    let writer = json!([
        rule(&["rbac.authorization.k8s.io"], &kinds, &verbs),
        little()[0]
    ]);
    let [roles, _, bindings, _] = collections();
    for (name, rules) in [
        ("writer", writer),
        ("all", everything()),
        ("little", little()),
    ] {
        world
            .create(&roles, json!({"metadata": {"name": name}, "rules": rules}))
            .await;
    }
    world
        .create(
            &bindings,
            binding("writer", ("ClusterRole", "writer"), user("User", "ann")),
        )
        .await;
    for path in collections() {
        for (name, is_large) in [("large", true), ("small", false)] {
            world.create(&path, object(&path, name, is_large)).await;
        }
    }
    world
}

fn typed_object(path: &str, mut object: Value) -> Value {
    let kind = match path.rsplit('/').next().unwrap() {
        "roles" => "Role",
        "clusterroles" => "ClusterRole",
        "rolebindings" => "RoleBinding",
        _ => "ClusterRoleBinding",
    };
    object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    object["kind"] = json!(kind);
    object
}

#[tokio::test]
async fn label_and_content_of_roles_and_bindings_are_written_only_by_who_has_their_permissions() {
    let world = world().await;
    let ann = world.called_by(person("ann", &[]));
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    for path in collections() {
        for (name, is_large) in [("large", true), ("small", false)] {
            let mut labelled = world.get(&format!("{path}/{name}")).await;
            labelled["metadata"]["labels"] = labels.clone();
            let mut annotated = world.get(&format!("{path}/{name}")).await;
            annotated["metadata"]["annotations"] = json!({"a": "b"});
            let mut applied = typed_object(&path, object(&path, name, is_large));
            applied["metadata"]["labels"] = json!({"x": "y"});
            let patch = json!({"metadata": {"labels": labels}});
            let operations =
                json!([{"op": "add", "path": "/metadata/annotations", "value": {"c": "d"}}]);
            let new = |own: &str| object(&path, &format!("{name}-{own}"), is_large);
            let rows = [
                (format!("PUT {path}/{name}?dryRun=All"), labelled, 200),
                (format!("PUT {path}/{name}"), annotated, 200),
                (format!("MERGE {path}/{name}"), patch.clone(), 200),
                (
                    format!("MERGE {path}/{name}?dryRun=All"),
                    json!({"metadata": {"labels": {"e": "f"}}}),
                    200,
                ),
                (
                    format!("STRATEGIC {path}/{name}"),
                    json!({"metadata": {"annotations": {"g": "h"}}}),
                    200,
                ),
                (format!("JSON {path}/{name}"), operations, 200),
                (
                    format!("APPLY {path}/{name}?fieldManager=a&force=true"),
                    applied,
                    200,
                ),
                (format!("POST {path}"), new("posted"), 201),
                (format!("POST {path}?dryRun=All"), new("dry"), 201),
                (format!("PUT {path}/{name}-put"), new("put"), 201),
                (
                    format!("APPLY {path}/{name}-applied?fieldManager=a"),
                    typed_object(&path, new("applied")),
                    201,
                ),
            ];
            for (request, body, code) in rows {
                let code = if is_large { 403 } else { code };
                let answer = ann.send(&request, body).await;
                assert_eq!(answer.code, code, "{request}: {}", answer.body);
            }
            // garbage collection has to be able to end the life of each
            let freed = json!({"metadata": {"finalizers": ["example.com/a"], "ownerReferences": [
                {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "u"},
            ]}});
            ann.expect(&format!("MERGE {path}/{name}"), freed, 200, json!({}))
                .await;
            ann.expect(
                &format!("MERGE {path}/{name}"),
                json!({"metadata": {"finalizers": null}}),
                200,
                json!({}),
            )
            .await;
            ann.expect(
                &format!("DELETE {path}/{name}"),
                Value::Null,
                200,
                json!({}),
            )
            .await;
        }
    }
    let view = world.get(&format!("{RBAC}/clusterroles/view")).await["rules"].clone();
    assert!(
        !view
            .as_array()
            .unwrap()
            .iter()
            .any(|rule| rule["verbs"] == json!(["*"])),
        "{view}"
    );
}

#[tokio::test]
async fn aggregation_rule_is_written_only_by_who_has_everything() {
    let world = world().await;
    let ann = world.called_by(person("ann", &[]));
    let roles = format!("{RBAC}/clusterroles");
    let aggregation = json!({"clusterRoleSelectors": [{"matchLabels": {"sum": "true"}}]});
    let summed = |name: &str| json!({"metadata": {"name": name}, "rules": [], "aggregationRule": aggregation});
    world.create(&roles, summed("sum")).await;
    let why = "must have cluster-admin privileges to use the aggregationRule";
    let refused = |name: &str| {
        let message =
            format!("clusterroles.rbac.authorization.k8s.io {name:?} is forbidden: {why}");
        refusal("Forbidden", &message)
    };
    let without = json!({"aggregationRule": null});
    ann.expect(&format!("POST {roles}"), summed("new"), 403, refused("new"))
        .await;
    ann.expect(
        &format!("MERGE {roles}/small"),
        json!({"aggregationRule": aggregation}),
        403,
        refused("small"),
    )
    .await;
    ann.expect(
        &format!("MERGE {roles}/sum"),
        without.clone(),
        403,
        refused("sum"),
    )
    .await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    ann.expect(&format!("MERGE {roles}/sum"), label, 403, refused("sum"))
        .await;
    world
        .create(
            &format!("{RBAC}/clusterrolebindings"),
            binding("ann", ("ClusterRole", "all"), user("User", "ann")),
        )
        .await;
    ann.create(&roles, summed("new")).await;
    ann.expect(&format!("MERGE {roles}/sum"), without, 200, json!({}))
        .await;
}

#[tokio::test]
async fn rules_with_too_many_permissions_to_compare_are_refused() {
    let world = world().await;
    let ann = world.called_by(person("ann", &[]));
    let names = |letter: &str| -> Vec<String> {
        (0..1000)
            .map(|number| format!("{letter}{number}"))
            .collect()
    };
    let rules = json!([{"apiGroups": names("g"), "resources": names("r"), "resourceNames": names("n"), "verbs": names("v")}]);
    let role = json!({"metadata": {"name": "many"}, "rules": rules});
    let answer = ann
        .send(&format!("POST {RBAC}/clusterroles"), role.clone())
        .await;
    assert_eq!(answer.code, 403, "{}", answer.body);
    let message = answer.body["message"].as_str().unwrap();
    assert!(
        message.ends_with("more than 100000 single permissions; use fewer, or \"*\""),
        "{message}"
    );
    world.create(&format!("{RBAC}/clusterroles"), role).await;
}
