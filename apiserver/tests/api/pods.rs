//! What admission adds to new pods, and which it refuses.

use serde_json::{Value, json};

use super::world::{PODS, World, named_map, pod};

fn refusal(why: &str) -> Value {
    json!({"reason": "Forbidden", "message": format!("pods \"a\" is forbidden: {why}"), "details": {"name": "a", "kind": "pods"}})
}

fn pod_with(name: &str, field: &str, value: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"][field] = value;
    pod
}

#[tokio::test]
async fn a_pods_account_must_be_there() {
    let world = World::new().await;
    let of = |name| pod_with(name, "serviceAccountName", json!("robot"));
    let why = "error looking up service account default/robot: serviceaccount \"robot\" not found";
    world
        .expect(&format!("POST {PODS}"), of("a"), 403, refusal(why))
        .await;
    let mut account = named_map("robot");
    account["imagePullSecrets"] = json!([{"name": "registry"}]);
    world
        .create("/api/v1/namespaces/default/serviceaccounts", account)
        .await;
    let pulls = json!({"spec": {"serviceAccountName": "robot", "imagePullSecrets": [{"name": "registry"}]}});
    world
        .expect(&format!("POST {PODS}"), of("a"), 201, pulls)
        .await;
    let mut own = of("b");
    own["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
    let kept = json!({"spec": {"imagePullSecrets": [{"name": "own"}]}});
    world.expect(&format!("POST {PODS}"), own, 201, kept).await;
    // the default account comes a moment after its namespace
    world
        .expect(
            &format!("POST {PODS}"),
            pod("c"),
            201,
            json!({"spec": {"serviceAccountName": "default"}}),
        )
        .await;
}

#[tokio::test]
async fn a_pod_has_its_accounts_token_unless_it_or_the_account_refuses() {
    const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let world = World::new().await;
    for (name, automount) in [
        ("silent", json!(null)),
        ("refuses", json!(false)),
        ("wants", json!(true)),
    ] {
        let mut account = named_map(name);
        account["automountServiceAccountToken"] = automount;
        world
            .create("/api/v1/namespaces/default/serviceaccounts", account)
            .await;
    }
    for (account, said, has_it) in [
        // the account that is made a moment later
        ("default", json!(null), true),
        ("default", json!(false), false),
        ("silent", json!(null), true),
        ("silent", json!(false), false),
        ("refuses", json!(null), false),
        ("refuses", json!(true), true),
        ("wants", json!(null), true),
        ("wants", json!(false), false),
    ] {
        let mut new = pod_with(
            &format!("{account}-{said}"),
            "serviceAccountName",
            json!(account),
        );
        new["spec"]["automountServiceAccountToken"] = said.clone();
        let made = world.create(PODS, new).await;
        let volumes = made["spec"]["volumes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mounts = made["spec"]["containers"][0]["volumeMounts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if !has_it {
            assert!(
                volumes.is_empty() && mounts.is_empty(),
                "{account} {said}: {made}"
            );
            continue;
        }
        let name = volumes[0]["name"].as_str().unwrap().to_owned();
        assert!(
            name.strip_prefix("kube-api-access-")
                .is_some_and(|suffix| suffix.len() == 5),
            "{name}"
        );
        let sources = json!([
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]);
        assert_eq!(
            json!(volumes),
            json!([{"name": name, "projected": {"defaultMode": 420, "sources": sources}}])
        );
        assert_eq!(
            json!(mounts),
            json!([{"name": name, "mountPath": PLACE, "readOnly": true}])
        );
    }
    // a container that has something there keeps it
    let mut own = pod("own");
    own["spec"]["volumes"] = json!([{"name": "mine", "emptyDir": {}}]);
    own["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "mine", "mountPath": PLACE}]);
    let made = world.create(PODS, own).await;
    assert_eq!(
        made["spec"]["volumes"],
        json!([{"name": "mine", "emptyDir": {}}])
    );
    assert_eq!(
        made["spec"]["containers"][0]["volumeMounts"],
        json!([{"name": "mine", "mountPath": PLACE}])
    );
    // a mirror pod runs as nobody
    let mut mirror = pod("mirror");
    mirror["spec"]["nodeName"] = json!("edge-1");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    let made = world.create(PODS, mirror).await;
    assert!(made["spec"]["volumes"].is_null(), "{made}");
}

#[tokio::test]
async fn a_pods_runtime_class_must_be_there_and_says_what_it_costs() {
    let world = World::new().await;
    let of = |name| pod_with(name, "runtimeClassName", json!("kata"));
    let why = "pod rejected: RuntimeClass \"kata\" not found";
    world
        .expect(&format!("POST {PODS}"), of("a"), 403, refusal(why))
        .await;
    let class = json!({
        "metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    });
    world
        .create("/apis/node.k8s.io/v1/runtimeclasses", class)
        .await;
    let filled = json!({"spec": {
        "overhead": {"cpu": "250m", "memory": "120Mi"}, "nodeSelector": {"runtime": "kata"},
    }});
    let made = world
        .expect(&format!("POST {PODS}"), of("a"), 201, filled)
        .await;
    let tolerated = made["spec"]["tolerations"].as_array().unwrap();
    assert!(
        tolerated.contains(&json!({"key": "kata", "operator": "Exists"})),
        "{tolerated:?}"
    );
    let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
    let mut other = of("a");
    other["spec"]["overhead"] = json!({"cpu": "1"});
    world
        .expect(&format!("POST {PODS}"), other, 403, refusal(why))
        .await;
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    world
        .expect(
            &format!("POST {PODS}"),
            pod_with("a", "overhead", json!({"cpu": "1"})),
            403,
            refusal(why),
        )
        .await;
    let why = "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; pod.spec.nodeSelector[runtime] = other";
    let mut elsewhere = of("a");
    elsewhere["spec"]["nodeSelector"] = json!({"runtime": "other"});
    world
        .expect(&format!("POST {PODS}"), elsewhere, 403, refusal(why))
        .await;
}

#[tokio::test]
async fn quantities_are_answered_in_one_form() {
    let world = World::new().await;
    let mut asked = pod("a");
    asked["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 1.5, "memory": "2048Mi"}});
    let form = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "2Gi"}});
    let expected = json!({"spec": {"containers": [{"resources": form}]}});
    world
        .expect(&format!("POST {PODS}"), asked, 201, expected.clone())
        .await;
    world
        .expect(&format!("GET {PODS}/a"), Value::Null, 200, expected)
        .await;
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"memory": "16777216Ki", "pods": "110"}}});
    world
        .expect(
            "POST /api/v1/nodes",
            node,
            201,
            json!({"status": {"capacity": {"memory": "16Gi", "pods": "110"}}}),
        )
        .await;
    let patch = json!({"status": {"allocatable": {"cpu": "2000m"}}});
    world
        .expect(
            "MERGE /api/v1/nodes/n/status",
            patch,
            200,
            json!({"status": {"allocatable": {"cpu": "2"}}}),
        )
        .await;
    // what is applied again in another form is no change
    let applied = |storage: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
        })
    };
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/c?fieldManager=me";
    let first = world
        .expect(&format!("APPLY {path}"), applied("1024Mi"), 201, json!({}))
        .await;
    assert_eq!(first["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(
        world
            .expect(&format!("APPLY {path}"), applied("1Gi"), 200, json!({}))
            .await,
        first
    );
}

