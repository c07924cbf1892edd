//! A program in a pod finds the API as in any cluster, and comes with its account's token: at the node's MetaServer, whose
//! certificate and interface the agent gets itself.

use std::fs;

use anyhow::ensure;
use e2e::containerd::RealRig;
use serde_json::{Value, json};

use crate::{
    case::apply,
    informer::{informer, map, until_seen},
    own_network::{in_network_namespace, ip},
};

/// EdgeCore's address for pods.
const ADDRESS: &str = "169.254.30.10";

/// An account that may read ConfigMaps.
pub(crate) fn reader() -> [Value; 3] {
    let (api, name) = ("rbac.authorization.k8s.io", "reader");
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": {"name": name, "namespace": "default"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": name, "namespace": "default"},
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}),
    ]
}

/// With the account's token where programs look for it.
pub(crate) fn with_token(mut pod: Value) -> Value {
    pod["spec"]["serviceAccountName"] = "reader".into();
    pod["spec"]["automountServiceAccountToken"] = true.into();
    pod
}

#[test]
fn a_pod_finds_the_api_as_in_any_cluster() -> anyhow::Result<()> {
    in_network_namespace(on_a_node_of_its_own)
}

/// The address is the same on every node: this one has a network of its own, in which all is that this thread starts.
fn on_a_node_of_its_own() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let directory = rig.directory.path().to_owned();
    rig.restart_with_lines(&[
        (
            "kind: EdgeCore",
            "featureGates: {requireAuthorization: true}",
        ),
        ("modules:", "  metaManager: {metaServer: {enable: true}}"),
    ])?;
    apply(&rig, &reader())?;
    apply(
        &rig,
        &[
            map("settings", "1"),
            with_token(informer(&directory, None)?),
        ],
    )?;
    let container = RealRig::container_id(&rig.wait_ready("informer")?, "main")?;
    until_seen(&directory, &json!({"settings": "1"}))?;
    let found = rig.inside(
        "informer",
        "echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT",
    )?;
    ensure!(found.trim() == format!("{ADDRESS}:10550"), "{found}");
    let shown = ip(&["-oneline", "address", "show", "dev", "edge-dummy0"])?;
    ensure!(shown.contains(&format!("{ADDRESS}/32")), "{shown}");

    rig.cloud.process.kill()?;
    // one that begins now learns all from this node, with the token that it has
    fs::remove_file(directory.join("seen/seen.json"))?;
    rig.containerd.raw_cri.stop(&container, 0)?;
    until_seen(&directory, &json!({"settings": "1"}))?;

    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    apply(&rig, &[map("settings", "2")])?;
    until_seen(&directory, &json!({"settings": "2"})).map(drop)
}
