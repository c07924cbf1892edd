//! kubectl on the node, against MetaServer: with the cloud and without.

use e2e::{Kubectl, Output};
use serde_json::{Value, json};
use tests::{Setup, World, eventually, manifests::pod};

use crate::metaserver::grant;

/// kubectl with the kubeconfig that the node has written.
async fn kubectl(world: &World) -> Kubectl {
    let node = &world.nodes[0];
    node.meta_server().await.expect("MetaServer listens");
    Kubectl::new(
        &node.directory().join("metaserver.kubeconfig"),
        &world.directory(),
    )
}

/// Runs it beside the world.
async fn run(kubectl: &Kubectl, line: &str) -> Output {
    let (kubectl, line) = (kubectl.clone(), line.to_owned());
    let run = move || {
        kubectl
            .output(&line.split(' ').collect::<Vec<_>>())
            .unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// What it prints when it ends well.
async fn says(kubectl: &Kubectl, line: &str) -> String {
    run(kubectl, line)
        .await
        .success()
        .unwrap_or_else(|error| panic!("kubectl {line}: {error:#}"))
        .text()
}

/// What it complains of when it does not.
async fn complains(kubectl: &Kubectl, line: &str) -> String {
    let error = run(kubectl, line)
        .await
        .success()
        .map(|output| output.text())
        .expect_err("kubectl ends badly");
    format!("{error:#}")
}

async fn applies(kubectl: &Kubectl, manifest: Value) -> String {
    let kubectl = kubectl.clone();
    tokio::task::spawn_blocking(move || kubectl.apply(&manifest.to_string()).unwrap())
        .await
        .unwrap()
}

fn definition() -> Value {
    let property = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": property},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            }],
        },
    })
}

fn thing(name: &str, size: u32) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size}})
}