#[tokio::test]
async fn limit_ranges_fill_in_and_refuse() {
    let world = World::new().await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "500m", "memory": "500Mi"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Pod", "max": {"cpu": "800m"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
    ]}});
    let completed = json!({"spec": {"limits": [{
        "default": {"cpu": "500m", "memory": "500Mi"}, "defaultRequest": {"cpu": "100m", "memory": "500Mi"},
    }, {}, {}]}});
    world
        .expect(
            "POST /api/v1/namespaces/default/limitranges",
            range,
            201,
            completed,
        )
        .await;
    let filled = json!({"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"cpu": "500m", "memory": "500Mi"}});
    let expected = json!({"spec": {"containers": [{"resources": filled}]}, "status": {"qosClass": "Burstable"}});
    world
        .expect(&format!("POST {PODS}"), pod("good"), 201, expected)
        .await;
    let with = |resources: Value| {
        let mut pod = pod("a");
        pod["spec"]["containers"][0]["resources"] = resources;
        pod
    };
    // a container's own limit is its request
    let own = with(json!({"limits": {"cpu": "200m"}}));
    let kept = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}}}]}});
    world
        .expect(&format!("POST {PODS}?dryRun=All"), own, 201, kept)
        .await;
    for (resources, why) in [
        (
            json!({"requests": {"cpu": "10m"}}),
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        (
            json!({"limits": {"cpu": "600m"}}),
            "maximum cpu usage per Container is 500m, but limit is 600m",
        ),
        (
            json!({"requests": {"cpu": "10m"}, "limits": {"memory": "1Gi"}}),
            "[minimum cpu usage per Container is 50m, but request is 10m, maximum memory usage per Container is 500Mi, but limit is 1Gi]",
        ),
    ] {
        world
            .expect(&format!("POST {PODS}"), with(resources), 403, refusal(why))
            .await;
    }
    let mut two = pod("a");
    two["spec"]["containers"] = json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]);
    let why = "maximum cpu usage per Pod is 800m, but limit is 1";
    world
        .expect(&format!("POST {PODS}"), two, 403, refusal(why))
        .await;
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    let message = "persistentvolumeclaims \"a\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi";
    let claims = "POST /api/v1/namespaces/default/persistentvolumeclaims";
    world
        .expect(claims, claim, 403, json!({"message": message}))
        .await;
    // another namespace has its own
    world
        .create(
            "/api/v1/namespaces/other/pods",
            with(json!({"requests": {"cpu": "10m"}})),
        )
        .await;
}

