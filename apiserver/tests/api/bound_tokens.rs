//! What a token may be bound to, how long it may live, and with what it ends: from the side of somebody who wants to be another.

use serde_json::{Value, json};

use super::world::{PODS, World, named_map, pod_on, refusal};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NODES: &str = "/api/v1/nodes";

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn reference(kind: &str, name: &str, uid: &str) -> Value {
    json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}})
}

fn runs_as(name: &str, account: &str) -> Value {
    let mut pod = pod_on(name, "edge-1");
    pod["spec"]["serviceAccountName"] = account.into();
    pod
}

#[tokio::test]
async fn a_token_is_the_account_that_was_asked_for_and_bound_to_what_is_there() {
    let world = World::strict().await;
    let [weak, strong] = ["weak", "strong"].map(named_map);
    let (weak, strong) = (
        world.create(ACCOUNTS, weak).await,
        world.create(ACCOUNTS, strong).await,
    );
    let pod = world.create(PODS, runs_as("p", "weak")).await;
    world.create(PODS, runs_as("q", "strong")).await;
    let secret = world.create(SECRETS, named_map("s")).await;
    let node = world.create(NODES, named_map("edge-1")).await;
    let mut mirror = pod_on("m", "edge-1");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "h"});
    let mirror = world.create(PODS, mirror).await;
    assert_eq!(
        mirror.pointer("/spec/serviceAccountName"),
        None,
        "a mirror pod runs as nobody"
    );
    let path = format!("POST {ACCOUNTS}/weak/token");
    let gone = "00000000-0000-0000-0000-000000000000";
    let of_type = |kind: &str| {
        refusal(
            "BadRequest",
            &format!("cannot bind token to object of type /v1, Kind={kind}"),
        )
    };
    let other = refusal(
        "BadRequest",
        "cannot bind token for serviceaccount \"weak\" to pod running with different serviceaccount name.",
    );
    let conflict = json!({"reason": "Conflict"});
    let missing = |what: &str| refusal("NotFound", what);
    let mut in_a_group = reference("Pod", "p", &uid(&pod));
    in_a_group["spec"]["boundObjectRef"]["apiVersion"] = "apps/v1".into();
    let made = |kind: &str, name: &str, uid_: &str| json!({"status": {"token": format!("default/weak/{}/3600/{kind}/{name}/{uid_}", uid(&weak))}});
    let body = |metadata: Value| json!({"metadata": metadata, "spec": {}});
    world
        .expect_all(vec![
            // the kinds that would become claims of their own
            (
                &path,
                reference("ServiceAccount", "strong", &uid(&strong)),
                400,
                of_type("ServiceAccount"),
            ),
            (
                &path,
                reference("Namespace", "default", gone),
                400,
                of_type("Namespace"),
            ),
            (
                &path,
                reference("pod", "p", &uid(&pod)),
                400,
                of_type("pod"),
            ),
            (&path, in_a_group, 400, json!({"reason": "BadRequest"})),
            // what is not there, or is another one
            (
                &path,
                reference("Pod", "absent", gone),
                404,
                missing("pods \"absent\" not found"),
            ),
            (
                &path,
                reference("Secret", "absent", gone),
                404,
                missing("secrets \"absent\" not found"),
            ),
            (
                &path,
                reference("Node", "absent", gone),
                404,
                missing("nodes \"absent\" not found"),
            ),
            (&path, reference("Pod", "p", gone), 409, conflict.clone()),
            (&path, reference("Secret", "s", gone), 409, conflict.clone()),
            (
                &path,
                reference("Node", "edge-1", gone),
                409,
                conflict.clone(),
            ),
            // another account's pod, and one that has none
            (&path, reference("Pod", "q", ""), 400, other.clone()),
            (&path, reference("Pod", "m", &uid(&mirror)), 400, other),
            (
                &format!("POST {ACCOUNTS}/default/token"),
                json!({}),
                404,
                json!({}),
            ),
            // what the request says of the account
            (
                &path,
                body(json!({"name": "strong"})),
                422,
                json!({"reason": "Invalid"}),
            ),
            (
                &path,
                body(json!({"namespace": "other"})),
                422,
                json!({"reason": "Invalid"}),
            ),
            (&path, body(json!({"uid": uid(&strong)})), 409, conflict),
            // uids are the server's, also where the request leaves them out
            (
                &path,
                reference("Pod", "p", ""),
                201,
                made("Pod", "p", &uid(&pod)),
            ),
            (
                &path,
                reference("Secret", "s", &uid(&secret)),
                201,
                made("Secret", "s", &uid(&secret)),
            ),
            (
                &path,
                reference("Node", "edge-1", ""),
                201,
                made("Node", "edge-1", &uid(&node)),
            ),
        ])
        .await;
}

