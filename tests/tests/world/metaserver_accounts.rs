//! A MetaServer that asks who calls: its certificate comes from the cloud, pods come with tokens, roles say what they may do.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client, Config, api::ListParams};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod},
    uid,
};
use wire::{
    Answer, Change, Down, Downstream, ResourceType, Upstream,
    enroll::{
        Csr, ServingRequest, pem_certificate, pem_certificate_request, pem_ec_private_key,
        validity_of,
    },
};

use crate::raw::{Caller, authority};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn setup() -> Setup {
    Setup {
        nodes: 0,
        durable: true,
        meta_server: true,
        ..Setup::default()
    }
}

/// A node that asks who calls; its agent does not run yet.
async fn guarded_node(world: &World) -> hollow::fleet::HollowNode {
    let mut node = world.prepare("edge-1", &setup()).await;
    node.configure(|config| {
        config.require_authorization = true;
        let server = config
            .meta_manager
            .meta_server
            .as_mut()
            .expect("it has one");
        server.dummy_server = ([127, 0, 0, 1], 0).into();
    });
    node
}

/// A client of the node's MetaServer as pods have it.
async fn client(world: &World, ca: &[u8], token: &str) -> Client {
    let address = world.nodes[0]
        .meta_server()
        .await
        .expect("MetaServer listens");
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![ca.to_vec()]);
    config.default_retry = false;
    config.auth_info.token = Some(token.to_owned().into());
    Client::try_from(config).unwrap()
}

fn grant(account: &str) -> [Value; 3] {
    let api = "rbac.authorization.k8s.io";
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": "default"}}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": {"name": account, "namespace": "default"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]}),
        json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": account, "namespace": "default"},
            "roleRef": {"apiGroup": api, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}]}),
    ]
}

fn with_token(name: &str, account: &str) -> Value {
    let mut pod = pod(name, Some("edge-1"));
    pod["spec"]["serviceAccountName"] = account.into();
    pod["spec"]["volumes"] = json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    pod
}

fn code<T>(answer: Result<T, kube::Error>) -> Result<u16, String> {
    match answer {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(other) => Err(format!("{other:?}")),
    }
}

async fn until_code<T>(what: &str, wanted: u16, ask: impl AsyncFn() -> Result<T, kube::Error>) {
    eventually(what, async || {
        let answer = ask().await;
        let seen = answer.as_ref().err().map(ToString::to_string);
        if code(answer) == Ok(wanted) {
            Ok(())
        } else {
            Err(seen)
        }
    })
    .await;
}

