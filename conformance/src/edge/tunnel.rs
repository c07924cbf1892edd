//! The stream tunnel of an edge.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use peer::{Failure, ensure, tunnel::Tunnel};
use tokio::sync::oneshot;
use wire::tunnel::{Connect, Frame, Kind, NODE_HEADER};

use super::{
    pods::start,
    state::{Cloud, OpenTunnel},
};

/// How long an edge may take to open its tunnel, and to answer in it.
const TUNNEL_DEADLINE: Duration = Duration::from_secs(30);

/// Waits for an open tunnel, and returns a part of it.
async fn wait_tunnel<T>(cloud: &Cloud, part: impl Fn(&OpenTunnel) -> T) -> Result<T, Failure> {
    if !cloud.has_tunnel {
        return Err(Failure::Skipped(
            "the kit serves no stream tunnel (--tunnel-port off)".to_owned(),
        ));
    }
    let opened = cloud.until("a tunnel", TUNNEL_DEADLINE, |state| {
        let open = state.tunnel.as_ref();
        open.filter(|tunnel| !tunnel.requests.is_closed())
            .map(&part)
    });
    match opened.await {
        Ok(part) => Ok(part),
        Err(_) => Err(Failure::Skipped(
            "the edge has opened no stream tunnel (modules.edgeStream.enable)".to_owned(),
        )),
    }
}

/// Takes the open tunnel.
async fn take(cloud: &Cloud) -> Result<Tunnel, Failure> {
    loop {
        let requests = wait_tunnel(cloud, |tunnel| tunnel.requests.clone()).await?;
        let (give, given) = oneshot::channel();
        requests.send(give).await.ok();
        // it may end just now, and the edge opens the next one
        if let Ok(tunnel) = given.await {
            return Ok(tunnel);
        }
    }
}

pub(super) async fn open(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let name = wait_tunnel(&cloud, |tunnel| {
        tunnel
            .headers
            .get(&NODE_HEADER.to_ascii_lowercase())
            .cloned()
    });
    let (name, node) = (name.await?, cloud.node()?);
    ensure!(
        name.as_deref() == Some(node.as_str()),
        "the tunnel of {node} has the header {NODE_HEADER}: {}",
        name.unwrap_or_default()
    );
    Ok(())
}

pub(super) async fn logs(cloud: Arc<Cloud>) -> Result<(), Failure> {
    start(&cloud, "logs").await?;
    let mut tunnel = take(&cloud).await?;
    let connect = Connect::new(7, "/containerLogs/default/logs/main", "tailLines=10");
    tunnel.send(&connect.frame(Kind::Logs)?).await?;
    let mut text = Vec::new();
    loop {
        let frame = tunnel
            .expect_frame("the log and its end", TUNNEL_DEADLINE, |frame| {
                frame.id == 7
            })
            .await?;
        match frame.kind {
            Kind::Data if text.len() < 64 * 1024 => text.extend_from_slice(&frame.data),
            Kind::RemoveConnect => break,
            _ => {}
        }
    }
    tunnel
        .send(&Frame::new(7, Kind::RemoveConnect, Bytes::new()))
        .await?;
    let text = String::from_utf8_lossy(&text);
    ensure!(text.contains("conformance"), "the log is {text:?}");
    Ok(())
}
