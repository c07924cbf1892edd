//! Tests `edge-agent join` and `edge-agent reset` against a cloud and a runtime in this process.

use std::{collections::BTreeMap, fs, net::IpAddr, path::Path, process::ExitCode};

use agent::cli::Cli;
use clap::Parser;
use cloudsim::{Addresses, Cloud};
use futures::future::select_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use objectstore::{Expect, Key, Resource, SqliteStore, Store, Write};
use serde_json::json;
use testkit::{eventually, within};
use tokio_util::sync::CancellationToken;
use wire::cri::{
    ListPodSandboxRequest, PodSandboxConfig, PodSandboxMetadata, RunPodSandboxRequest,
    runtime_service_client::RuntimeServiceClient,
};

use super::*;
use crate::{
    reach::{OwnNames, Reach},
    runtime::SimRuntime,
};

mod probes;

/// Programs in one process would wait for each other's stdin and stdout.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Runs `edge-agent` with these arguments and returns whether it succeeded.
async fn agent(arguments: &str) -> bool {
    let _turn = ONE_AT_A_TIME.lock().await;
    let cli = Cli::try_parse_from(format!("edge-agent {arguments}").split_whitespace()).unwrap();
    let code = clock::spawn_blocking(move || agent::main(&cli))
        .await
        .unwrap();
    code == ExitCode::SUCCESS
}

/// Starts a runtime on a socket in `directory`.
fn runtime(directory: &Path) -> (SimRuntime, String, CancellationToken) {
    let runtime = SimRuntime::new(crate::runtime::Options::default()).unwrap();
    let (socket, shutdown) = (directory.join("runtime.sock"), CancellationToken::new());
    tokio::spawn(runtime.serve_unix(&socket, shutdown.clone()).unwrap());
    (runtime, format!("unix://{}", socket.display()), shutdown)
}

async fn run_sandbox(runtime: &SimRuntime, uid: &str) {
    let labels = [
        ("io.kubernetes.pod.uid", uid),
        ("io.kubernetes.pod.name", uid),
        ("io.kubernetes.pod.namespace", "default"),
    ];
    let labels: BTreeMap<String, String> = labels
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let metadata = PodSandboxMetadata {
        name: uid.to_owned(),
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        attempt: 0,
    };
    let config = PodSandboxConfig {
        metadata: Some(metadata),
        labels,
        ..PodSandboxConfig::default()
    };
    let request = RunPodSandboxRequest {
        config: Some(config),
        ..RunPodSandboxRequest::default()
    };
    RuntimeServiceClient::new(runtime.channel())
        .run_pod_sandbox(request)
        .await
        .unwrap();
}

async fn sandboxes(runtime: &SimRuntime) -> Vec<String> {
    let listed = RuntimeServiceClient::new(runtime.channel())
        .list_pod_sandbox(ListPodSandboxRequest::default())
        .await
        .unwrap();
    let items = listed.into_inner().items.into_iter();
    let mut all: Vec<String> = items
        .filter_map(|sandbox| Some(sandbox.metadata?.uid))
        .collect();
    all.sort();
    all
}

/// A reset of a second agent on one runtime removes what is its own, and nothing of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_below_a_folder_ends_the_pods_of_its_own_database_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (runtime, _, _shutdown) = runtime(directory.path());
    for uid in ["another", "on-disk", "stored"] {
        run_sandbox(&runtime, uid).await;
    }
    let addresses = Addresses::nowhere();
    let options = Options::new(1, directory.path());
    let file = directory.path().join("edgecore.yaml");
    fs::write(
        &file,
        edgecore_yaml("edge-1", directory.path(), addresses, "", &options),
    )
    .unwrap();
    fs::create_dir_all(directory.path().join("kubelet/pods/on-disk")).unwrap();
    let store = SqliteStore::open(&directory.path().join("outrigger.db"))
        .await
        .unwrap();
    let key = Key::new(Resource::new("", "pods"), "default", "stored");
    let value =
        Some(json!({"metadata": {"name": "stored", "namespace": "default", "uid": "stored"}}));
    store
        .commit(vec![Write {
            key,
            expect: Expect::Anything,
            value,
        }])
        .await
        .unwrap();
    drop(store);
    assert!(agent(&format!("reset --force --config {}", file.display())).await);
    assert_eq!(sandboxes(&runtime).await, ["another"]);
    assert!(!file.exists());
}