fn access(world: &World, account: &str) -> tests::Object {
    world.object(
        "policy.kubeedge.io/v1alpha1",
        "ServiceAccountAccess",
        account,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_token_may_do_what_roles_grant_its_account() {
    let mut world = World::with(setup()).await;
    let mut node = guarded_node(&world).await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    for object in grant("robot") {
        world.apply(&object).await;
    }
    world
        .apply(&config_map("settings", json!({"v": "1"})))
        .await;
    let running = world.run(&with_token("web", "robot")).await;
    let directory = world.nodes[0].directory().to_owned();
    let volumes = directory
        .join("kubelet/pods")
        .join(uid(&running))
        .join("volumes");
    let token = fs::read_to_string(volumes.join("kubernetes.io~projected/token/token")).unwrap();

    let ca = authority(&world).await.cert_der().to_vec();
    let (robot, nobody) = (
        client(&world, &ca, &token).await,
        client(&world, &ca, "a.b.c").await,
    );
    let (maps, secrets) = (
        Api::<ConfigMap>::default_namespaced(robot.clone()),
        Api::<Secret>::default_namespaced(robot),
    );
    let all = ListParams::default();
    access(&world, "robot")
        .until("told where", |access| {
            access["status"]["nodeList"] == json!(["edge-1"])
        })
        .await;
    // the certificate and what the account may do come by themselves; nothing was granted to the node
    until_code("the account may list", 200, async || maps.list(&all).await).await;
    assert_eq!(code(secrets.list(&all).await), Ok(403));
    assert_eq!(
        code(maps.get("settings").await),
        Ok(403),
        "the role has no such verb"
    );
    assert_eq!(
        code(
            Api::<ConfigMap>::default_namespaced(nobody)
                .list(&all)
                .await
        ),
        Ok(401)
    );
    for file in ["metaserver.key", "metaserver.crt"] {
        let mode = fs::metadata(directory.join(file))
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(
            mode,
            if file.ends_with("key") { 0o600 } else { 0o644 },
            "{file}"
        );
    }

    // by an agent that begins without the cloud
    world.stop_cloud().await;
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    let robot = client(&world, &ca, &token).await;
    let maps = Api::<ConfigMap>::default_namespaced(robot.clone());
    let held = maps.list(&all).await.unwrap();
    assert!(
        held.items
            .iter()
            .any(|map| map.metadata.name.as_deref() == Some("settings"))
    );
    assert_eq!(
        code(Api::<Secret>::default_namespaced(robot).list(&all).await),
        Ok(403)
    );

    // what is taken away is taken away here, too
    world.start_cloud().await;
    world
        .object("rbac.authorization.k8s.io/v1", "RoleBinding", "robot")
        .delete(None)
        .await;
    until_code("the account may not list", 403, async || {
        maps.list(&all).await
    })
    .await;
}

/// The `status` that a question of a caller about itself is answered with.
async fn review(client: &Client, group: &str, plural: &str, spec: Value) -> Value {
    let request = http::Request::post(format!("/apis/{group}.k8s.io/v1/{plural}"))
        .header("content-type", "application/json")
        .body(json!({"spec": spec}).to_string().into_bytes())
        .unwrap();
    let answer: Value = client.request(request).await.unwrap();
    answer["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_told_who_it_is_and_what_it_may() {
    let mut world = World::with(setup()).await;
    let mut node = guarded_node(&world).await;
    let left = node.directory().join("metaserver.kubeconfig");
    fs::write(&left, "token: x").unwrap();
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    for object in grant("robot") {
        world.apply(&object).await;
    }
    let running = world.run(&with_token("web", "robot")).await;
    let volumes = world.nodes[0]
        .directory()
        .join("kubelet/pods")
        .join(uid(&running))
        .join("volumes");
    let token = fs::read_to_string(volumes.join("kubernetes.io~projected/token/token")).unwrap();
    let robot = client(&world, authority(&world).await.cert_der(), &token).await;
    assert!(
        !left.exists(),
        "a kubeconfig whose token is good for nothing"
    );

    let maps = Api::<ConfigMap>::default_namespaced(robot.clone());
    until_code("the account may list", 200, async || {
        maps.list(&ListParams::default()).await
    })
    .await;
    let who = review(&robot, "authentication", "selfsubjectreviews", json!({})).await;
    assert_eq!(
        who["userInfo"]["username"],
        "system:serviceaccount:default:robot"
    );
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ];
    assert_eq!(who["userInfo"]["groups"], json!(groups));
    for (verb, resource, allowed) in [
        ("list", "configmaps", true),
        ("get", "configmaps", false),
        ("list", "secrets", false),
        ("*", "*", false),
    ] {
        let wanted = json!({"verb": verb, "resource": resource, "namespace": "default"});
        let spec = json!({"resourceAttributes": wanted});
        let told = review(&robot, "authorization", "selfsubjectaccessreviews", spec).await;
        assert_eq!(told["allowed"], allowed, "{verb} {resource}: {told}");
    }
    let told = review(
        &robot,
        "authorization",
        "selfsubjectrulesreviews",
        json!({"namespace": "default"}),
    )
    .await;
    let rules = told["resourceRules"].to_string();
    assert!(
        rules.contains("configmaps") && !rules.contains("\"*\""),
        "{rules}"
    );
}

#[tokio::test]
async fn a_certificate_that_nears_its_end_is_renewed() {
    let mut world = World::with(setup()).await;
    let mut node = guarded_node(&world).await;
    let directory = node.directory().to_owned();
    let ca = authority(&world).await;
    let csr = Csr::for_server("edge-1", &["127.0.0.1".parse().unwrap()]).unwrap();
    let request = ServingRequest::read(csr.der()).unwrap();
    let old = ca
        .sign_serving(&request, DAY * 365, SystemTime::now() - DAY * 340)
        .unwrap();
    fs::write(directory.join("metaserver.crt"), pem_certificate(&old)).unwrap();
    fs::write(
        directory.join("metaserver.key"),
        pem_ec_private_key(&csr.key_sec1_der()),
    )
    .unwrap();
    node.start().await.unwrap();
    world.nodes.push(node);
    eventually("a new certificate", async || {
        let left = ends(&directory.join("metaserver.crt"))
            .duration_since(SystemTime::now())
            .unwrap_or_default();
        if left > DAY * 300 { Ok(()) } else { Err(left) }
    })
    .await;
    let requests = Api::<CertificateSigningRequest>::all(world.client())
        .list(&ListParams::default())
        .await
        .unwrap();
    let askers: Vec<_> = requests
        .items
        .iter()
        .map(|request| request.spec.username.as_deref())
        .collect();
    assert_eq!(askers, [Some(asker(&world))]);
}

/// In whose name the cloud asks for the certificate of edge-1.
fn asker(world: &World) -> &'static str {
    if world.is_backed() {
        "system:serviceaccount:kubeedge:cloudsim"
    } else {
        "system:node:edge-1"
    }
}

/// When a certificate ends.
fn ends(file: &Path) -> SystemTime {
    validity_of(&CertificateDer::from_pem_slice(&fs::read(file).unwrap()).unwrap())
        .unwrap()
        .1
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn a_node_gets_no_certificate_but_its_own() {
    let world = World::new(0).await;
    let mut session = Caller::node(&world, "edge-1")
        .await
        .session(&world, "edge-1")
        .await;
    let kind = ResourceType::CertificateSigningRequest;
    let object = |name: &str, node: &str, address: &str| {
        let csr = Csr::for_server(node, &[address.parse().unwrap()]).unwrap();
        let pem = pem_certificate_request(csr.der());
        let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
        // what it says of itself counts for nothing
        json!({"metadata": {"name": name}, "spec": {
            "request": request, "signerName": "kubernetes.io/kubelet-serving", "usages": ["digital signature", "server auth"],
            "username": format!("system:node:{node}"), "groups": ["system:masters"],
        }})
    };
    let rows = [
        ("own", "edge-1", "127.0.0.1", "Approved"),
        ("far", "edge-1", "192.0.2.1", "Denied"),
    ];
    for (name, node, address, expected) in rows {
        let made = Upstream::put(
            Change::Insert,
            "default",
            &kind,
            name,
            object(name, node, address),
        );
        let answer = session.ask(made).await;
        if world.is_backed() && expected == "Denied" {
            // nobody else could tell that it is not the node's own: the cluster is not even asked
            assert!(
                answer
                    .content
                    .to_string()
                    .contains("is not known to belong to node edge-1"),
                "{answer:?}"
            );
            assert_eq!(
                world
                    .object_of_cluster("certificates.k8s.io/v1", "CertificateSigningRequest", name)
                    .find()
                    .await,
                None
            );
            continue;
        }
        let decided = |request: &Value| request["status"]["conditions"][0]["type"].is_string();
        let request =
            world.object_of_cluster("certificates.k8s.io/v1", "CertificateSigningRequest", name);
        let request = request.until("decided", decided).await;
        assert_eq!(
            request["status"]["conditions"][0]["type"], expected,
            "{name}: {}",
            request["status"]
        );
        assert_eq!(request["spec"]["username"], asker(&world));
        if !world.is_backed() {
            assert_eq!(
                request["spec"]["groups"],
                json!(["system:nodes", "system:authenticated"])
            );
        }
    }
    // of another node it is not even asked for
    let made = Upstream::put(
        Change::Insert,
        "default",
        &kind,
        "other",
        object("other", "edge-2", "127.0.0.1"),
    );
    let answer = session.ask(made).await;
    assert!(
        answer.content.to_string().contains("is not node edge-1's"),
        "{answer:?}"
    );
    // as the kubelet names them
    let mut nameless = object("", "edge-1", "127.0.0.1");
    nameless["metadata"] = json!({"generateName": "csr-"});
    let answer = session
        .ask(Upstream::put(
            Change::Insert,
            "default",
            &kind,
            "",
            nameless,
        ))
        .await;
    let Downstream::Answer {
        answer: Answer::Response(made),
        ..
    } = Down::from(answer).body
    else {
        panic!()
    };
    let made = made.into_result().unwrap();
    assert!(
        made["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("csr-")),
        "{made}"
    );

    // nor does it read what another one has asked for
    let mut other = Caller::node(&world, "edge-2")
        .await
        .session(&world, "edge-2")
        .await;
    for (session, found) in [(&mut session, true), (&mut other, false)] {
        let answer = session.ask(Upstream::query("default", &kind, "own")).await;
        let Downstream::Answer { answer, .. } = Down::from(answer).body else {
            panic!()
        };
        assert_eq!(matches!(answer, Answer::Found(_)), found, "{answer:?}");
    }
}
