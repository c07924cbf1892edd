//! Tests of the two servers with real sockets: what they refuse.

use std::path::{Path, PathBuf};

use componentbase::PodsComplete;
use hyper_util::rt::TokioIo;
use kube::runtime::reflector;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tower::service_fn;
use wire::{
    device_plugin::{RegisterRequest, registration_client::RegistrationClient},
    pod_resources::{
        GetPodResourcesRequest, ListPodResourcesRequest,
        pod_resources_lister_client::PodResourcesListerClient,
    },
};

use super::super::{Deps, DeviceManager, run};
use crate::{background::Background, runtime::Runtime};

fn manager(root: &Path) -> DeviceManager {
    let nobody = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    DeviceManager::new(Deps {
        root: Some(root.to_owned()),
        runtime: Runtime::new(nobody, None),
        pods: reflector::store().0,
        pods_complete: PodsComplete::new(objectstore::Damaged::default()).1,
        background: Background::new(CancellationToken::new()),
    })
}

async fn channel(socket: PathBuf) -> Channel {
    testkit::eventually("a server", async || UnixStream::connect(&socket).await).await;
    let connector = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

#[tokio::test]
async fn invalid_registrations_are_refused_and_change_nothing() {
    let root = tempfile::tempdir().unwrap();
    let manager = manager(root.path());
    let server = tokio::spawn(run(manager.clone()));
    let socket = root.path().join("device-plugins/kubelet.sock");
    let mut client = RegistrationClient::new(channel(socket).await);
    let valid = RegisterRequest {
        version: "v1beta1".into(),
        endpoint: "plugin.sock".into(),
        resource_name: "example.com/sensor".into(),
        options: None,
    };
    let request = |change: fn(&mut RegisterRequest)| {
        let mut request = valid.clone();
        change(&mut request);
        request
    };
    for (request, code, text) in [
        (
            request(|one| one.version = "v1alpha".into()),
            Code::InvalidArgument,
            r#"requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]"#,
        ),
        (
            request(|one| one.resource_name = "cpu".into()),
            Code::InvalidArgument,
            r#"the ResourceName "cpu" is invalid"#,
        ),
        (
            request(|one| one.resource_name = "x.kubernetes.io/y".into()),
            Code::InvalidArgument,
            r#"the ResourceName "x.kubernetes.io/y" is invalid"#,
        ),
        (
            request(|one| one.endpoint = "../../etc/other.sock".into()),
            Code::InvalidArgument,
            "is not the name of a socket in the directory",
        ),
        (
            request(|one| one.endpoint = "/run/other.sock".into()),
            Code::InvalidArgument,
            "is not the name of a socket in the directory",
        ),
        (
            valid.clone(),
            Code::Unavailable,
            "failed to dial device plugin",
        ),
        (
            request(|one| one.endpoint = "x".repeat(100_000)),
            Code::OutOfRange,
            "too large",
        ),
    ] {
        let status = client.register(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status}");
    }
    assert!(manager.counts().capacity.is_empty());
    server.abort();
}

#[tokio::test]
async fn pod_resources_have_a_quota() {
    let root = tempfile::tempdir().unwrap();
    let server = tokio::spawn(run(manager(root.path())));
    let socket = root.path().join("pod-resources/kubelet.sock");
    let mut client = PodResourcesListerClient::new(channel(socket).await);
    let unknown = GetPodResourcesRequest {
        pod_name: "a".into(),
        pod_namespace: "b".into(),
    };
    let status = client.get(unknown).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "pod a in namespace b not found")
    );
    let calls = (0..200).map(|_| {
        let mut client = client.clone();
        async move { client.list(ListPodResourcesRequest {}).await }
    });
    let answers = futures::future::join_all(calls).await;
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    // the burst, and what the time of the calls has added
    assert!(refused.len() > 50, "{}", refused.len());
    for status in refused {
        assert_eq!(
            (status.code(), status.message()),
            (Code::ResourceExhausted, "rejected by rate limit")
        );
    }
    server.abort();
}
