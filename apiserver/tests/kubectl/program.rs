//! `kubectl` itself.

use serde_json::json;

use super::world::World;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: main, image: 'nginx:1', ports: [{containerPort: 80}]}
  nodeName: edge-1
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: edge-1, labels: {node-role.kubernetes.io/edge: ''}}
status:
  addresses: [{type: InternalIP, address: 10.0.0.7}]
  conditions: [{type: Ready, status: 'True', reason: KubeletReady, message: ok}]
  capacity: {cpu: '2', memory: 1Gi, pods: '20'}
  nodeInfo:
    {architecture: amd64, bootID: '', containerRuntimeVersion: 'containerd://2.0', kernelVersion: '6.1', kubeProxyVersion: '',
     kubeletVersion: v1.33.0, machineID: '', operatingSystem: linux, osImage: Edge OS, systemUUID: ''}
";

const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: small}
spec: {size: 1}
";

fn map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {data}\n")
}

/// A snapshot without what differs from run to run: ages, and the widths that follow from them.
macro_rules! assert_printed {
    ($text:expr) => {{
        let text = $text;
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"\b\d+s\b", "<age>");
        settings.add_filter(r" +", " ");
        settings.add_filter(r" \n", "\n");
        settings.bind(|| insta::assert_snapshot!(text));
    }};
}

