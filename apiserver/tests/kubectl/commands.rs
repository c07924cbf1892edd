//! The rest of `kubectl`'s commands, each as somebody types it.

use serde_json::json;

use super::world::World;

const LIST: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
- {apiVersion: v1, kind: Secret, metadata: {name: two}}
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: edge-1}
";

const REQUEST: &str = "
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: NAME}
spec: {request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlId01JR1dBZ0VBTURReEZUQVRCZ05WQkFvTURITjVjM1JsYlRwdWIyUmxjekViTUJrR0ExVUVBd3dTYzNsegpkR1Z0T201dlpHVTZaV1JuWlMweE1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRWVSUk9KZFVrCmFTZ0s2QkEzbmxIWlZ1djhqZ0U1OFpaaDVVd082SzJPVE5LaXVDU2VGOWk0RTc4T2VJVlZ0R050YU82Zk1lbDgKS01NVTFWK1BYU01MdnFBQU1Bb0dDQ3FHU000OUJBTUNBMGtBTUVZQ0lRQ3daeEhKbS9EYXVYOUFTTUZzK1RiVgpqUW5Jb0xnMzJJNEcwZmh1cEZnNFpRSWhBS1RYcnd0b3BpdkNRcjQ4eFJYNEhlOHdYVUZQWXBHRDN1clBjOUh5CmxKOUcKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}
";

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get]}
";

const APPLIED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  automountServiceAccountToken: false
  containers:
  - name: web
    image: nginx:1
    ports: [{containerPort: 80}]
    env: [{name: A, value: b}]
    resources: {limits: {cpu: 500m}}
    volumeMounts: [{name: conf, mountPath: /conf}, {name: scratch, mountPath: /scratch}]
  volumes: [{name: conf, configMap: {name: conf}}, {name: scratch, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80}, {name: https, port: 443, targetPort: 8443}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx:1}]}}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec: {size: 5}
";

