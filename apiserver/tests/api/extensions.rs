//! Kinds by which a cluster is extended: served and stored, and said to be only stored where nothing acts on them.

use kubeapi::Registry;
use objectstore::MemoryStore;
use serde_json::{Value, json};

use super::world::{World, named_map};

/// Path of the collection, kind, and an object's fields beside its metadata.
fn kinds() -> Vec<(&'static str, &'static str, Value)> {
    let claim =
        json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}});
    vec![
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            json!({"spec": {
                "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["example.org"], "apiVersions": ["*"], "resources": ["*"]}]},
                "validations": [{"expression": "true"}],
            }}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "a", "validationActions": ["Deny"]}}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            json!({"spec": {"reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["example.org"], "apiVersions": ["*"], "resources": ["*"]}]}, "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "a"}}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://a"}}]}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            json!({"webhooks": []}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            "ResourceClaim",
            json!({"spec": claim}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            "ResourceClaimTemplate",
            json!({"spec": {"spec": claim}}),
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "ResourceSlice",
            json!({"spec": {"driver": "gpu", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            "DeviceClass",
            json!({"spec": {}}),
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            "VolumeAttributesClass",
            json!({"driverName": "disk", "parameters": {"iops": "1"}}),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            "FlowSchema",
            json!({"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1}}),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            json!({"spec": {"type": "Exempt"}}),
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            "APIService",
            json!({"spec": {"group": "g", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}}),
        ),
    ]
}

#[tokio::test]
async fn each_is_listed_watched_and_stored() {
    let world = World::new().await;
    for (path, kind, fields) in kinds() {
        let list = world.get(path).await;
        assert_eq!(
            (&list["kind"], &list["items"]),
            (&json!(format!("{kind}List")), &json!([])),
            "{path}"
        );
        let mut object = fields.clone();
        let name = if kind == "APIService" { "v1.g" } else { "a" };
        object["metadata"] = json!({"name": name});
        let made = world
            .expect(
                &format!("POST {path}?fieldValidation=Strict"),
                object.clone(),
                201,
                fields,
            )
            .await;
        assert_eq!(made["kind"], kind, "{path}");
        assert_eq!(world.get(&format!("{path}/{name}")).await, made);
        object["nonsense"] = json!(1);
        let unknown = json!({"message": format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: strict decoding error: unknown field \"nonsense\""
        )});
        object["metadata"]["name"] = json!("b");
        world
            .expect(
                &format!("POST {path}?fieldValidation=Strict"),
                object,
                400,
                unknown,
            )
            .await;
        assert_eq!(
            world.watch(&format!("{path}?watch=1")).await.ready(),
            [format!("ADDED {name}")],
            "{path}"
        );
        world
            .expect(
                &format!("DELETE {path}/{name}"),
                Value::Null,
                200,
                json!({}),
            )
            .await;
    }
}

#[tokio::test]
async fn a_strategic_patch_finds_a_webhook_by_its_name() {
    let world = World::new().await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let webhook = |name: &str| json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://a"}});
    let object = json!({"metadata": {"name": "a"}, "webhooks": [webhook("a.example.com"), webhook("b.example.com")]});
    world.create(path, object).await;
    let patch = json!({"webhooks": [{"name": "b.example.com", "failurePolicy": "Ignore"}]});
    let expected = json!({"webhooks": [
        {"name": "a.example.com", "failurePolicy": "Fail", "sideEffects": "None"},
        {"name": "b.example.com", "failurePolicy": "Ignore", "sideEffects": "None"},
    ]});
    world
        .expect(&format!("STRATEGIC {path}/a"), patch, 200, expected)
        .await;
}

#[tokio::test]
async fn autoscalers_are_the_same_objects_in_both_versions() {
    let world = World::new().await;
    let (one, two) = (
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    );
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let old = json!({
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
    });
    let shown = json!({"apiVersion": "autoscaling/v1", "spec": {"minReplicas": 1, "targetCPUUtilizationPercentage": 70}});
    world
        .expect(&format!("POST {one}"), old, 201, shown.clone())
        .await;
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}});
    let new = json!({"apiVersion": "autoscaling/v2", "spec": {"metrics": [metric], "targetCPUUtilizationPercentage": null}});
    world
        .expect(&format!("GET {two}/a"), Value::Null, 200, new)
        .await;
    world
        .expect(&format!("GET {one}/a"), Value::Null, 200, shown)
        .await;
    let changed = json!({"spec": {"targetCPUUtilizationPercentage": 50}});
    world
        .expect(&format!("MERGE {one}/a"), changed.clone(), 200, changed)
        .await;
    let list = world.get(two).await;
    assert_eq!(
        list["items"][0]["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        50
    );
    let groups = world.get("/apis/autoscaling").await;
    let versions: Vec<_> = groups["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["version"].as_str().unwrap())
        .collect();
    assert_eq!(versions, ["v2", "v1"]);
}

#[tokio::test]
async fn what_nothing_acts_on_is_said_to_be_only_stored() {
    let kinds = [
        ("networking.k8s.io", "NetworkPolicy"),
        ("example.com", "Widget"),
    ];
    let api = apiserver::builder(MemoryStore::new())
        .registry(super::world::registry())
        .stored_only(kinds)
        .build();
    let world = World::around(api);
    world
        .create("/api/v1/namespaces", named_map("default"))
        .await;
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = json!({"metadata": {"name": "a"}, "spec": {"podSelector": {}}});
    let warning = "299 - \"NetworkPolicy is stored but has no effect here\"";
    let applied = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "b"}});
    for (request, body, told) in [
        (format!("POST {policies}"), policy.clone(), Some(warning)),
        (format!("GET {policies}/a"), Value::Null, None),
        (
            format!("MERGE {policies}/a"),
            json!({"metadata": {"labels": {"a": "b"}}}),
            Some(warning),
        ),
        (
            format!("APPLY {policies}/b?fieldManager=me"),
            applied,
            Some(warning),
        ),
        (
            "POST /apis/example.com/v1/namespaces/default/widgets".into(),
            super::world::widget("w", 1),
            Some("299 - \"Widget is stored but has no effect here\""),
        ),
        (
            "POST /api/v1/namespaces/default/configmaps".into(),
            named_map("c"),
            None,
        ),
        (format!("DELETE {policies}/a"), Value::Null, None),
    ] {
        let answer = world.send(&request, body).await;
        assert!(answer.code.is_success(), "{request}: {answer:?}");
        let found = answer
            .headers
            .get("warning")
            .map(|value| value.to_str().unwrap());
        assert_eq!(found, told, "{request}");
    }
    // an API that nobody told of such kinds says nothing
    let quiet = World::around(
        apiserver::builder(MemoryStore::new())
            .registry(Registry::builtin())
            .build(),
    );
    quiet
        .create("/api/v1/namespaces", named_map("default"))
        .await;
    assert_eq!(
        quiet
            .send(&format!("POST {policies}"), policy)
            .await
            .headers
            .get("warning"),
        None
    );
}
