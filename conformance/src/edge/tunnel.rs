//! The stream tunnel of an edge.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use peer::{Failure, ensure, tunnel::Tunnel};
use wire::tunnel::{Connect, Frame, Kind, NODE_HEADER};

use super::{pods::start, state::Cloud};

/// How long an edge may take to open its tunnel, and to answer in it.
const TUNNEL_DEADLINE: Duration = Duration::from_secs(30);

async fn newest(cloud: &Cloud) -> Result<(BTreeMap<String, String>, Tunnel), Failure> {
    if !cloud.has_tunnel {
        return Err(Failure::Skipped(
            "the kit serves no stream tunnel (--tunnel-port off)".to_owned(),
        ));
    }
    let opened = cloud.until("a tunnel", TUNNEL_DEADLINE, |state| state.tunnel.take());
    match opened.await {
        Ok(tunnel) => Ok(tunnel),
        Err(_) => Err(Failure::Skipped(
            "the edge has opened no stream tunnel (modules.edgeStream.enable)".to_owned(),
        )),
    }
}

pub(super) async fn open(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let (headers, tunnel) = newest(&cloud).await?;
    let name = headers.get(&NODE_HEADER.to_ascii_lowercase()).cloned();
    cloud.change(|state| state.tunnel = Some((headers, tunnel)));
    let node = cloud.node()?;
    ensure!(
        name.as_deref() == Some(node.as_str()),
        "the tunnel of {node} has the header {NODE_HEADER}: {}",
        name.unwrap_or_default()
    );
    Ok(())
}

pub(super) async fn logs(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let (_, mut tunnel) = newest(&cloud).await?;
    start(&cloud, "logs").await?;
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