/// Rows of a table: command line, standard input, what is printed. All that differ are shown together.
async fn expect(world: &World, rows: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (line, input, expected) in rows {
        let said = world.run_with(line, input).await;
        if !said.ok || said.out.trim_end() != *expected {
            wrong.push(format!("kubectl {line}: {:?} {:?}", said.out, said.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_made_without_manifests() {
    let world = World::new().await;
    let job = "create job once --image=busybox -- date";
    let rows = [
        ("create namespace spare", "", "namespace/spare created"),
        (
            "create configmap conf --from-literal=a=before",
            "",
            "configmap/conf created",
        ),
        (
            "create secret generic s --from-literal=k=v",
            "",
            "secret/s created",
        ),
        (
            "create secret docker-registry r --docker-server=x --docker-username=u --docker-password=p",
            "",
            "secret/r created",
        ),
        (
            "create serviceaccount robot",
            "",
            "serviceaccount/robot created",
        ),
        (
            "create deployment web --image=nginx:1 --replicas=2 --port=80",
            "",
            "deployment.apps/web created",
        ),
        ("expose deployment web --port=80", "", "service/web exposed"),
        (
            "autoscale deployment web --max=5",
            "",
            "horizontalpodautoscaler.autoscaling/web autoscaled",
        ),
        (job, "", "job.batch/once created"),
        (
            "create cronjob daily --image=busybox --schedule=0~0~*~*~*",
            "",
            "cronjob.batch/daily created",
        ),
        (
            "create job manual --from=cronjob/daily",
            "",
            "job.batch/manual created",
        ),
        (
            "create service nodeport np --tcp=80",
            "",
            "service/np created",
        ),
        (
            "create ingress i --rule=a.example/*=web:80",
            "",
            "ingress.networking.k8s.io/i created",
        ),
        (
            "create quota q --hard=pods=3",
            "",
            "resourcequota/q created",
        ),
        (
            "create pdb b --selector=app=web --min-available=1",
            "",
            "poddisruptionbudget.policy/b created",
        ),
        (
            "create priorityclass p --value=5",
            "",
            "priorityclass.scheduling.k8s.io/p created",
        ),
        (
            "create role r --verb=get --resource=pods",
            "",
            "role.rbac.authorization.k8s.io/r created",
        ),
        (
            "create clusterrole c --verb=get --resource=nodes",
            "",
            "clusterrole.rbac.authorization.k8s.io/c created",
        ),
        (
            "create rolebinding b --role=r --serviceaccount=default:robot",
            "",
            "rolebinding.rbac.authorization.k8s.io/b created",
        ),
        (
            "create clusterrolebinding b --clusterrole=c --user=ann",
            "",
            "clusterrolebinding.rbac.authorization.k8s.io/b created",
        ),
        (
            "run solo --image=nginx:1 --labels=a=b",
            "",
            "pod/solo created",
        ),
        (
            "apply -f -",
            LIST,
            "configmap/one created\nsecret/two created",
        ),
        (
            "apply --server-side --force-conflicts -f -",
            LIST,
            "configmap/one serverside-applied\nsecret/two serverside-applied",
        ),
        (
            "auth reconcile -f -",
            ROLE,
            "role.rbac.authorization.k8s.io/reader reconciled",
        ),
    ];
    expect(&world, &rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_again_is_unchanged() {
    let world = World::new().await;
    let said = |how: &str| {
        let names = [
            "pod/web",
            "service/web",
            "configmap/conf",
            "deployment.apps/web",
            "widget.example.com/one",
        ];
        names.map(|name| format!("{name} {how}")).join("\n")
    };
    let (created, unchanged) = (said("created"), said("unchanged"));
    let rows = [
        ("apply -f -", APPLIED, created.as_str()),
        ("apply -f -", APPLIED, &unchanged),
        ("apply -f -", APPLIED, &unchanged),
    ];
    expect(&world, &rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_changed_in_place() {
    let world = World::new().await;
    let status = json!({"status": {
        "observedGeneration": 5, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
    }});
    let status = format!("patch deployment web --subresource=status --type=merge -p {status}");
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {a: replaced}\n";
    let data = "get configmap conf -o jsonpath={.data.a}";
    let rows = [
        (
            "create configmap conf --from-literal=a=before",
            "",
            "configmap/conf created",
        ),
        ("edit configmap conf", "", "configmap/conf edited"),
        (data, "", "after"),
        // nothing to change any more, which is said on standard error
        ("edit configmap conf", "", ""),
        ("replace -f -", settings, "configmap/conf replaced"),
        (
            "replace --force -f -",
            settings,
            "configmap \"conf\" deleted\nconfigmap/conf replaced",
        ),
        (data, "", "replaced"),
        (
            "create deployment web --image=nginx:1",
            "",
            "deployment.apps/web created",
        ),
        (
            "set image deployment/web nginx=nginx:2",
            "",
            "deployment.apps/web image updated",
        ),
        (
            "set env deployment/web A=b",
            "",
            "deployment.apps/web env updated",
        ),
        (
            "set resources deployment web --limits=cpu=1",
            "",
            "deployment.apps/web resource requirements updated",
        ),
        (
            "scale deployment web --replicas=3",
            "",
            "deployment.apps/web scaled",
        ),
        (&status, "", "deployment.apps/web patched"),
        (
            "rollout status deployment web",
            "",
            "deployment \"web\" successfully rolled out",
        ),
        (
            "rollout pause deployment web",
            "",
            "deployment.apps/web paused",
        ),
        (
            "rollout resume deployment web",
            "",
            "deployment.apps/web resumed",
        ),
        (
            "rollout restart deployment web",
            "",
            "deployment.apps/web restarted",
        ),
        ("run solo --image=nginx:1", "", "pod/solo created"),
        ("debug solo --image=busybox -c look -q", "", ""),
        (
            "get pod solo -o jsonpath={.spec.ephemeralContainers[*].name}",
            "",
            "look",
        ),
    ];
    expect(&world, &rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_certificates_are_administered() {
    let world = World::new().await;
    let (first, second) = (
        REQUEST.replace("NAME", "first"),
        REQUEST.replace("NAME", "second"),
    );
    let condition = "-o jsonpath={.status.conditions[*].type}";
    let csr = "certificatesigningrequest.certificates.k8s.io";
    let rows = [
        ("create -f -", NODE, "node/edge-1 created"),
        (
            "taint nodes edge-1 dedicated=x:NoSchedule",
            "",
            "node/edge-1 tainted",
        ),
        ("taint nodes edge-1 dedicated-", "", "node/edge-1 untainted"),
        ("cordon edge-1", "", "node/edge-1 cordoned"),
        ("uncordon edge-1", "", "node/edge-1 uncordoned"),
        (
            "drain edge-1 --ignore-daemonsets",
            "",
            "node/edge-1 cordoned\nnode/edge-1 drained",
        ),
        ("create -f -", &first, &format!("{csr}/first created")),
        ("create -f -", &second, &format!("{csr}/second created")),
        (
            "certificate approve first",
            "",
            &format!("{csr}/first approved"),
        ),
        (
            "certificate deny second",
            "",
            &format!("{csr}/second denied"),
        ),
        (&format!("get csr first {condition}"), "", "Approved"),
        (&format!("get csr second {condition}"), "", "Denied"),
    ];
    expect(&world, &rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told() {
    let world = World::new().await;
    expect(&world, &[("run web --image=nginx", "", "pod/web created")]).await;
    world.kubectl("create serviceaccount robot").await;
    world.report("web", json!({"phase": "Running"})).await;
    let rows = [
        ("top nodes", "Metrics API not available"),
        ("top pods", "Metrics API not available"),
        ("logs web", "EdgeStream"),
        ("exec web -- ls", "EdgeStream"),
        ("attach web", "EdgeStream"),
        ("port-forward pod/web 18080:80", "EdgeStream"),
        ("cp web:/etc/hosts hosts", "EdgeStream"),
        (
            "create token robot",
            "no issuer of service account tokens is configured",
        ),
    ];
    let mut wrong = Vec::new();
    for (line, expected) in rows {
        let said = world.fail(line, "").await;
        if !said.contains(expected) {
            wrong.push(format!("kubectl {line}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_shown() {
    let world = World::new().await;
    world.kubectl("create deployment web --image=nginx:1").await;
    let rows = [
        ("cluster-info", "Kubernetes control plane"),
        ("api-versions", "apps/v1\n"),
        ("get all", "deployment.apps/web"),
        ("get all -o wide", "nginx:1"),
        ("get --raw /apis/apps/v1", "\"deployments/scale\""),
        ("events", "No events found in default namespace."),
        (
            "rollout history deployment web",
            "No rollout history found.",
        ),
        ("completion bash", "__start_kubectl"),
        (
            "get deployment web -o yaml --show-managed-fields",
            "f:replicas",
        ),
        (
            "get deployments --sort-by=.metadata.name -o custom-columns=N:.metadata.name",
            "N\nweb",
        ),
    ];
    for (line, expected) in rows {
        let said = world.run_with(line, "").await;
        assert!(
            said.ok && format!("{}{}", said.out, said.err).contains(expected),
            "kubectl {line}: {said:?}"
        );
    }
}