/// Tests two mistakes: the port of another server of the cloud, and a name that is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_tells_the_cloud_hub_from_other_servers_and_a_name_that_is_taken_from_a_free_one() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let (_runtime, endpoint, _shutdown) = runtime(directory.path());
    let cloud = Cloud::start(cloudsim::Options::default().any_ports())
        .await
        .unwrap();
    let (addresses, token) = (cloud.addresses(), cloud.token().to_owned());
    let mqtt = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let join = async |port: u16, name: &str, place: &str, more: &str| {
        let root = directory.path().join(place);
        let joined = agent(&format!(
            "join --cloud 127.0.0.1:{port} --cert-port {} --token {token} --name {name} --root {} --no-start \
             --runtime-endpoint {endpoint} --read-only-port 0 --mqtt-port {mqtt} {more}",
            addresses.https.port(),
            root.display()
        ))
        .await;
        assert_eq!(
            root.join("etc/kubeedge/certs/server.crt").exists(),
            joined,
            "{name} at {port} {more}"
        );
        joined
    };
    let hub = addresses.websocket.port();
    for other in [addresses.api.unwrap().port(), addresses.https.port()] {
        assert!(
            !join(other, "trial", "trial", "").await,
            "{other} is not CloudHub's"
        );
    }
    assert!(join(hub, "trial", "trial", "").await);
    // This node is connected.
    let options = Options::new(1, directory.path().join("fleet"));
    let fleet = Fleet::start(addresses, &token, &options).await.unwrap();
    until_connected(&fleet).await;
    assert!(!join(hub, "edge-1", "second", "").await);
    assert!(
        !join(hub, "edge-1", "second", "--rejoin").await,
        "its name is not given by a token"
    );
    assert!(cloud.reset_node("edge-1").await.unwrap());
    assert!(join(hub, "edge-1", "second", "--rejoin").await);
    fleet.stop().await;
    cloud.stop().await.unwrap();
}

/// Runs the equivalent of `cloudsim up --nodes 2` with `--address` and `--name`.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_become_ready_whatever_the_cloud_listens_at_and_is_called() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (address, given) in [
        ("127.0.0.1", &["cloud.test"][..]),
        ("0.0.0.0", &[]),
        ("0.0.0.0", &["cloud.test"]),
        ("::", &[]),
        ("::", &["cloud.test"]),
        ("::1", &["cloud.test"]),
    ] {
        let address: IpAddr = address.parse().unwrap();
        if std::net::TcpListener::bind((address, 0)).is_err() {
            continue;
        }
        let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
        let names = Reach::of(address, &given, &OwnNames::of_machine()).names;
        let options = cloudsim::Options {
            address,
            names,
            ..cloudsim::Options::default().any_ports()
        };
        let cloud = Cloud::start(options).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new(2, directory.path());
        let mut fleet = Fleet::start(cloud.addresses(), cloud.token(), &options)
            .await
            .unwrap();
        within("the nodes", fleet.ready(cloud.client()))
            .await
            .unwrap();
        assert_eq!(cloud.sessions().len(), 2, "{address} {given:?}");
        fleet.stop().await;
        cloud.stop().await.unwrap();
    }
}

/// `cloudsim up --nodes 2`, or `cloudsim hollow`, runs on, while one Node is deleted and the other one reset.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_and_reset_nodes_return_without_a_restart_of_the_process() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for is_cloud_elsewhere in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let cloud = Cloud::start(cloudsim::Options::default().any_ports())
            .await
            .unwrap();
        let options = Options::new(2, directory.path());
        let mut fleet = Fleet::start(cloud.addresses(), cloud.token(), &options)
            .await
            .unwrap();
        within("the nodes", fleet.ready(cloud.client()))
            .await
            .unwrap();
        let nodes = kube::Api::<Node>::all(cloud.client());
        let before = nodes.get("edge-1").await.unwrap().metadata.uid;
        nodes
            .delete("edge-1", &DeleteParams::default())
            .await
            .unwrap();
        assert!(cloud.reset_node("edge-2").await.unwrap());
        let returned = eventually("both nodes", async || {
            let created = nodes
                .get_opt("edge-1")
                .await
                .unwrap()
                .and_then(|node| node.metadata.uid);
            let sessions = cloud.sessions().len();
            let has_returned = created.is_some() && created != before && sessions == 2;
            has_returned.then_some(()).ok_or((created, sessions))
        });
        let rejoin = async {
            if !is_cloud_elsewhere {
                fleet.rejoin_revoked(&cloud).await;
            }
            let token = async || Some(cloud.token().to_owned());
            let ended = fleet
                .nodes_mut()
                .iter_mut()
                .map(|node| Box::pin(node.run_and_rejoin(token)));
            select_all(ended).await.0
        };
        clock::select! {
            ended = rejoin => panic!("{ended:?}"),
            () = returned => {}
        }
        within("the nodes", fleet.ready(cloud.client()))
            .await
            .unwrap();
        fleet.stop().await;
        cloud.stop().await.unwrap();
    }
}