#[tokio::test]
async fn a_token_lives_ten_minutes_at_least_and_as_long_as_is_allowed() {
    let world = World::strict().await;
    let robot = uid(&world.create(ACCOUNTS, named_map("robot")).await);
    let path = format!("POST {ACCOUNTS}/robot/token");
    let asked = |seconds: u64| json!({"spec": {"expirationSeconds": seconds}});
    for seconds in [0, 599, (1 << 32) + 1, u64::from(u32::MAX) * 4] {
        world
            .expect(&path, asked(seconds), 422, json!({"reason": "Invalid"}))
            .await;
    }
    for (seconds, given) in [
        (600, 600),
        (86_400, 86_400),
        (86_401, 86_400),
        (1 << 32, 86_400),
    ] {
        let expected = json!({
            "spec": {"expirationSeconds": given},
            "status": {"token": format!("default/robot/{robot}/{given}")},
        });
        let answer = world.send(&path, asked(seconds)).await;
        assert_eq!(
            answer.body["spec"]["expirationSeconds"],
            expected["spec"]["expirationSeconds"]
        );
        assert_eq!(answer.body["status"]["token"], expected["status"]["token"]);
        let warning = answer
            .headers
            .get("warning")
            .map(|value| value.to_str().unwrap().to_owned());
        let expected =
            format!("requested expiration of {seconds} seconds shortened to {given} seconds");
        assert_eq!(
            warning.is_some_and(|warning| warning.contains(&expected)),
            seconds > given,
            "{seconds}"
        );
    }
}

#[tokio::test]
async fn a_bound_token_ends_with_what_it_is_bound_to() {
    let world = World::strict().await;
    world.create(ACCOUNTS, named_map("robot")).await;
    let nobody = world.called_by(None);
    let path = format!("POST {ACCOUNTS}/robot/token");
    for (kind, collection, object) in [
        ("Pod", PODS, runs_as("x", "robot")),
        ("Secret", SECRETS, named_map("x")),
        ("Node", NODES, named_map("x")),
    ] {
        world.create(collection, object.clone()).await;
        let answer = world
            .expect(&path, reference(kind, "x", ""), 201, json!({}))
            .await;
        let token = answer["status"]["token"].as_str().unwrap().to_owned();
        // known, and not allowed; not known
        let call = format!("GET {PODS} authorization:Bearer~{token}");
        nobody
            .expect(&call, Value::Null, 403, json!({"code": 403}))
            .await;
        let end = json!({"gracePeriodSeconds": 0});
        world
            .expect(
                &format!("DELETE {collection}/x"),
                end.clone(),
                200,
                json!({}),
            )
            .await;
        nobody
            .expect(&call, Value::Null, 401, json!({"code": 401}))
            .await;
        // another one of its name
        world.create(collection, object).await;
        nobody
            .expect(&call, Value::Null, 401, json!({"code": 401}))
            .await;
        world
            .expect(&format!("DELETE {collection}/x"), end, 200, json!({}))
            .await;
    }
    // a pod's token does not end with its node
    world.create(NODES, named_map("edge-1")).await;
    world.create(PODS, runs_as("y", "robot")).await;
    let answer = world
        .expect(&path, reference("Pod", "y", ""), 201, json!({}))
        .await;
    let token = answer["status"]["token"].as_str().unwrap();
    world
        .expect(
            &format!("DELETE {NODES}/edge-1"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    let call = format!("GET {PODS} authorization:Bearer~{token}");
    nobody
        .expect(&call, Value::Null, 403, json!({"code": 403}))
        .await;
}

#[tokio::test]
async fn a_mirror_pod_stays_one_and_names_nothing() {
    let world = World::strict().await;
    let annotated = |name: &str, spec: Value| {
        let mut pod = pod_on(name, "edge-1");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
        pod["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        pod
    };
    world.create(PODS, annotated("m", json!({}))).await;
    world.create(PODS, pod_on("p", "edge-1")).await;
    for (part, media) in [
        ("", "MERGE"),
        ("/status", "MERGE"),
        ("/status", "STRATEGIC"),
    ] {
        for (name, value) in [("m", Value::Null), ("m", json!("y")), ("p", json!("x"))] {
            let patch =
                json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": value}}});
            let path = format!("{media} {PODS}/{name}{part}");
            world
                .expect(&path, patch, 422, json!({"reason": "Invalid"}))
                .await;
        }
    }
    for spec in [
        json!({"serviceAccountName": "robot"}),
        json!({"imagePullSecrets": [{"name": "s"}]}),
        json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
    ] {
        world
            .expect(
                &format!("POST {PODS}"),
                annotated("n", spec),
                403,
                json!({"reason": "Forbidden"}),
            )
            .await;
    }
}
