//! Service accounts' tokens, roles and bindings, and questions about access.

use kubeapi::Identity;
use serde_json::{Value, json};

use super::world::{PODS, World, named_map, pod, refusal};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1";

pub(crate) fn person(user: &str, groups: &[&str]) -> Option<Identity> {
    Some(Identity::new(user, groups.iter().copied()))
}

pub(crate) fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

pub(crate) fn binding(name: &str, role: (&str, &str), subject: Value) -> Value {
    json!({
        "metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
    })
}

pub(crate) fn user(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

/// A certificate request of the node edge-1, as PEM in base64.
const CSR: &str = include_str!("edge-1.csr.b64");

#[tokio::test]
async fn roles_allow_what_is_bound_to_the_caller() {
    let world = World::strict().await;
    let (roles, bindings) = (
        format!("{RBAC}/namespaces/default/roles"),
        format!("{RBAC}/namespaces/default/rolebindings"),
    );
    let (cluster_roles, cluster_bindings) = (
        format!("{RBAC}/clusterroles"),
        format!("{RBAC}/clusterrolebindings"),
    );
    let verbs = ["get", "list", "patch", "watch"];
    let mut one = rule(&[""], &["pods", "pods/status"], &verbs);
    one["resourceNames"] = json!(["mine"]);
    world
        .create(
            &roles,
            json!({"metadata": {"name": "r"}, "rules": [one, rule(&[""], &["configmaps"], &["list"])]}),
        )
        .await;
    world
        .create(&bindings, binding("b", ("Role", "r"), user("User", "ann")))
        .await;
    let part = json!({
        "metadata": {"name": "part", "labels": {"to": "sum"}},
        "rules": [rule(&[""], &["nodes"], &["list"]), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    world.create(&cluster_roles, part).await;
    let selectors = json!([{"matchLabels": {"to": "sum"}}]);
    let sum = json!({"metadata": {"name": "sum"}, "rules": [], "aggregationRule": {"clusterRoleSelectors": selectors}});
    world.create(&cluster_roles, sum).await;
    world
        .create(
            &cluster_bindings,
            binding("c", ("ClusterRole", "sum"), user("Group", "staff")),
        )
        .await;
    world
        .create(
            &bindings,
            binding("v", ("ClusterRole", "view"), user("User", "eve")),
        )
        .await;
    world.create(PODS, pod("mine")).await;

    let (ann, eve) = (person("ann", &["staff"]), person("eve", &[]));
    let node = person("system:node:e", &["system:nodes", "staff"]);
    let rows = [
        (&ann, format!("GET {PODS}/mine"), 200),
        (&ann, format!("GET {PODS}/other"), 403),
        (&ann, format!("GET {PODS}"), 403),
        (
            &ann,
            format!("GET {PODS}?fieldSelector=metadata.name%3Dmine,spec.nodeName%3D"),
            200,
        ),
        (
            &ann,
            format!("GET {PODS}?fieldSelector=metadata.name%3Dother"),
            403,
        ),
        (
            &ann,
            format!("GET {PODS}?fieldSelector=metadata.name!%3Dmine"),
            403,
        ),
        (&ann, format!("MERGE {PODS}/mine/status"), 200),
        (&ann, format!("DELETE {PODS}/mine"), 403),
        (
            &ann,
            "GET /api/v1/namespaces/default/configmaps".into(),
            200,
        ),
        (&ann, "GET /api/v1/namespaces/other/configmaps".into(), 403),
        (&ann, "GET /api/v1/configmaps".into(), 403),
        (&ann, "GET /api/v1/nodes".into(), 200),
        (&ann, "GET /metrics".into(), 200),
        (&ann, "GET /apis".into(), 200),
        (&eve, "GET /apis/apps/v1".into(), 200),
        (&eve, "GET /metrics".into(), 403),
        (&eve, format!("GET {PODS}"), 200),
        (&eve, "GET /api/v1/namespaces/default".into(), 200),
        (&eve, "GET /api/v1/namespaces/default/secrets".into(), 403),
        (&eve, "GET /api/v1/nodes".into(), 403),
        (&node, "GET /api/v1/nodes".into(), 403),
        (&node, "GET /apis".into(), 403),
    ];
    for (who, request, code) in rows {
        let body = if request.starts_with("MERGE") {
            json!({})
        } else {
            Value::Null
        };
        let answer = world.called_by(who.clone()).send(&request, body).await;
        assert_eq!(answer.code, code, "{who:?} {request}: {}", answer.body);
    }
    let message = "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"other\"";
    let expected = refusal("Forbidden", message);
    world
        .called_by(ann)
        .expect(
            "GET /api/v1/namespaces/other/pods",
            Value::Null,
            403,
            expected,
        )
        .await;
}

#[tokio::test]
async fn a_certificate_request_says_who_asks() {
    let world = World::strict().await;
    let role = json!({"metadata": {"name": "asks"}, "rules": [rule(&["certificates.k8s.io"], &["certificatesigningrequests"], &["create"])]});
    world.create(&format!("{RBAC}/clusterroles"), role).await;
    let bindings = format!("{RBAC}/clusterrolebindings");
    world
        .create(
            &bindings,
            binding("b", ("ClusterRole", "asks"), user("User", "ann")),
        )
        .await;
    let claimed = json!({"request": CSR, "signerName": "example.com/b", "usages": ["client auth"], "username": "eve", "groups": ["system:masters"], "uid": "u", "extra": {"a": ["b"]}});
    let request = |name: &str| json!({"metadata": {"name": name}, "spec": claimed});
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let made = world
        .called_by(person("ann", &["staff"]))
        .create(requests, request("hers"))
        .await;
    assert_eq!(
        made["spec"],
        json!({"request": CSR, "signerName": "example.com/b", "usages": ["client auth"], "username": "ann", "groups": ["staff", "system:authenticated"]})
    );
    let made = world.create(requests, request("anybodys")).await;
    assert_eq!(
        made["spec"]["username"], "eve",
        "a master asks for whom it wants"
    );
}

#[tokio::test]
async fn service_accounts_call_with_their_tokens() {
    let world = World::strict().await;
    let account = world.create(ACCOUNTS, named_map("robot")).await;
    let uid = account["metadata"]["uid"].as_str().unwrap();
    // without a namespace, it is of the binding's
    let subject = json!({"kind": "ServiceAccount", "name": "robot"});
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    world
        .create(&bindings, binding("b", ("ClusterRole", "edit"), subject))
        .await;
    let nobody = world.called_by(None);
    let with = |token: &str| format!("authorization:Bearer~{token}");
    let good = with(&format!("default/robot/{uid}"));
    let list = format!("GET {PODS}");
    nobody
        .expect(
            &format!("{list} {good}"),
            Value::Null,
            200,
            json!({"kind": "PodList"}),
        )
        .await;
    let message = "nodes is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    let denied = refusal("Forbidden", message);
    nobody
        .expect(
            &format!("GET /api/v1/nodes {good}"),
            Value::Null,
            403,
            denied,
        )
        .await;
    for token in ["default/robot/other", "default/absent/u", "nonsense"] {
        nobody
            .expect(
                &format!("{list} {}", with(token)),
                Value::Null,
                401,
                json!({"code": 401}),
            )
            .await;
    }
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ];
    let info = json!({"username": "system:serviceaccount:default:robot", "groups": groups});
    let own = json!({"kind": "SelfSubjectReview", "status": {"userInfo": info}});
    nobody
        .expect(
            &format!("POST {REVIEWS}/selfsubjectreviews {good}"),
            json!({}),
            201,
            own,
        )
        .await;
    let review = format!("POST {REVIEWS}/tokenreviews");
    let asked = |token: String| json!({"spec": {"token": token, "audiences": ["a"]}});
    let known = json!({"status": {"authenticated": true, "user": info, "audiences": ["a"]}});
    world
        .expect(&review, asked(format!("default/robot/{uid}")), 201, known)
        .await;
    let unknown =
        json!({"status": {"authenticated": null, "user": {}, "error": "invalid bearer token"}});
    world.expect(&review, asked("x".into()), 201, unknown).await;
    world
        .expect(
            &format!("DELETE {ACCOUNTS}/robot"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    nobody
        .expect(
            &format!("{list} {good}"),
            Value::Null,
            401,
            json!({"code": 401}),
        )
        .await;
    // without roles in force, masters alone get in
    let open = World::new().await;
    let account = open.create(ACCOUNTS, named_map("robot")).await;
    let good = with(&format!(
        "default/robot/{}",
        account["metadata"]["uid"].as_str().unwrap()
    ));
    open.called_by(None)
        .expect(
            &format!("{list} {good}"),
            Value::Null,
            403,
            json!({"code": 403}),
        )
        .await;
}

#[tokio::test]
async fn questions_about_access_are_answered() {
    let world = World::strict().await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    world
        .create(
            &bindings,
            binding("v", ("ClusterRole", "view"), user("User", "eve")),
        )
        .await;
    let eve = world.called_by(person("eve", &[]));
    let own = format!("POST {AUTHORIZATION}/selfsubjectaccessreviews");
    let of = |verb: &str, resource: &str| json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": verb, "resource": resource}}});
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}});
    let reason =
        "RBAC: allowed by RoleBinding \"v/default\" of ClusterRole \"view\" to User \"eve\"";
    eve.expect(
        &own,
        of("list", "pods"),
        201,
        json!({"status": {"allowed": true, "reason": reason}}),
    )
    .await;
    eve.expect(
        &own,
        of("delete", "pods"),
        201,
        json!({"status": {"allowed": false}}),
    )
    .await;
    eve.expect(&own, path, 201, json!({"status": {"allowed": false}}))
        .await;
    // kubectl asks for a table where it can have one
    let table = "accept:application/json;as=Table;v=v1;g=meta.k8s.io";
    let answered = json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": true}});
    eve.expect(
        &format!("{own} {table},application/json"),
        of("list", "pods"),
        201,
        answered,
    )
    .await;
    eve.expect(
        &format!("{own} {table}"),
        of("list", "pods"),
        406,
        json!({"reason": "NotAcceptable"}),
    )
    .await;
    eve.expect(&own, json!({"spec": {}}), 422, json!({"reason": "Invalid"}))
        .await;
    world
        .expect(
            &own,
            of("*", "*"),
            201,
            json!({"status": {"allowed": true, "reason": null}}),
        )
        .await;
    let others = format!("POST {AUTHORIZATION}/subjectaccessreviews");
    eve.expect(&others, of("list", "pods"), 403, json!({"code": 403}))
        .await;
    let mut about = of("list", "pods");
    about["spec"]["user"] = json!("eve");
    world
        .expect(
            &others,
            about.clone(),
            201,
            json!({"status": {"allowed": true}}),
        )
        .await;
    world
        .expect(
            &others,
            of("list", "pods"),
            422,
            json!({"reason": "Invalid"}),
        )
        .await;
    let local = |namespace: &str| {
        format!("POST {AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews")
    };
    world
        .expect(
            &local("default"),
            about.clone(),
            201,
            json!({"status": {"allowed": true}}),
        )
        .await;
    world
        .expect(&local("other"), about, 422, json!({"reason": "Invalid"}))
        .await;
    let rules = format!("POST {AUTHORIZATION}/selfsubjectrulesreviews");
    let asked = json!({"spec": {"namespace": "default"}});
    let all = json!({"status": {"incomplete": false, "resourceRules": [{"verbs": ["*"]}]}});
    world.expect(&rules, asked.clone(), 201, all).await;
    let eves = eve
        .expect(&rules, asked, 201, json!({"status": {"incomplete": false}}))
        .await;
    let eves = eves["status"]["resourceRules"].to_string();
    assert!(
        eves.contains("selfsubjectaccessreviews")
            && eves.contains("configmaps")
            && !eves.contains("secrets")
    );
    world
        .expect(
            &rules,
            json!({}),
            400,
            json!({"message": "no namespace on request"}),
        )
        .await;
    world
        .expect(&own.replace("POST", "GET"), Value::Null, 405, json!({}))
        .await;
    let listed = world.get(AUTHORIZATION).await;
    assert_eq!(listed["resources"][0]["name"], "localsubjectaccessreviews");
    assert_eq!(listed["resources"][0]["verbs"], json!(["create"]));
}

#[tokio::test]
async fn nobody_gives_away_what_they_have_not() {
    let world = World::strict().await;
    let (roles, bindings) = (
        format!("{RBAC}/namespaces/default/roles"),
        format!("{RBAC}/namespaces/default/rolebindings"),
    );
    world
        .create(
            &bindings,
            binding("a", ("ClusterRole", "admin"), user("User", "ann")),
        )
        .await;
    let ann = world.called_by(person("ann", &[]));
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let held = rule(&[""], &["pods"], &["get", "list"]);
    ann.create(&roles, role("held", json!([held]))).await;
    let more = json!([held, rule(&[""], &["nodes"], &["get", "list"])]);
    let message = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}";
    let refused = refusal("Forbidden", message);
    ann.expect(
        &format!("POST {roles}"),
        role("more", more.clone()),
        403,
        refused.clone(),
    )
    .await;
    ann.expect(
        &format!("POST {roles}?dryRun=All"),
        role("more", more.clone()),
        403,
        refused,
    )
    .await;
    let forbidden = json!({"reason": "Forbidden", "details": {"name": "held", "kind": "roles"}});
    for request in [
        format!("MERGE {roles}/held"),
        format!("MERGE {roles}/held?dryRun=All"),
    ] {
        ann.expect(&request, json!({"rules": more}), 403, forbidden.clone())
            .await;
    }
    // bindings
    let to = |name: &str, role: (&str, &str)| binding(name, role, user("User", "eve"));
    ann.create(&bindings, to("view", ("ClusterRole", "view")))
        .await;
    let post = format!("POST {bindings}");
    ann.expect(
        &post,
        to("all", ("ClusterRole", "cluster-admin")),
        403,
        json!({"reason": "Forbidden"}),
    )
    .await;
    let message = "clusterroles.rbac.authorization.k8s.io \"none\" not found";
    ann.expect(
        &post,
        to("none", ("ClusterRole", "none")),
        404,
        refusal("NotFound", message),
    )
    .await;
    // who may bind or escalate needs no more
    world.create(&roles, role("more", more.clone())).await;
    let mut bind = rule(
        &["rbac.authorization.k8s.io"],
        &["roles"],
        &["bind", "escalate"],
    );
    bind["resourceNames"] = json!(["more", "held"]);
    world.create(&roles, role("may", json!([bind]))).await;
    ann.expect(
        &post,
        to("more", ("Role", "more")),
        403,
        json!({"reason": "Forbidden"}),
    )
    .await;
    world
        .create(
            &bindings,
            binding("may", ("Role", "may"), user("User", "ann")),
        )
        .await;
    ann.create(&bindings, to("more", ("Role", "more"))).await;
    ann.expect(
        &format!("MERGE {roles}/held"),
        json!({"rules": more}),
        200,
        json!({}),
    )
    .await;
}

#[tokio::test]
async fn cluster_roles_take_over_the_rules_of_others() {
    let world = World::strict().await;
    let cluster_roles = format!("{RBAC}/clusterroles");
    let rules_of =
        async |name: &str| world.get(&format!("{cluster_roles}/{name}")).await["rules"].to_string();
    let own = json!([rule(&["example.com"], &["widgets"], &["get"])]);
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let reader = json!({"metadata": {"name": "widgets", "labels": label}, "rules": own});
    for name in ["view", "edit", "admin"] {
        assert!(
            rules_of(name).await.contains("configmaps")
                && !rules_of(name).await.contains("widgets"),
            "{name}"
        );
    }
    world.create(&cluster_roles, reader).await;
    for name in ["view", "edit", "admin"] {
        assert!(rules_of(name).await.contains("widgets"), "{name}");
    }
    world
        .expect(
            &format!("DELETE {cluster_roles}/widgets"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    for name in ["view", "edit", "admin"] {
        assert!(!rules_of(name).await.contains("widgets"), "{name}");
    }
    let masters = world
        .get(&format!("{RBAC}/clusterrolebindings/cluster-admin"))
        .await;
    assert_eq!(masters["subjects"][0]["name"], "system:masters");
    // where roles are not in force, none are given
    let open = World::new().await;
    assert_eq!(open.get(&cluster_roles).await["items"], json!([]));
}

/// Somebody who may write certificate requests, and would have one signed for a node.
#[tokio::test]
async fn certificate_requests_stay_their_askers_and_need_a_signers_approval() {
    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let world = World::strict().await;
    let groups = ["certificates.k8s.io"];
    let parts = [
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
    ];
    let mut approver = rule(&groups, &["signers"], &["approve", "sign"]);
    approver["resourceNames"] = json!(["example.com/*"]);
    for (name, rules, user_) in [
        (
            "writer",
            json!([rule(&groups, &parts, &["create", "get", "update", "patch"])]),
            "eve",
        ),
        (
            "approver",
            json!([rule(&groups, &parts, &["get", "update", "patch"]), approver]),
            "ann",
        ),
    ] {
        world
            .create(
                &format!("{RBAC}/clusterroles"),
                json!({"metadata": {"name": name}, "rules": rules}),
            )
            .await;
        let bound = binding(name, ("ClusterRole", name), user("User", user_));
        world
            .create(&format!("{RBAC}/clusterrolebindings"), bound)
            .await;
    }
    let (eve, ann) = (
        world.called_by(person("eve", &[])),
        world.called_by(person("ann", &[])),
    );
    let spec = |signer: &str| json!({"request": CSR, "signerName": signer, "usages": ["server auth"], "username": "system:node:edge-1", "groups": ["system:nodes"]});
    for (name, signer) in [
        ("a", "kubernetes.io/kubelet-serving"),
        ("b", "example.com/robots"),
    ] {
        let made = eve
            .create(
                REQUESTS,
                json!({"metadata": {"name": name}, "spec": spec(signer)}),
            )
            .await;
        assert_eq!(made["spec"]["username"], "eve");
        let forged =
            json!({"spec": {"username": "system:node:edge-1", "groups": ["system:nodes"]}});
        let same = json!({"spec": {"username": "eve", "signerName": signer}});
        eve.expect(&format!("MERGE {REQUESTS}/{name}"), forged, 200, same)
            .await;
        let approved = json!({"metadata": {"annotations": {"part": "approval"}}, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}});
        let signed = json!({"metadata": {"annotations": {"part": "status"}}, "status": {"certificate": "AAAA"}});
        for (part, patch) in [("approval", approved), ("status", signed)] {
            let path = format!("MERGE {REQUESTS}/{name}/{part}");
            eve.expect(&path, patch.clone(), 403, json!({"reason": "Forbidden"}))
                .await;
            let (code, expected) = if signer.starts_with("example.com/") {
                (200, patch.clone())
            } else {
                (403, json!({}))
            };
            ann.expect(&path, patch, code, expected).await;
        }
    }
}
