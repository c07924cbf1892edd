//! Plays the edge of a recording against a cloud in this process.

use std::{
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use agent::config::HostPort;
use clock::spawn_blocking;
use cloudsim::Cloud;
use record::Side;
use replay::{
    EdgeLink, LoadError, Outcome, Plan, PlanError, PlayOptions, Player, Script, Selection, drive,
};
use tokio::time::timeout;
use wire::enroll::Token;

/// How long enrolment and the first session may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(60);
/// How long an expected message is awaited.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("cannot use the recording")]
    Load(#[from] LoadError),
    /// It has no session that can be played.
    #[error("cannot use the recording")]
    Plan(#[from] PlanError),
    /// The cloud does not accept the node.
    #[error("the node of the recording cannot connect: {0}")]
    Connect(String),
}

/// Plays the edge of a recording against a cloud, as fast as the cloud answers.
///
/// # Errors
/// The recording cannot be used, or the cloud does not accept its node.
pub(crate) async fn replay(cloud: &Cloud, file: &Path) -> Result<Outcome, ReplayError> {
    let path = file.to_owned();
    let reading = spawn_blocking(move || -> Result<Plan, ReplayError> {
        let script = Script::open(&path, &Selection::default())?;
        Ok(Plan::new(&script, Side::Edge)?)
    });
    let plan = match reading.await {
        Ok(plan) => plan?,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    let node = plan.node.to_string();
    let connecting = timeout(CONNECT_DEADLINE, connect(cloud, &node));
    let mut link = connecting
        .await
        .unwrap_or_else(|_| Err(format!("no session within {CONNECT_DEADLINE:?}")))
        .map_err(ReplayError::Connect)?;
    let started = clock::system_now().duration_since(UNIX_EPOCH);
    let options = PlayOptions {
        node,
        speed: None,
        patience: PATIENCE,
        started: u64::try_from(started.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX),
    };
    Ok(drive(Player::new(plan, options), &mut link, None, |_| ()).await?)
}

async fn connect(cloud: &Cloud, node: &str) -> Result<EdgeLink, String> {
    let at = cloud.addresses();
    let address = |at: std::net::SocketAddr| HostPort {
        host: at.ip().to_string(),
        port: at.port(),
    };
    let endpoints = peer::edge::Endpoints {
        https: address(at.https),
        hub: address(at.websocket),
        tunnel: None,
    };
    let token = cloud.token_now().map_err(|error| error.to_string())?;
    let token = Token::parse(&token).map_err(|error| error.to_string())?;
    let link = EdgeLink::connect(endpoints, &token, node).await;
    link.map_err(|failure| failure.reason().to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Node;
    use kube::Api;
    use record::{Limits, Recording, Transport};
    use serde_json::json;
    use wire::{Answer, Change, Downstream, ObjectResp, ResourceType, Upstream};

    use super::*;
    use crate::testing::{Error, TestCloud};

    /// Records the registration of node `edge-7` with a cloud that answers with an empty Node.
    pub(crate) fn record_registration(file: &Path) {
        let recording = Recording::start(record::Options {
            path: file.to_owned(),
            limits: Limits::default(),
            program: "test".to_owned(),
            side: Side::Edge,
            redact: true,
        })
        .unwrap();
        let recorder = recording.recorder();
        let session = recorder.connect(Transport::WebSocket, "edge-7", "", BTreeMap::new());
        let node = json!({"metadata": {"name": "edge-7", "labels": {"recorded": "yes"}}});
        let request = Upstream::put(Change::Insert, "", &ResourceType::Node, "edge-7", node);
        let request = request.into_message(1);
        let answer = Downstream::Answer {
            path: request.route.resource.clone(),
            answer: Answer::Response(ObjectResp::ok(json!({}))),
        };
        let answer = answer.into_message(2).answering(&request.header.msg_id);
        session.message(Side::Edge, &request, 0);
        session.message(Side::Cloud, &answer, 0);
        drop(session);
        recording.finish();
    }

    #[tokio::test]
    async fn a_recorded_node_joins_the_cloud_of_a_test() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("session.rec");
        record_registration(&file);
        let cloud = TestCloud::builder().nodes(0).start().await.unwrap();
        let outcome = cloud.replay(&file).await.unwrap();
        assert_eq!((outcome.sent, outcome.ended.clone()), (1, None));
        let first = &outcome.comparison.differences[0];
        assert_eq!((first.kind, first.answers), ("node-response", Some(1)));
        let node = Api::<Node>::all(cloud.client())
            .get("edge-7")
            .await
            .unwrap();
        assert_eq!(node.metadata.labels.unwrap()["recorded"], "yes");
        let missing = cloud.replay(&folder.path().join("none")).await.unwrap_err();
        assert!(matches!(missing, Error::Replay(ReplayError::Load(_))));
        cloud.stop().await.unwrap();
    }
}
