//! Accounts, pods, roles and bindings in an API in memory, and the ServiceAccountAccesses for them.

use kube::{api::DynamicObject, runtime::wait::await_condition};
use serde_json::{Value, json};
use testkit::WAIT_TIMEOUT;
use tokio::time::timeout;

use super::*;
use crate::controllers::test_api::TestApi;

struct World(TestApi);

impl World {
    async fn new() -> Self {
        let world = Self(TestApi::with("ns", run).await);
        for (name, labels) in [
            ("edge-1", json!({EDGE_LABEL: ""})),
            ("edge-2", json!({EDGE_LABEL: ""})),
            ("big", json!({})),
        ] {
            world
                .create(
                    "v1",
                    "Node",
                    "",
                    json!({"metadata": {"name": name, "labels": labels}}),
                )
                .await;
        }
        world
    }

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        self.0.objects(api_version, kind, namespace)
    }

    async fn create(&self, api_version: &str, kind: &str, namespace: &str, object: Value) {
        self.0.create(api_version, kind, namespace, object).await;
    }

    async fn rbac(&self, kind: &str, namespace: &str, object: Value) {
        self.create("rbac.authorization.k8s.io/v1", kind, namespace, object)
            .await;
    }

    async fn pod(&self, name: &str, account: &str, node: &str) {
        let spec = json!({"nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]});
        self.create(
            "v1",
            "Pod",
            "ns",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    async fn until(&self, what: &str, wanted: impl Fn(Option<&ServiceAccountAccess>) -> bool) {
        let api = Api::<ServiceAccountAccess>::namespaced(self.0.client.clone(), "ns");
        let seen = await_condition(
            api.clone(),
            "robot",
            |access: Option<&ServiceAccountAccess>| wanted(access),
        );
        if timeout(WAIT_TIMEOUT, seen).await.is_err() {
            panic!(
                "{what}: not within {WAIT_TIMEOUT:?}; last seen: {:?}",
                api.get_opt("robot").await
            );
        }
    }
}

fn rule(resource: &str) -> Value {
    json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": [resource]})
}

fn to_robot(role: (&str, &str), name: &str) -> Value {
    json!({"metadata": {"name": name}, "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1}})
}

fn nodes(access: &ServiceAccountAccess) -> Vec<&str> {
    access
        .status
        .iter()
        .flat_map(|status| status.node_list.iter().map(String::as_str))
        .collect()
}

fn first_resource(access: &ServiceAccountAccess) -> Option<&str> {
    let rule = access
        .spec
        .access_cluster_role_binding
        .first()?
        .rules
        .first()?;
    rule.resources.as_ref()?.first().map(String::as_str)
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn what_is_granted_to_accounts_of_pods_on_edge_nodes_is_written_down() {
    let world = World::new().await;
    for account in ["robot", "idle"] {
        world
            .create(
                "v1",
                "ServiceAccount",
                "ns",
                json!({"metadata": {"name": account}}),
            )
            .await;
    }
    world
        .rbac(
            "ClusterRole",
            "",
            json!({"metadata": {"name": "reads"}, "rules": [rule("nodes")]}),
        )
        .await;
    world
        .rbac(
            "Role",
            "ns",
            json!({"metadata": {"name": "writes"}, "rules": [rule("configmaps")]}),
        )
        .await;
    world
        .rbac("RoleBinding", "ns", to_robot(("Role", "writes"), "writes"))
        .await;
    world.pod("a", "robot", "edge-1").await;
    world.pod("b", "robot", "big").await;
    world.pod("c", "idle", "edge-1").await;
    world
        .until("one binding, one edge node", |access| {
            access.is_some_and(|access| {
                nodes(access) == ["edge-1"] && access.spec.access_role_binding.len() == 1
            })
        })
        .await;

    world
        .rbac(
            "ClusterRoleBinding",
            "",
            to_robot(("ClusterRole", "reads"), "reads"),
        )
        .await;
    world.pod("d", "robot", "edge-2").await;
    world
        .until("a second binding, a second node", |access| {
            access.is_some_and(|access| {
                nodes(access) == ["edge-1", "edge-2"] && first_resource(access) == Some("nodes")
            })
        })
        .await;

    let rules = json!({"rules": [rule("services")]});
    let roles = world.api("rbac.authorization.k8s.io/v1", "ClusterRole", "");
    let patch = kube::api::Patch::Merge(rules);
    roles
        .patch("reads", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    // three writes of its specification and no more: an unchanged one is recognised
    world
        .until("another rule", |access| {
            access.is_some_and(|access| {
                first_resource(access) == Some("services") && access.metadata.generation == Some(3)
            })
        })
        .await;

    let delete = kube::api::DeleteParams {
        grace_period_seconds: Some(0),
        ..Default::default()
    };
    for pod in ["a", "d"] {
        world
            .api("v1", "Pod", "ns")
            .delete(pod, &delete)
            .await
            .unwrap();
    }
    world
        .until("no pod on an edge node", |access| access.is_none())
        .await;
    let all = Api::<ServiceAccountAccess>::all(world.0.client.clone())
        .list(&kube::api::ListParams::default())
        .await;
    assert!(
        all.unwrap().items.is_empty(),
        "nothing is granted to the other account"
    );

    world.pod("e", "robot", "edge-1").await;
    world
        .until("a pod again", |access| {
            access.is_some_and(|access| nodes(access) == ["edge-1"])
        })
        .await;
    for (kind, namespace, name) in [
        ("RoleBinding", "ns", "writes"),
        ("ClusterRoleBinding", "", "reads"),
    ] {
        world
            .api("rbac.authorization.k8s.io/v1", kind, namespace)
            .delete(name, &delete)
            .await
            .unwrap();
    }
    world.until("no binding", |access| access.is_none()).await;
}
