//! Enrolment, and the beginning of a session.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure, fail, transport::Transport};
use wire::{
    Message, Operation,
    enroll::{node_of_request, sha256_hex},
    session::{EXPIRY, NODE_HEADER, PROJECT_HEADER, USE_HEADER, USE_MESSAGES},
};

use super::state::{Cloud, Enrolment, SessionRequest};

fn last_enrolment(cloud: &Cloud) -> Result<Enrolment, Failure> {
    match cloud.state.lock().enrolments.last() {
        Some(enrolment) => Ok(enrolment.clone()),
        None => Err(Failure::Skipped(
            "the edge did not enrol in this run".to_owned(),
        )),
    }
}

fn last_session(cloud: &Cloud) -> Result<SessionRequest, Failure> {
    match cloud.state.lock().sessions.last() {
        Some(session) => Ok(session.clone()),
        None => fail!("the edge has not connected"),
    }
}

fn is_keepalive(message: &Message) -> bool {
    message.route.operation == Operation::Keepalive
}

pub(super) async fn ca(cloud: Arc<Cloud>) -> Result<(), Failure> {
    last_enrolment(&cloud)?;
    let requests = cloud.state.lock().ca_requests;
    ensure!(requests > 0, "the edge did not fetch /ca.crt");
    Ok(())
}

pub(super) async fn request(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let Enrolment { bearer, node, csr } = last_enrolment(&cloud)?;
    let owner = node_of_request(&csr)?;
    ensure!(
        owner == node,
        "the request is for {owner}, and the header NodeName says {node}"
    );
    let parts = bearer.map(|bearer| bearer.split('.').count());
    ensure!(
        parts == Some(3),
        "the bearer token has not three parts, as a JWT has"
    );
    Ok(())
}

pub(super) async fn headers(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let session = last_session(&cloud)?;
    let of = |name: &str| session.headers.get(name).map_or("", String::as_str);
    let (node, project) = (of(NODE_HEADER), of(PROJECT_HEADER));
    ensure!(!node.is_empty(), "the header Node_id is missing");
    ensure!(!project.is_empty(), "the header Project_id is missing");
    // QUIC has no path, and its streams begin with their use
    if cloud.transport == Transport::Quic {
        return Ok(());
    }
    ensure!(
        of(USE_HEADER) == USE_MESSAGES,
        "the header Connectionuse is {:?} instead of \"msg\"",
        of(USE_HEADER)
    );
    let path = format!("/{project}/{node}/events");
    ensure!(
        session.path == path,
        "the path is {} instead of {path}",
        session.path
    );
    Ok(())
}

pub(super) async fn certificate(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let session = last_session(&cloud)?;
    ensure!(
        cloud.ca.has_signed(&session.certificate),
        "the session shows another certificate ({})",
        sha256_hex(&session.certificate)
    );
    let owner = format!("{:?}", wire::enroll::identity_of(&session.certificate)?);
    let node = cloud.node()?;
    ensure!(
        owner.contains(&node),
        "the certificate of {node} is for {owner}"
    );
    Ok(())
}

pub(super) async fn first_keepalive(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let begin = last_session(&cloud)?.at;
    let first = cloud
        .expect("a keepalive", (0, EXPIRY), is_keepalive)
        .await?;
    let took = first.at.saturating_duration_since(begin);
    ensure!(
        took < Duration::from_secs(5),
        "the first keepalive was sent {took:?} after connecting"
    );
    Ok(())
}

pub(super) async fn keepalive_period(cloud: Arc<Cloud>) -> Result<(), Failure> {
    for _ in 0..2 {
        let mark = cloud.mark();
        cloud
            .expect("a keepalive", (mark, EXPIRY), is_keepalive)
            .await?;
    }
    Ok(())
}
