//! Tests of the two servers with real sockets: what they refuse.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use componentbase::PodsComplete;
use futures::{Stream, stream};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector;
use serde_json::json;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Notify,
};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};
use tower::service_fn;
use wire::{
    device_plugin::{
        AllocateRequest, AllocateResponse, ContainerAllocateResponse, DevicePluginOptions, Empty,
        ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
        PreferredAllocationRequest, PreferredAllocationResponse, RegisterRequest,
        device_plugin_server::{DevicePlugin, DevicePluginServer},
        registration_client::RegistrationClient,
    },
    pod_resources::{
        GetPodResourcesRequest, ListPodResourcesRequest,
        pod_resources_lister_client::PodResourcesListerClient,
    },
};

use super::{
    super::{Deps, DeviceManager, plugin::Plugin, run},
    devices,
};
use crate::{background::Background, runtime::Runtime};

fn manager(root: &Path) -> DeviceManager {
    let nobody = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []});
    let api = service_fn(move |_: http::Request<kube::client::Body>| {
        let list = Full::new(Bytes::from(list.to_string()));
        async { Ok::<_, Infallible>(http::Response::new(list)) }
    });
    DeviceManager::new(Deps {
        root: Some(root.to_owned()),
        client: kube::Client::new(api, "default"),
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

/// A plugin that answers `Allocate` once it is allowed to.
struct Slow(Arc<Notify>);

#[tonic::async_trait]
impl DevicePlugin for Slow {
    type ListAndWatchStream =
        Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
    }

    async fn list_and_watch(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn get_preferred_allocation(
        &self,
        _request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented("no preference"))
    }

    async fn allocate(
        &self,
        _request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        self.0.notified().await;
        Ok(Response::new(AllocateResponse {
            container_responses: vec![ContainerAllocateResponse::default()],
        }))
    }

    async fn pre_start_container(
        &self,
        _request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse::default()))
    }
}

/// Adds a plugin with one device, which answers each time that the result is notified.
async fn add(manager: &DeviceManager, root: &Path, resource: &str) -> Arc<Notify> {
    let (socket, answers) = (root.join(resource), Arc::<Notify>::default());
    let listener = UnixListener::bind(&socket).unwrap();
    let server = Server::builder().add_service(DevicePluginServer::new(Slow(answers.clone())));
    tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    let plugin = Plugin::connect(&socket).await.unwrap();
    let resource = format!("example.com/{resource}");
    let (number, _) = manager.connect(&resource, plugin).unwrap();
    manager.update(&resource, number, devices(&["one"])).await;
    answers
}

#[tokio::test]
async fn a_plugin_that_hangs_delays_only_the_pods_that_need_it() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("device-plugins")).unwrap();
    let manager = manager(root.path());
    let hanging = add(&manager, root.path(), "a").await;
    let other = add(&manager, root.path(), "b").await;
    other.notify_one();
    let needs = |uid: &str, resource: &str| -> Pod {
        let container = json!({"name": "main", "resources": {"limits": {resource: "1"}}});
        let pod = json!({"metadata": {"uid": uid}, "spec": {"containers": [container]}});
        serde_json::from_value(pod).unwrap()
    };
    let waiting = {
        let (manager, pod) = (manager.clone(), needs("first", "example.com/a"));
        tokio::spawn(async move { manager.allocate(&pod).await })
    };
    for pod in [needs("second", "example.com/b"), needs("third", "cpu")] {
        testkit::within("other pods", manager.allocate(&pod))
            .await
            .unwrap();
    }
    assert!(!waiting.is_finished());
    hanging.notify_one();
    testkit::within("the pod that waited", waiting)
        .await
        .unwrap()
        .unwrap();
    // nobody else gets the device
    let refused = manager.allocate(&needs("fourth", "example.com/a")).await;
    assert!(refused.is_err());
}