/// Until a node first connects, its name is free for a token. It must not enrol again meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn node_that_has_not_connected_yet_keeps_its_certificate_until_it_is_revoked() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let cloud = Cloud::start(cloudsim::Options::default().any_ports())
        .await
        .unwrap();
    let unreachable_hub = Endpoints {
        websocket: "127.0.0.1:9".to_owned(),
        ..cloud.addresses().into()
    };
    let options = Options::new(1, directory.path());
    let fleet = Fleet::start(unreachable_hub, cloud.token(), &options)
        .await
        .unwrap();
    let node = &fleet.nodes()[0];
    eventually("a certificate", async || {
        identity::exists(node.directory()).then_some(()).ok_or(())
    })
    .await;
    let must_rejoin = async || agent::app::must_rejoin(node.config()).await.unwrap();
    assert!(!must_rejoin().await);
    assert!(cloud.reset_node("edge-1").await.unwrap());
    assert!(must_rejoin().await);
    fleet.stop().await;
    cloud.stop().await.unwrap();
}

/// A node that gives up is named with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn node_that_stops_before_it_is_ready_is_reported_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let cloud = Cloud::start(cloudsim::Options::default().any_ports())
        .await
        .unwrap();
    let options = Options::new(2, directory.path());
    let mut fleet = Fleet::start(Addresses::nowhere(), "", &options)
        .await
        .unwrap();
    fleet.nodes()[1]
        .runtime
        .tasks()
        .fail("the clock of a simulated runtime", "on purpose".into());
    let error = within("the reason", fleet.ready(cloud.client()))
        .await
        .unwrap_err();
    let NotReady::Stopped {
        node,
        source: Some(source),
    } = error
    else {
        panic!("{error:?}")
    };
    assert!(
        ["edge-1", "edge-2"].contains(&node.as_str()),
        "{node}: {source:?}"
    );
    fleet.stop().await;
    cloud.stop().await.unwrap();
}

async fn until_connected(fleet: &Fleet) {
    let mut link = fleet.nodes()[0].link().unwrap();
    let up = link.wait_for(|link| *link != componentbase::Link::Down);
    within("a connection to the cloud", up).await.unwrap();
}

/// Runs the equivalent of `cloudsim up --nodes 1 --data-dir DIR`, deletes its node, and runs the same again.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_certificate_was_taken_back_enrols_anew_at_the_next_start() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(1, directory.path().join("nodes"));
    let start = async || {
        let data_dir = Some(directory.path().to_owned());
        let cloud = Cloud::start(cloudsim::Options {
            data_dir,
            ..cloudsim::Options::default().any_ports()
        })
        .await;
        let cloud = cloud.unwrap();
        forget_useless(&cloud, &options).await.unwrap();
        let fleet = Fleet::start(cloud.addresses(), cloud.token(), &options)
            .await
            .unwrap();
        (cloud, fleet)
    };
    let certificate = || fs::read(directory.path().join("nodes/edge-1/node.crt")).unwrap();
    let mut shown = Vec::new();
    for taken_back in [false, true] {
        let (cloud, fleet) = start().await;
        until_connected(&fleet).await;
        assert!(
            shown.is_empty() || shown == certificate(),
            "one that counts stays"
        );
        shown = certificate();
        if taken_back {
            assert!(cloud.reset_node("edge-1").await.unwrap());
        }
        fleet.stop().await;
        cloud.stop().await.unwrap();
    }
    let (cloud, fleet) = start().await;
    until_connected(&fleet).await;
    assert!(shown != certificate());
    fleet.stop().await;
    cloud.stop().await.unwrap();
}
