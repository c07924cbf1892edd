//! Sessions with CloudHub.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use peer::{
    Failure,
    edge::session_headers,
    ensure, fail,
    identity::Identity,
    now_ms,
    session::{Automatic, Session},
    transport::Outgoing,
};
use tokio::time::sleep;
use wire::{
    Upstream,
    enroll::{Ca, Csr, Usage},
};

use super::{
    nodes::lease_query,
    target::{DELIVERY_DEADLINE, Target, pod_object},
};

/// KubeEdge's keepalive interval, with a margin.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(40);
/// A silent session may live so long: three intervals.
const SILENCE_DEADLINE: Duration = Duration::from_secs(120);

/// Checks that a session is refused, at the latest with its first answer. Before, a node with its certificate must get one: a closed port
/// refuses nobody.
async fn expect_refusal(
    target: &Target,
    session: Result<Session, Failure>,
    who: &str,
    name: &str,
) -> Result<(), Failure> {
    let case = name.rsplit('-').next().unwrap_or_default();
    let witness = target.node_name(&format!("witness-{case}"));
    let identity = target.enrol(&witness).await?;
    let mut accepted = target.connect(&witness, &identity, Automatic::EDGE).await?;
    accepted.ask(lease_query(&witness)).await?;
    let Ok(mut session) = session else {
        return Ok(());
    };
    match session.ask(lease_query(name)).await {
        Ok(_) => fail!("{who} got a session"),
        Err(_) => Ok(()),
    }
}

pub(super) async fn certificate_required(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("nobody");
    let session = target
        .dialer
        .session(None, &session_headers(&name), Automatic::EDGE)
        .await;
    expect_refusal(&target, session, "a client without a certificate", &name).await
}

pub(super) async fn foreign_certificate(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("foreign");
    let (ca, csr) = (Ca::generate(SystemTime::now())?, Csr::for_node(&name)?);
    let certificate = ca.sign_edge(
        csr.der(),
        &[Usage::ClientAuth],
        Duration::from_secs(86400),
        SystemTime::now(),
    )?;
    let identity = Identity {
        certificate,
        key: csr.key_sec1_der(),
    };
    let session = target.connect(&name, &identity, Automatic::EDGE).await;
    expect_refusal(&target, session, "a certificate of another CA", &name).await
}

pub(super) async fn other_name(target: Arc<Target>) -> Result<(), Failure> {
    let victim = target.node("victim").await?;
    let thief = target.enrol(&target.node_name("thief")).await?;
    let session = target.connect(&victim.name, &thief, Automatic::EDGE).await;
    expect_refusal(
        &target,
        session,
        "a node with the name of another one",
        &victim.name,
    )
    .await
}

pub(super) async fn keepalive(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("keepalive").await?;
    sleep(KEEPALIVE_INTERVAL).await;
    node.session.ask(lease_query(&node.name)).await?;
    Ok(())
}

pub(super) async fn silence(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("silence");
    let identity = target.enrol(&name).await?;
    let automatic = Automatic {
        keepalive: false,
        acknowledge: true,
    };
    let mut session = target.connect(&name, &identity, automatic).await?;
    session.wait_ended(SILENCE_DEADLINE).await
}

pub(super) async fn replacement(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("replaced").await?;
    let mut second = target
        .connect(&node.name, &node.identity, Automatic::EDGE)
        .await?;
    node.session.wait_ended(KEEPALIVE_INTERVAL).await?;
    // KubeEdge may tear down the new session with the old one, and edges connect again
    if second.ask(lease_query(&node.name)).await.is_err() {
        second = target
            .connect(&node.name, &node.identity, Automatic::EDGE)
            .await?;
    }
    target
        .create::<k8s_openapi::api::core::v1::Pod>(pod_object("replaced", &node.name))
        .await?;
    second
        .expect("the pod, in the second session", DELIVERY_DEADLINE, |one| {
            one.route.resource.as_str().ends_with("/pod/replaced")
        })
        .await?;
    Ok(())
}

pub(super) async fn fragments(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("fragments").await?;
    let of_two = "the answer to a message in two parts";
    let of_binary = "the answer to a message in a binary frame";
    for (what, is_binary) in [(of_two, false), (of_binary, true)] {
        let message = Box::new(lease_query(&node.name).into_message(now_ms()));
        let id = message.header.msg_id.clone();
        let outgoing = match is_binary {
            true => Outgoing::Binary(message),
            false => Outgoing::Parts(message),
        };
        node.session.put(outgoing).await;
        node.session.expect_answer(what, &id).await?;
    }
    Ok(())
}

pub(super) async fn shutdown_message(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("empty").await?;
    let mut message = Upstream::Shutdown.into_message(0);
    message.header.msg_id.clear();
    node.session.send(&message).await;
    let answer = node.session.ask(lease_query(&node.name)).await?;
    ensure!(!answer.content.is_null(), "the answer has no content");
    Ok(())
}