#[tokio::test]
async fn quotas_count_what_is_there_and_refuse_more() {
    let world = World::new().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"pods": "2", "requests.cpu": "1", "limits.memory": "2Gi", "count/configmaps": "1", "services.nodeports": "0"});
    let begun = json!({"status": {
        "hard": hard, "used": {"pods": "0", "requests.cpu": "0", "limits.memory": "0", "count/configmaps": "0", "services.nodeports": "0"},
    }});
    world
        .create(
            quotas,
            json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}),
        )
        .await;
    world
        .expect(&format!("GET {quotas}/q"), Value::Null, 200, begun)
        .await;
    let why = "failed quota: q: must specify limits.memory for: c; requests.cpu for: c";
    world
        .expect(&format!("POST {PODS}"), pod("a"), 403, refusal(why))
        .await;
    let with = |name: &str, cpu: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": cpu}, "limits": {"cpu": "1", "memory": "512Mi"}});
        pod
    };
    world.create(PODS, with("first", "600m")).await;
    let why = "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1";
    world
        .expect(
            &format!("POST {PODS}"),
            with("a", "500m"),
            403,
            refusal(why),
        )
        .await;
    world.create(PODS, with("second", "400m")).await;
    let used =
        json!({"status": {"used": {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}}});
    world
        .expect(&format!("GET {quotas}/q"), Value::Null, 200, used)
        .await;
    let why = "exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1";
    world
        .expect(&format!("POST {PODS}"), with("a", "1m"), 403, refusal(why))
        .await;
    // what has ended, or is gone, uses nothing
    world
        .expect(
            &format!("MERGE {PODS}/first/status"),
            json!({"status": {"phase": "Succeeded"}}),
            200,
            json!({}),
        )
        .await;
    world
        .expect(
            &format!("DELETE {PODS}/second?gracePeriodSeconds=0"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    let used = json!({"status": {"used": {"pods": "0", "requests.cpu": "0"}}});
    world
        .expect(&format!("GET {quotas}/q"), Value::Null, 200, used)
        .await;
    world
        .create("/api/v1/namespaces/default/configmaps", named_map("one"))
        .await;
    let message = "configmaps \"two\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1";
    let maps = "POST /api/v1/namespaces/default/configmaps";
    world
        .expect(maps, named_map("two"), 403, json!({"message": message}))
        .await;
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    world
        .expect(
            "POST /api/v1/namespaces/default/services",
            service,
            403,
            json!({"reason": "Forbidden"}),
        )
        .await;
    // other namespaces are not concerned
    world
        .create("/api/v1/namespaces/other/configmaps", named_map("two"))
        .await;
}

#[tokio::test]
async fn quotas_with_scopes_are_about_some_pods() {
    let world = World::new().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    for scope in [
        "BestEffort",
        "NotBestEffort",
        "Terminating",
        "NotTerminating",
    ] {
        let quota = json!({"metadata": {"name": scope.to_lowercase()}, "spec": {"hard": {"pods": "1"}, "scopes": [scope]}});
        world.create(quotas, quota).await;
    }
    world.create(PODS, pod("a")).await;
    for (name, used) in [
        ("besteffort", "1"),
        ("notbesteffort", "0"),
        ("terminating", "0"),
        ("notterminating", "1"),
    ] {
        let told = json!({"status": {"used": {"pods": used}}});
        world
            .expect(&format!("GET {quotas}/{name}"), Value::Null, 200, told)
            .await;
    }
    let mut other = pod("b");
    other["spec"]["activeDeadlineSeconds"] = json!(60);
    world
        .expect(
            &format!("POST {PODS}"),
            other.clone(),
            403,
            json!({"reason": "Forbidden"}),
        )
        .await;
    other["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1m"}});
    world.create(PODS, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_writers_do_not_get_past_a_quota() {
    let world = World::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "3"}}});
    world
        .create("/api/v1/namespaces/default/resourcequotas", quota)
        .await;
    let names: Vec<_> = (0..12).map(|number| format!("map-{number}")).collect();
    let created = names.iter().map(|name| {
        world.send(
            "POST /api/v1/namespaces/default/configmaps",
            named_map(name),
        )
    });
    let answers = futures::future::join_all(created).await;
    assert_eq!(
        answers.iter().filter(|answer| answer.code == 201).count(),
        3
    );
    let list = world.get("/api/v1/namespaces/default/configmaps").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn quotas_hold_for_services_and_claims_that_ask_for_more() {
    let world = World::new().await;
    let namespace = "/api/v1/namespaces/default";
    let hard = json!({"services.nodeports": "1", "requests.storage": "2Gi"});
    world
        .create(
            &format!("{namespace}/resourcequotas"),
            json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}),
        )
        .await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    world
        .create(
            &format!("{namespace}/services"),
            json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}),
        )
        .await;
    let why = "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1";
    let change = json!({"spec": {"type": "NodePort"}});
    world
        .expect(
            &format!("MERGE {namespace}/services/s"),
            change,
            403,
            json!({"message": why, "reason": "Forbidden"}),
        )
        .await;
    let one = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}]}});
    world
        .expect(
            &format!("MERGE {namespace}/services/s"),
            one,
            200,
            json!({"spec": {"type": "NodePort"}}),
        )
        .await;
    let used = json!({"status": {"used": {"services.nodeports": "1"}}});
    world
        .expect(
            &format!("GET {namespace}/resourcequotas/q"),
            Value::Null,
            200,
            used,
        )
        .await;
    world
        .expect(
            &format!("DELETE {namespace}/services/s"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    let free = json!({"status": {"used": {"services.nodeports": "0"}}});
    world
        .expect(
            &format!("GET {namespace}/resourcequotas/q"),
            Value::Null,
            200,
            free,
        )
        .await;
}