async fn ready() -> World {
    let setup = Setup {
        nodes: 0,
        meta_server: true,
        durable: true,
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    let mut node = world.prepare("edge-1", &setup).await;
    node.configure(|config| {
        config
            .meta_manager
            .meta_server
            .as_mut()
            .expect("it has one")
            .anonymous_auth = false;
    });
    node.start().await.expect("the agent starts");
    world.nodes.push(node);
    world.until_ready().await;
    world.apply(&definition()).await;
    let verbs = json!(["*"]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": verbs},
        {"apiGroups": ["example.com"], "resources": ["things"], "verbs": verbs},
    ]);
    grant(&world, rules).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn kubectl_works_on_the_node_as_on_any_cluster() {
    let world = ready().await;
    world.run(&pod("web", Some("edge-1"))).await;
    let kubectl = kubectl(&world).await;

    let pods = says(&kubectl, "get pods -o wide").await;
    assert!(
        pods.contains("web") && pods.contains("Running") && pods.contains("edge-1"),
        "{pods}"
    );
    let described = says(&kubectl, "describe pod web").await;
    assert!(
        described.contains("registry.example/app:1") && described.contains("Ready"),
        "{described}"
    );
    let described = says(&kubectl, "describe node edge-1").await;
    assert!(
        described.contains("edge-1") && described.contains("web"),
        "{described}"
    );
    let resources = says(&kubectl, "api-resources").await;
    assert!(
        resources.contains("things") && resources.contains("deployments"),
        "{resources}"
    );
    assert!(
        says(&kubectl, "explain thing.spec.size")
            .await
            .contains("integer")
    );
    assert!(says(&kubectl, "version").await.contains("Server Version"));

    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"a": value}});
    assert_eq!(applies(&kubectl, map("1")).await, "configmap/m created\n");
    assert_eq!(applies(&kubectl, map("1")).await, "configmap/m unchanged\n");
    assert_eq!(
        applies(&kubectl, map("2")).await,
        "configmap/m configured\n"
    );
    assert_eq!(
        world.object("v1", "ConfigMap", "m").get().await["data"]["a"],
        "2"
    );
    assert_eq!(says(&kubectl, "get cm m -o jsonpath={.data.a}").await, "2");
    assert!(says(&kubectl, "delete cm m").await.contains("deleted"));
    assert_eq!(world.object("v1", "ConfigMap", "m").find().await, None);

    assert_eq!(
        applies(&kubectl, thing("t", 3)).await,
        "thing.example.com/t created\n"
    );
    let things = says(&kubectl, "get th").await;
    assert!(things.contains("SIZE") && things.contains('3'), "{things}");
    assert!(
        says(&kubectl, "label thing t colour=red")
            .await
            .contains("labeled")
    );
    assert!(
        says(&kubectl, "get things -l colour=red -o name")
            .await
            .contains("thing.example.com/t")
    );
    assert!(says(&kubectl, "delete thing t").await.contains("deleted"));
    assert!(
        complains(&kubectl, "get thing t")
            .await
            .contains("NotFound")
    );

    // no role lets a node make pods; the account of one of its pods may
    let once = "run once --image=registry.example/app:1 --restart=Never";
    let refused = complains(&kubectl, once).await;
    assert!(
        refused.contains("Forbidden") && refused.contains("system:node:edge-1"),
        "{refused}"
    );
    let api = "rbac.authorization.k8s.io";
    world
        .apply(&json!({
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": "web", "namespace": "default"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "edge-apps"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
        }))
        .await;
    eventually("the pod is made", async || {
        match run(&kubectl, once).await.success() {
            Ok(created) if created.text().contains("created") => Ok(()),
            Ok(other) => Err(other.text()),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .await;
    let refused = complains(&kubectl, "get secrets").await;
    assert!(
        refused.contains("Forbidden") && refused.contains("requireAuthorization"),
        "{refused}"
    );
    let refused = complains(&kubectl, "get deployments").await;
    assert!(
        refused.contains("Forbidden") && refused.contains("system:node:edge-1"),
        "{refused}"
    );
    let refused = complains(&kubectl, "get pods --token=0000").await;
    assert!(
        refused.contains("Unauthorized") || refused.contains("logged in"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_auth_tells_the_nodes_rights_and_no_administrators() {
    let world = ready().await;
    let kubectl = kubectl(&world).await;
    let who = says(&kubectl, "auth whoami").await;
    assert!(
        who.contains("system:node:edge-1") && who.contains("system:nodes"),
        "{who}"
    );
    assert!(
        !who.contains("system:masters") && !who.contains("system:admin"),
        "{who}"
    );
    for line in ["auth can-i get secrets", "auth can-i * *"] {
        let told = run(&kubectl, line).await;
        assert!(
            told.code == Some(1) && told.text().starts_with("no"),
            "{line}: {told:?}"
        );
    }
    for line in ["auth can-i get configmaps", "auth can-i --list"] {
        let why = complains(&kubectl, line).await;
        assert!(why.contains("the cloud decides"), "{line}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_on_the_node_without_the_cloud() {
    let mut world = ready().await;
    world.run(&pod("web", Some("edge-1"))).await;
    world.apply(&thing("t", 3)).await;
    let kubectl = kubectl(&world).await;
    says(&kubectl, "get things,configmaps").await;

    world.stop_cloud().await;
    world.until_connected(0, false).await;
    let pods = run(&kubectl, "get pods").await;
    assert!(
        pods.stderr.contains("Warning: the cloud is not connected"),
        "{}",
        pods.stderr
    );
    assert!(pods.success().unwrap().text().contains("web"));
    assert!(
        says(&kubectl, "describe pod web")
            .await
            .contains("registry.example/app:1")
    );
    assert!(says(&kubectl, "get node edge-1").await.contains("edge-1"));
    assert!(
        says(&kubectl, "get th t").await.contains('3'),
        "kinds are known without the cloud"
    );
    assert!(
        says(&kubectl, "get cm kube-root-ca.crt -o name")
            .await
            .contains("kube-root-ca.crt")
    );
    for line in [
        "delete pod web",
        "label thing t a=b",
        "create configmap new --from-literal=a=b",
    ] {
        let why = complains(&kubectl, line).await;
        assert!(why.contains("the cloud is not connected"), "{line}: {why}");
    }
    assert!(
        complains(&kubectl, "get cm never-seen")
            .await
            .contains("is not stored on this node")
    );

    world.start_cloud().await;
    world.until_connected(0, true).await;
    assert!(
        says(&kubectl, "label thing t a=b")
            .await
            .contains("labeled")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_logs_on_the_node_without_the_cloud() {
    let mut world = ready().await;
    let mut web = pod("web", Some("edge-1"));
    web["spec"]["containers"][0]["command"] =
        json!(["sh", "-c", "echo hello; echo again; sleep infinity"]);
    world.run(&web).await;
    let kubectl = kubectl(&world).await;
    let whole = async |line: &str| {
        eventually("the container has said all", async || {
            let text = says(&kubectl, line).await;
            if text == "hello\nagain\n" {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    };
    whole("logs web").await;
    world.stop_cloud().await;
    world.until_connected(0, false).await;
    whole("logs web").await;
    assert_eq!(says(&kubectl, "logs web --tail=1").await, "again\n");
    let why = complains(&kubectl, "logs web -c none").await;
    assert!(
        why.contains("container none is not valid for pod web"),
        "{why}"
    );
    let why = complains(
        &kubectl,
        "get --raw /api/v1/namespaces/default/pods/other/log",
    )
    .await;
    assert!(why.contains("pod \"other\" is not on this node"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches_across_a_cut() {
    let mut world = ready().await;
    world.apply(&thing("first", 1)).await;
    let directory = world.directory();
    let kubectl = kubectl(&world).await;
    let watching = kubectl
        .start(&["get", "things", "-w", "--no-headers"], &directory)
        .unwrap();
    let printed = async |name: &str| {
        eventually(&format!("kubectl prints {name}"), async || {
            let text = watching.log();
            if text.contains(name) {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    };
    printed("first").await;
    world.apply(&thing("second", 2)).await;
    printed("second").await;
    world.stop_cloud().await;
    world.until_connected(0, false).await;
    world.start_cloud().await;
    world.apply(&thing("third", 3)).await;
    printed("third").await;
}
