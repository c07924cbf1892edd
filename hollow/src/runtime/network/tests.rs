//! Tests the servers of simulated pods, as a probe's client finds them.

use std::{collections::BTreeMap, io};

use edged::RuntimeNetwork;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::cri::{
    ContainerConfig, ContainerMetadata, CreateContainerRequest, ImageSpec, PodSandboxConfig,
    PodSandboxMetadata, PullImageRequest, RunPodSandboxRequest, StartContainerRequest,
    image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient,
};

use super::*;
use crate::runtime::Options;

struct Pod {
    network: Arc<dyn PodNetwork>,
    runtime: SimRuntime,
    ip: String,
}

/// Runs a pod with one container `a` that declares these ports and has these annotations.
async fn pod(ports: Value, annotations: &[(&str, &str)]) -> Pod {
    let runtime = SimRuntime::new(Options::default()).unwrap();
    let mut client = RuntimeServiceClient::new(runtime.channel());
    let image = ImageSpec {
        image: "one".into(),
        ..ImageSpec::default()
    };
    ImageServiceClient::new(runtime.channel())
        .pull_image(PullImageRequest {
            image: Some(image.clone()),
            ..PullImageRequest::default()
        })
        .await
        .unwrap();
    let annotations: BTreeMap<String, String> = annotations
        .iter()
        .map(|(name, value)| (format!("sim.outrigger.dev/a.{name}"), (*value).to_owned()))
        .collect();
    let metadata = PodSandboxMetadata {
        name: "p".into(),
        uid: "u".into(),
        namespace: "default".into(),
        attempt: 0,
    };
    let sandbox = PodSandboxConfig {
        metadata: Some(metadata),
        annotations,
        ..PodSandboxConfig::default()
    };
    let request = RunPodSandboxRequest {
        config: Some(sandbox.clone()),
        ..RunPodSandboxRequest::default()
    };
    let pod_sandbox_id = client
        .run_pod_sandbox(request)
        .await
        .unwrap()
        .into_inner()
        .pod_sandbox_id;
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: "a".into(),
            attempt: 0,
        }),
        image: Some(image),
        annotations: [(
            "io.kubernetes.container.ports".to_owned(),
            ports.to_string(),
        )]
        .into(),
        ..ContainerConfig::default()
    };
    let request = CreateContainerRequest {
        pod_sandbox_id: pod_sandbox_id.clone(),
        config: Some(config),
        sandbox_config: Some(sandbox),
    };
    let container_id = client
        .create_container(request)
        .await
        .unwrap()
        .into_inner()
        .container_id;
    client
        .start_container(StartContainerRequest { container_id })
        .await
        .unwrap();
    let request = wire::cri::PodSandboxStatusRequest {
        pod_sandbox_id,
        verbose: false,
    };
    let status = client
        .pod_sandbox_status(request)
        .await
        .unwrap()
        .into_inner()
        .status
        .unwrap();
    Pod {
        network: runtime.pod_network(),
        runtime,
        ip: status.network.unwrap().ip,
    }
}