/// Rows of a table: command line, standard input, what is printed.
async fn expect(world: &World, rows: &[(&str, &str, &str)]) {
    for (line, input, expected) in rows {
        assert_eq!(
            world.run(line, input).await.trim_end(),
            *expected,
            "kubectl {line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_applied_and_changed() {
    let world = World::new().await;
    let (first, second) = (map("{a: '1', b: '1'}"), map("{a: '2'}"));
    let data = "get configmap settings -o jsonpath={.data}";
    let (made, tried) = (
        first.replace("settings", "made"),
        first.replace("settings", "tried"),
    );
    let widget = WIDGET.replace("size: 1", "size: 2");
    let merge = r#"patch configmap settings --type merge -p {"data":{"m":"1"}}"#;
    let operations =
        r#"patch configmap settings --type json -p [{"op":"add","path":"/data/j","value":"1"}]"#;
    let strategic =
        r#"patch pod web -p {"spec":{"containers":[{"name":"main","image":"nginx:2"}]}}"#;
    let image = "get pod web -o jsonpath={.spec.containers[*].image}";
    let rows = [
        ("create -f -", POD, "pod/web created"),
        ("apply -f -", first.as_str(), "configmap/settings created"),
        ("apply -f -", first.as_str(), "configmap/settings unchanged"),
        (
            "apply -f -",
            second.as_str(),
            "configmap/settings configured",
        ),
        (data, "", r#"{"a":"2"}"#),
        ("apply -f -", WIDGET, "widget.example.com/small created"),
        (
            "apply -f -",
            widget.as_str(),
            "widget.example.com/small configured",
        ),
        (
            "apply --server-side --field-manager=other -f -",
            widget.as_str(),
            "widget.example.com/small serverside-applied",
        ),
        (merge, "", "configmap/settings patched"),
        (operations, "", "configmap/settings patched"),
        (data, "", r#"{"a":"2","j":"1","m":"1"}"#),
        (strategic, "", "pod/web patched"),
        (image, "", "nginx:2"),
        ("label pod web tier=front", "", "pod/web labeled"),
        ("label pod web tier-", "", "pod/web unlabeled"),
        ("annotate pod web note=yes", "", "pod/web annotated"),
        ("create -f -", made.as_str(), "configmap/made created"),
        (
            "create -f - --dry-run=server",
            tried.as_str(),
            "configmap/tried created (server dry run)",
        ),
        (
            "get configmap -o name",
            "",
            "configmap/made\nconfigmap/settings",
        ),
        (
            "get configmap -o name --chunk-size=1",
            "",
            "configmap/made\nconfigmap/settings",
        ),
        ("delete configmap made", "", "configmap \"made\" deleted"),
        (
            "delete widget --all",
            "",
            "widget.example.com \"small\" deleted",
        ),
    ];
    expect(&world, &rows).await;
    let missing = world.fail("get pod absent", "").await;
    assert_eq!(
        missing.trim(),
        "Error from server (NotFound): pods \"absent\" not found"
    );
    let typo = map("{a: '1'}").replace("\ndata", "\ndada");
    let strict = world.fail("apply -f -", &typo).await;
    assert!(
        strict.contains("strict decoding error: unknown field \"dada\""),
        "{strict}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_knows_owners() {
    let world = World::new().await;
    let object = map("{a: '1'}");
    let apply = "apply --server-side -f -";
    expect(
        &world,
        &[(apply, &object, "configmap/settings serverside-applied")],
    )
    .await;
    let other = map("{a: '2'}");
    let conflict = world
        .fail(&format!("{apply} --field-manager=other"), &other)
        .await;
    assert!(
        conflict.contains("conflict with \"kubectl\": .data.a"),
        "{conflict}"
    );
    let forced = format!("{apply} --field-manager=other --force-conflicts");
    expect(
        &world,
        &[(&forced, &other, "configmap/settings serverside-applied")],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_printed() {
    let world = World::new().await;
    for (object, what) in [
        (NODE, "node/edge-1"),
        (POD, "pod/web"),
        (WIDGET, "widget.example.com/small"),
    ] {
        assert_eq!(
            world.run("create -f -", object).await.trim(),
            format!("{what} created")
        );
    }
    let state = json!({"name": "main", "ready": true, "restartCount": 1, "image": "nginx:1", "imageID": "",
                       "state": {"running": {}}});
    world
        .report(
            "web",
            json!({"phase": "Running", "podIP": "10.1.0.2", "containerStatuses": [state]}),
        )
        .await;
    assert_printed!(world.kubectl("get pods -o wide").await);
    assert_printed!(world.kubectl("get nodes -o wide").await);
    assert_printed!(world.kubectl("get wd -o wide -A --show-labels").await);
    let described = world.kubectl("describe pod web").await;
    for line in [
        "Name:             web",
        "Node:             edge-1",
        "    Image:          nginx:1",
        "Status:           Running",
    ] {
        assert!(described.contains(line), "{line}: {described}");
    }
    let described = world.kubectl("describe node edge-1").await;
    for text in [
        "Non-terminated Pods:          (1 in total)",
        "InternalIP:  10.0.0.7",
    ] {
        assert!(described.contains(text), "{text}: {described}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_followed() {
    let world = World::new().await;
    expect(&world, &[("create -f -", POD, "pod/web created")]).await;
    let mut watching = world.follow("get pods -w");
    watching.until("web ").await;
    expect(
        &world,
        &[("run second --image=nginx", "", "pod/second created")],
    )
    .await;
    watching.until("second ").await;

    let ready = world.kubectl("wait pod/web --for=condition=Ready --timeout=60s");
    let report = world.report(
        "web",
        json!({"conditions": [{"type": "Ready", "status": "True"}]}),
    );
    assert_eq!(
        tokio::join!(ready, report).0.trim(),
        "pod/web condition met"
    );
    let phase = "wait pod/web --for=jsonpath={.status.phase}=Pending --timeout=60s";
    expect(&world, &[(phase, "", "pod/web condition met")]).await;

    // kubectl waits until what it deletes is gone: here until a kubelet would have ended the pod
    let mut deleting = world.follow("delete pod web");
    world.ends("web").await;
    let force = "delete pod web --force --grace-period=0";
    assert_eq!(
        world.kubectl(force).await.trim(),
        "pod \"web\" force deleted"
    );
    deleting.until("pod \"web\" deleted").await;
    expect(
        &world,
        &[("wait pod/web --for=delete --timeout=60s", "", "")],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_describes_itself() {
    let world = World::new().await;
    let resources = world.kubectl("api-resources --no-headers").await;
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let resources: Vec<_> = resources.lines().map(words).collect();
    for expected in [
        "configmaps cm v1 true ConfigMap",
        "leases coordination.k8s.io/v1 true Lease",
        "nodes no v1 false Node",
        "pods po v1 true Pod",
        "widgets wd example.com/v1 true Widget",
    ] {
        assert!(
            resources.contains(&words(expected)),
            "{expected}: {resources:?}"
        );
    }
    let explained = world.kubectl("explain widget.spec.size").await;
    assert!(explained.contains("How large it is."), "{explained}");
    let explained = world.kubectl("explain pod.spec.containers.image").await;
    assert!(explained.contains("FIELD: image <string>"), "{explained}");
    assert_eq!(world.kubectl("get --raw /readyz").await, "ok");
    let version = world.kubectl("version").await;
    assert!(version.contains("Server Version: v1."), "{version}");
}

#[tokio::test(flavor = "multi_thread")]
async fn access_is_told() {
    let world = World::new().await;
    let rows = [
        ("auth can-i create pods", "", "yes"),
        (
            "auth can-i create pods --as=ann",
            "",
            "no - RBAC is off: only system:masters has access",
        ),
        ("auth can-i get /metrics", "", "yes"),
        (
            "auth whoami -o jsonpath={.status.userInfo.username}",
            "",
            "admin",
        ),
        (
            "auth whoami --as=ann --as-group=system:masters -o jsonpath={.status.userInfo.groups}",
            "",
            r#"["system:masters","system:authenticated"]"#,
        ),
    ];
    for (line, _, expected) in rows {
        let said = world.run_with(line, "").await;
        let told = said.out.trim();
        assert!(
            told == expected || said.err.contains(expected),
            "kubectl {line}: {said:?}"
        );
    }
    let listed = world.kubectl("auth can-i --list").await;
    assert!(listed.contains("*.*") && listed.contains("[*]"), "{listed}");
    let refused = world.fail("get pods --as=ann", "").await;
    let expected = "Error from server (Forbidden): pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert_eq!(refused.trim(), expected);
}
