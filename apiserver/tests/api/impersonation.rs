//! Requests that are made in another user's name (`kubectl --as`).

use serde_json::{Value, json};

use super::{
    rbac::{binding, person, rule, user},
    world::{PODS, World, refusal},
};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const WHO_AM_I: &str = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
const AUTHENTICATION: &str = "authentication.k8s.io";

fn info(user: &str, groups: &[&str]) -> Value {
    json!({"username": user, "groups": groups})
}

#[tokio::test]
async fn impersonated_user_has_the_groups_and_attributes_that_kubernetes_gives_it() {
    let world = World::strict().await;
    let accounts = [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ];
    let robot = "system:serviceaccount:default:robot";
    let mut all = info("ann", &["system:authenticated"]);
    all["uid"] = json!("42");
    all["extra"] = json!({"example.com/scopes": ["view", "edit"], "b%zz": ["c"]});
    for (headers, expected) in [
        (
            "impersonate-user:ann",
            info("ann", &["system:authenticated"]),
        ),
        (
            "impersonate-user:ann impersonate-group:staff",
            info("ann", &["staff", "system:authenticated"]),
        ),
        (
            "impersonate-user:ann impersonate-group:staff impersonate-group:system:authenticated",
            info("ann", &["staff", "system:authenticated"]),
        ),
        (
            "impersonate-user:system:serviceaccount:default:robot",
            info(robot, &accounts),
        ),
        (
            "impersonate-user:system:serviceaccount:default:robot impersonate-group:staff",
            info(robot, &["staff", "system:authenticated"]),
        ),
        // no name of an account
        (
            "impersonate-user:system:serviceaccount:a:b:c",
            info("system:serviceaccount:a:b:c", &["system:authenticated"]),
        ),
        (
            "impersonate-user:ann impersonate-uid:42 impersonate-extra-example.com%2Fscopes:view \
             impersonate-extra-example.com%2fScopes:edit impersonate-extra-b%zz:c",
            all,
        ),
    ] {
        let answer = world
            .send(&format!("{WHO_AM_I} {headers}"), json!({}))
            .await;
        assert_eq!(answer.code, 201, "{headers}: {}", answer.body);
        assert_eq!(answer.body["status"]["userInfo"], expected, "{headers}");
    }
    world
        .expect(
            &format!("GET {PODS} impersonate-user:ann"),
            Value::Null,
            403,
            json!({"code": 403}),
        )
        .await;
    // nobody has no right to ask who it is
    let anonymous = world
        .send(
            &format!("{WHO_AM_I} impersonate-user:system:anonymous"),
            json!({}),
        )
        .await;
    assert_eq!(anonymous.code, 403);
    assert!(
        anonymous.body["message"]
            .as_str()
            .unwrap()
            .contains("User \"system:anonymous\" cannot create"),
        "{}",
        anonymous.body
    );
    for headers in [
        "impersonate-group:staff",
        "impersonate-uid:42",
        "impersonate-extra-scopes:view",
        "impersonate-user:ann impersonate-user:eve",
        "impersonate-user:ann impersonate-uid:1 impersonate-uid:2",
        "impersonate-user:ann impersonate-role:admin",
        "impersonate-user:ann impersonate-extra-:view",
    ] {
        let answer = world
            .send(&format!("{WHO_AM_I} {headers}"), json!({}))
            .await;
        assert_eq!(answer.code, 400, "{headers}: {}", answer.body);
    }
}

#[tokio::test]
async fn impersonation_needs_the_verb_on_each_user_group_uid_and_extra_value() {
    let world = World::strict().await;
    let named = |groups: &[&str], resource: &str, names: &[&str]| {
        let mut rule = rule(groups, &[resource], &["impersonate"]);
        rule["resourceNames"] = json!(names);
        rule
    };
    let rules = json!([
        named(&[""], "users", &["ann"]),
        named(&[""], "groups", &["staff"]),
        named(&[AUTHENTICATION], "uids", &["42"]),
        named(&[AUTHENTICATION], "userextras/scopes", &["view"]),
    ]);
    let role = json!({"metadata": {"name": "acts"}, "rules": rules});
    world.create(&format!("{RBAC}/clusterroles"), role).await;
    let subject = user("User", "gate");
    let bindings = format!("{RBAC}/clusterrolebindings");
    world
        .create(
            &bindings,
            binding("acts", ("ClusterRole", "acts"), subject.clone()),
        )
        .await;
    let own = format!("{RBAC}/namespaces/default/rolebindings");
    world
        .create(&own, binding("edits", ("ClusterRole", "edit"), subject))
        .await;
    let gate = world.called_by(person("gate", &[]));
    for headers in [
        "impersonate-user:ann",
        "impersonate-user:ann impersonate-group:staff impersonate-uid:42 impersonate-extra-scopes:view",
        // of the role edit
        "impersonate-user:system:serviceaccount:default:robot",
    ] {
        let answer = gate.send(&format!("{WHO_AM_I} {headers}"), json!({})).await;
        assert_eq!(answer.code, 201, "{headers}: {}", answer.body);
    }
    let cannot = |resource: &str, group: &str, place: &str| {
        format!(
            "User \"gate\" cannot impersonate resource {resource:?} in API group {group:?} {place}"
        )
    };
    let (cluster, other) = ("at the cluster scope", "in the namespace \"other\"");
    for (headers, what, refused) in [
        (
            "impersonate-user:eve",
            "users \"eve\"",
            cannot("users", "", cluster),
        ),
        (
            "impersonate-user:ann impersonate-group:admins",
            "groups \"admins\"",
            cannot("groups", "", cluster),
        ),
        (
            "impersonate-user:ann impersonate-group:system:masters",
            "groups \"system:masters\"",
            cannot("groups", "", cluster),
        ),
        (
            "impersonate-user:system:serviceaccount:other:robot",
            "serviceaccounts \"robot\"",
            cannot("serviceaccounts", "", other),
        ),
        (
            "impersonate-user:ann impersonate-uid:7",
            "uids.authentication.k8s.io \"7\"",
            cannot("uids", AUTHENTICATION, cluster),
        ),
        (
            "impersonate-user:ann impersonate-extra-scopes:view impersonate-extra-scopes:edit",
            "userextras.authentication.k8s.io \"edit\"",
            cannot("userextras/scopes", AUTHENTICATION, cluster),
        ),
    ] {
        let expected = refusal("Forbidden", &format!("{what} is forbidden: {refused}"));
        gate.expect(&format!("{WHO_AM_I} {headers}"), json!({}), 403, expected)
            .await;
    }
    // the rights of the caller itself are gone while it acts as another
    gate.expect(&format!("GET {PODS}"), Value::Null, 200, json!({}))
        .await;
    gate.expect(
        &format!("GET {PODS} impersonate-user:ann"),
        Value::Null,
        403,
        json!({}),
    )
    .await;
    let node = world.called_by(person("system:node:e", &["system:nodes"]));
    node.expect(
        &format!("{WHO_AM_I} impersonate-user:ann"),
        json!({}),
        403,
        json!({}),
    )
    .await;
}

#[tokio::test]
async fn without_rbac_masters_alone_may_impersonate() {
    let world = World::new().await;
    let ann = format!("{WHO_AM_I} impersonate-user:ann");
    world
        .expect(
            &ann,
            json!({}),
            201,
            json!({"status": {"userInfo": {"username": "ann"}}}),
        )
        .await;
    world
        .called_by(person("eve", &[]))
        .expect(&ann, json!({}), 403, json!({"reason": "Forbidden"}))
        .await;
}
