//! The stream tunnel: logs through the cloud.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use peer::{Failure, ensure, fail, identity::Identity, tunnel::Tunnel};
use serde_json::json;
use wire::{
    Upstream,
    tunnel::{Connect, Frame, Kind, PING},
    websocket::Message,
};

use super::{
    delivery::deliver,
    target::{DELIVERY_DEADLINE, PlayedNode, Target},
};

/// Opens the tunnel of a node, and waits until the cloud serves it: until it answers a ping.
async fn dial(target: &Target, name: &str, identity: &Identity) -> Result<Tunnel, Failure> {
    let mut tunnel = target.dialer.tunnel(name, Some(identity)).await?;
    tunnel
        .write(Message::Ping(Bytes::from_static(PING)))
        .await?;
    let pong = tunnel.expect(
        "the answer to a ping",
        DELIVERY_DEADLINE,
        |message| match message {
            Message::Pong(payload) => Some(payload.clone()),
            _ => None,
        },
    );
    ensure!(
        pong.await? == PING,
        "the answer to a ping has another payload"
    );
    Ok(tunnel)
}

pub(super) async fn open(target: Arc<Target>) -> Result<(), Failure> {
    let PlayedNode {
        name,
        identity,
        session,
    } = target.node("tunnel").await?;
    dial(&target, &name, &identity).await?;
    drop(session);
    Ok(())
}

pub(super) async fn certificate_required(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("no-tunnel");
    // a closed port refuses nobody
    let identity = target.enrol(&name).await?;
    target.dialer.tunnel(&name, Some(&identity)).await?;
    match target.dialer.tunnel(&name, None).await {
        Err(skipped @ Failure::Skipped(_)) => Err(skipped),
        Err(Failure::Failed(_)) => Ok(()),
        Ok(mut tunnel) => {
            // with TLS 1.3 the refusal comes after the handshake
            match tunnel.write(Message::Ping(Bytes::from_static(PING))).await {
                Ok(()) => fail!("a client without a certificate has a tunnel"),
                Err(_) => Ok(()),
            }
        }
    }
}

pub(super) async fn logs(target: Arc<Target>) -> Result<(), Failure> {
    const TEXT: &str = "conformance: a line\n";
    let mut node = target.node("logs").await?;
    let mut tunnel = dial(&target, &node.name, &node.identity).await?;
    // an API server looks where the node is, or where the cloud says that it is
    let patch = json!({"status": {"addresses":
        [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": node.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10350}}}});
    let request = Upstream::node_patch(&node.name, patch.to_string());
    node.session.ask(request).await?;
    deliver(&target, &mut node, "logs").await?;
    let pods: Api<Pod> = target.api();
    let parameters = LogParams {
        container: Some("main".to_owned()),
        ..LogParams::default()
    };
    let answered = async {
        let open = tunnel
            .expect_frame("the request for logs", DELIVERY_DEADLINE, |frame| {
                matches!(frame.kind, Kind::Logs | Kind::Exec)
            })
            .await?;
        let request = Connect::decode(&open.data)?;
        let path = format!("/containerLogs/{}/logs/main", target.namespace);
        ensure!(
            request.url.path == path,
            "the request is for {} instead of {path}",
            request.url.path
        );
        // a cloud may ask in the way of exec, to see the status of the answer
        let head = match open.kind {
            Kind::Exec => {
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
            }
            _ => "",
        };
        let data = format!("{head}{TEXT}").into_bytes();
        tunnel.send(&Frame::new(open.id, Kind::Data, data)).await?;
        tunnel
            .send(&Frame::new(open.id, Kind::RemoveConnect, Bytes::new()))
            .await?;
        // the tunnel stays open until the cloud has passed the bytes on
        tunnel
            .expect_frame("the end of the stream", Duration::from_secs(5), |frame| {
                frame.kind == Kind::RemoveConnect
            })
            .await
            .ok();
        Ok(tunnel)
    };
    let read = async { Ok(pods.logs("logs", &parameters).await?) };
    let (read, _tunnel) = futures::try_join!(read, answered)?;
    ensure!(read == TEXT, "the log is {read:?} instead of {TEXT:?}");
    Ok(())
}