impl Pod {
    async fn get(&self, port: u16, path: &str) -> io::Result<(u16, String)> {
        let stream = self.network.connect(&self.ip, port).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::get(path)
            .header("host", "p")
            .body(Empty::<bytes::Bytes>::new())
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body())
            .await
            .unwrap()
            .to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn is_refused(&self, port: u16) -> bool {
        let connected = self.network.connect(&self.ip, port).await;
        connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

#[tokio::test]
async fn a_container_answers_at_its_ports_while_it_runs() {
    let pod = pod(
        json!([{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]),
        &[],
    )
    .await;
    assert_eq!(
        pod.get(8080, "/healthz?a=b").await.unwrap(),
        (200, "ok".to_owned())
    );
    assert_eq!(
        pod.get(8081, "/").await.unwrap().0,
        200,
        "a port of a probe that is not declared"
    );
    let id = pod.runtime.container_ids_of("u").remove(0);
    assert!(pod.runtime.crash_container(&id, 1));
    assert!(pod.is_refused(8080).await, "a container that has ended");
}

#[tokio::test]
async fn a_pod_that_declares_no_ports_answers_at_all_of_them_unless_it_has_none() {
    let open = pod(json!([]), &[]).await;
    assert_eq!(open.get(80, "/").await.unwrap().0, 200);
    let silent = pod(json!([]), &[("ports", "none")]).await;
    assert!(silent.is_refused(80).await);
    let other = pod(json!([{"containerPort": 80}]), &[("ports", "90, 91")]).await;
    assert!(other.is_refused(80).await);
    assert_eq!(other.get(91, "/").await.unwrap().0, 200);
    let late = pod(json!([]), &[("listen-after", "1h")]).await;
    assert!(late.is_refused(80).await);
}

#[tokio::test]
async fn answers_are_as_annotated() {
    let answers = json!({
        "/healthz": {"status": 503, "body": "down"}, "/later": {"status": 500, "after": "1h"},
    });
    let pod = pod(
        json!([{"containerPort": 80}]),
        &[("http", &answers.to_string())],
    )
    .await;
    assert_eq!(
        pod.get(80, "/healthz").await.unwrap(),
        (503, "down".to_owned())
    );
    assert_eq!(pod.get(80, "/later").await.unwrap().0, 200);
    assert_eq!(pod.get(80, "/other").await.unwrap().0, 200);
}

/// A pod on a runtime at a socket is never confused with a server of this machine that has the pod's address.
#[tokio::test]
async fn an_agent_in_another_process_reaches_the_pods_of_a_runtime_at_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cri.sock");
    let foreign = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let foreign = foreign.local_addr().unwrap();
    let network: Arc<dyn PodNetwork> =
        Arc::new(RuntimeNetwork::of(&format!("unix://{}", socket.display())));
    network
        .connect("127.0.0.1", foreign.port())
        .await
        .expect("a runtime without the socket has real pods");
    let answers = json!({"/healthz": {"status": 503, "body": "down"}});
    let annotations = [("ports", "80"), ("http", &*answers.to_string())];
    let pod = pod(json!([]), &annotations).await;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(pod.runtime.serve_unix(&socket, stop.clone()).unwrap());
    let pod = Pod {
        network: Arc::clone(&network),
        ..pod
    };
    assert_eq!(pod.get(80, "/").await.unwrap(), (200, "ok".to_owned()));
    assert_eq!(
        pod.get(80, "/healthz").await.unwrap(),
        (503, "down".to_owned())
    );
    assert!(pod.is_refused(81).await);
    network
        .connect("127.0.0.1", foreign.port())
        .await
        .expect("an address of no pod is reached");
    let error = network
        .connect("no-such-host.invalid", 80)
        .await
        .err()
        .unwrap();
    assert_ne!(error.kind(), io::ErrorKind::ConnectionRefused);
    stop.cancel();
    serving.await.unwrap().unwrap();
    assert!(!socket.exists() && !edged::pod_socket(&socket).exists());
    assert!(
        network.connect("127.0.0.1", foreign.port()).await.is_err(),
        "the pods are not on this machine"
    );
}

#[tokio::test]
async fn both_sockets_are_removed_however_the_server_ends() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("sim.sock");
    let pods = edged::pod_socket(&socket);
    let runtime = SimRuntime::new(Options::default()).unwrap();
    for end in ["never awaited", "stopped", "aborted", "panicked"] {
        let shutdown = CancellationToken::new();
        let serving = runtime.serve_unix(&socket, shutdown.clone()).unwrap();
        assert!(socket.exists() && pods.exists(), "{end}");
        match end {
            "never awaited" => drop(serving),
            "stopped" => {
                shutdown.cancel();
                serving.await.unwrap();
            }
            "aborted" => {
                let task = tokio::spawn(serving);
                task.abort();
                assert!(task.await.is_err());
            }
            _ => {
                let task =
                    tokio::spawn(async { tokio::join!(serving, async { panic!("a defect") }) });
                assert!(task.await.is_err());
            }
        }
        assert!(!socket.exists() && !pods.exists(), "{end}");
    }
    // the second socket cannot be bound
    std::fs::create_dir(&pods).unwrap();
    assert!(
        runtime
            .serve_unix(&socket, CancellationToken::new())
            .is_err()
    );
    assert!(!socket.exists());
}
