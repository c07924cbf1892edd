//! Rules: messages between REST at the cloud, and MQTT and HTTP at the node.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use peer::{Failure, ensure, fail, https, now_ms, session::Session, transport::Transport};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{
    Message, Operation, Source, Upstream,
    bus::{LocalCall, ServiceRequest, ServiceResponse},
};

use super::target::{DELIVERY_DEADLINE, Target};

/// How long a rule may take to come into force: `CloudCore` tries again after 5 s and 10 s.
const RULE_DEADLINE: Duration = Duration::from_secs(40);
/// How long a message may take. It is longer, so that a router that refuses a call is the reason that is reported.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(50);
/// The largest request to the kit's server, bytes.
const MAX_REQUEST: usize = 1024 * 1024;
/// The port of the service at the node, which the kit plays.
const SERVICE_PORT: &str = "6666";

/// Creates a rule between two new endpoints. The types of the endpoints are KubeEdge's words.
async fn create(
    target: &Target,
    name: &str,
    (from, source): (&str, Value),
    (to, destination): (&str, Value),
) -> Result<(), Failure> {
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "rules.kubeedge.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let endpoint = |name: &str, kind: &str| {
        let properties = match kind {
            "servicebus" => json!({"service_port": SERVICE_PORT}),
            _ => json!({}),
        };
        let spec = json!({"ruleEndpointType": kind, "properties": properties});
        object("RuleEndpoint", name, spec)
    };
    let (first, second) = (format!("{name}-source"), format!("{name}-target"));
    let rule = json!({"source": first, "sourceResource": source, "target": second, "targetResource": destination});
    for (kind, plural, object) in [
        ("RuleEndpoint", "ruleendpoints", endpoint(&first, from)),
        ("RuleEndpoint", "ruleendpoints", endpoint(&second, to)),
        ("Rule", "rules", object("Rule", name, rule)),
    ] {
        let resource = ApiResource {
            group: "rules.kubeedge.io".into(),
            version: "v1".into(),
            api_version: "rules.kubeedge.io/v1".into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(target.client.clone(), &target.namespace, &resource);
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

/// Calls the router for a path of a node, until the rule is in force.
async fn call(
    target: &Target,
    node: &str,
    path: &str,
    body: &str,
) -> Result<Response<Bytes>, Failure> {
    let address = router(target)?;
    let path = format!("/{node}/{}/{path}", target.namespace);
    let deadline = Instant::now() + RULE_DEADLINE;
    loop {
        let request = Request::post(&path);
        let called = async {
            let stream = TcpStream::connect(&address).await?;
            https::exchange(&address, stream, request, body.as_bytes().to_vec()).await
        };
        let why = match called.await {
            Ok(answer) if answer.status() != StatusCode::NOT_FOUND => return Ok(answer),
            Ok(answer) => format!("{} {:?}", answer.status(), answer.body()),
            Err(failure) => failure.reason().to_owned(),
        };
        ensure!(
            Instant::now() < deadline,
            "the router did not accept {path} within {RULE_DEADLINE:?}: {why}"
        );
        sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the address of the router, `host:port`.
fn router(target: &Target) -> Result<String, Failure> {
    match &target.router {
        Some(router) => Ok(router.clone()),
        None => Err(Failure::Skipped(
            "no port of the router was given (--router-port)".to_owned(),
        )),
    }
}

async fn expect(
    session: &mut Session,
    what: &str,
    wanted: impl Fn(&Message) -> bool,
) -> Result<Message, Failure> {
    session.expect(what, MESSAGE_DEADLINE, wanted).await
}

pub(super) async fn rest_to_bus(target: Arc<Target>) -> Result<(), Failure> {
    router(&target)?;
    let mut node = target.node("rest-bus").await?;
    let (source, topic) = (json!({"path": "/led"}), json!({"topic": "led/set"}));
    create(&target, "led", ("rest", source), ("eventbus", topic)).await?;
    let called = call(&target, &node.name, "led", "on");
    let session = &mut node.session;
    let published = async {
        let message = expect(session, "the publication", |one| {
            one.route.resource.as_str() == "led/set"
        })
        .await?;
        // EdgeCore does not answer, and edge-agent, the only one that speaks this QUIC, does
        if target.dialer.transport() == Transport::Quic {
            let answer = Upstream::BusAnswer {
                topic: message.route.resource.clone(),
                failed: false,
                content: Value::from("OK"),
            };
            let answer = answer.into_message(now_ms());
            session
                .send(&answer.answering(&message.header.msg_id))
                .await;
        }
        Ok(message)
    };
    let (answer, message) = futures::try_join!(called, published)?;
    ensure!(
        answer.status() == StatusCode::OK,
        "the router answered {} {:?}",
        answer.status(),
        answer.body()
    );
    ensure!(
        message.route.source == Source::RouterEventBus
            && message.route.operation == Operation::Publish
            && message.content == "on",
        "the publication came as {} with {}",
        message.route.summary(),
        message.content
    );
    Ok(())
}

pub(super) async fn rest_to_service(target: Arc<Target>) -> Result<(), Failure> {
    router(&target)?;
    let mut node = target.node("rest-service").await?;
    let path = || json!({"path": "/hello"});
    create(&target, "hello", ("rest", path()), ("servicebus", path())).await?;
    let called = call(&target, &node.name, "hello", "a question");
    let session = &mut node.session;
    let answered = async {
        let message = expect(session, "the call", |one| {
            one.route.source == Source::RouterServiceBus
        })
        .await?;
        let resource = message.route.resource.as_str();
        let request: ServiceRequest = serde_json::from_value(message.content_json()?)?;
        ensure!(
            resource == format!("{SERVICE_PORT}:/hello") && request.body == b"a question",
            "the call is for {resource} with {request:?}"
        );
        let response = ServiceResponse {
            status_code: 200,
            body: b"an answer".to_vec(),
            ..ServiceResponse::default()
        };
        let answer = Upstream::ServiceUpload {
            target: String::new().into(),
            content: json!(response),
        };
        let answer = answer.into_message(now_ms());
        session
            .send(&answer.answering(&message.header.msg_id))
            .await;
        Ok(())
    };
    let (answer, ()) = futures::try_join!(called, answered)?;
    ensure!(
        answer.status() == StatusCode::OK && answer.body() == "an answer",
        "the router answered {} {:?}",
        answer.status(),
        answer.body()
    );
    Ok(())
}

/// A server that a rule calls.
struct TestServer {
    url: String,
    /// The bodies of requests.
    bodies: mpsc::Receiver<Bytes>,
    _stop: DropGuard,
}

impl TestServer {
    /// Starts the server at the address of this machine by which it reaches the cloud. Each request is answered with `done`.
    async fn start(target: &Target) -> Result<Self, Failure> {
        let hub = TcpStream::connect(target.dialer.address(peer::Service::Https)?).await?;
        let listener = TcpListener::bind((hub.local_addr()?.ip(), 0)).await?;
        let url = format!("http://{}/conformance", listener.local_addr()?);
        let (sender, bodies) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serving = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = service_fn(|request: Request<Incoming>| {
                    let sender = sender.clone();
                    async move {
                        let body = Limited::new(request.into_body(), MAX_REQUEST).collect();
                        if let Ok(body) = body.await {
                            sender.try_send(body.to_bytes()).ok();
                        }
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done"))))
                    }
                });
                let connection = http1::Builder::new()
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), answer);
                timeout(DELIVERY_DEADLINE, connection).await.ok();
            }
        };
        tokio::spawn(async move { stopped.run_until_cancelled(serving).await });
        Ok(Self {
            url,
            bodies,
            _stop: stop.drop_guard(),
        })
    }

    /// Waits for a request, and returns its body.
    async fn next(&mut self) -> Result<Bytes, Failure> {
        match timeout(DELIVERY_DEADLINE, self.bodies.recv()).await {
            Ok(Some(body)) => Ok(body),
            _ => fail!(
                "timed out after {DELIVERY_DEADLINE:?} waiting for the call of the rule's URL"
            ),
        }
    }
}

pub(super) async fn bus_to_rest(target: Arc<Target>) -> Result<(), Failure> {
    router(&target)?;
    let mut node = target.node("bus-rest").await?;
    let mut server = TestServer::start(&target).await?;
    let source = json!({"topic": "readings", "node_name": node.name});
    let destination = json!({"resource": server.url});
    create(
        &target,
        "readings",
        ("eventbus", source),
        ("rest", destination),
    )
    .await?;
    let topic = format!("{}/readings", target.namespace);
    expect(&mut node.session, "the subscription", |one| {
        one.route.operation == Operation::Subscribe && one.route.resource.as_str() == topic
    })
    .await?;
    let upload = Upstream::BusUpload {
        topic: topic.into(),
        payload: Value::from("21.5"),
    };
    node.session.send(&upload.into_message(now_ms())).await;
    let body = server.next().await?;
    ensure!(body == "21.5", "the rule's URL was called with {body:?}");
    Ok(())
}

pub(super) async fn service_to_rest(target: Arc<Target>) -> Result<(), Failure> {
    router(&target)?;
    let mut node = target.node("service-rest").await?;
    let mut server = TestServer::start(&target).await?;
    let source = json!({"target_url": server.url, "node_name": node.name});
    let destination = json!({"resource": server.url});
    create(
        &target,
        "orders",
        ("servicebus", source),
        ("rest", destination),
    )
    .await?;
    let url = server.url.clone();
    expect(&mut node.session, "the permission to call the URL", |one| {
        one.route.operation == Operation::Start && one.route.resource.as_str() == url
    })
    .await?;
    let call = LocalCall {
        method: "POST".to_owned(),
        target_url: url.clone(),
        payload: json!({"pizza": 1}),
    };
    let content = call.content();
    let request = Upstream::ServiceUpload {
        target: url.into(),
        content: content.clone(),
    };
    let answer = node.session.ask(request).await?;
    // CloudCore posts the content of the message as it is
    let body = server.next().await?;
    ensure!(
        body == "{\"pizza\":1}" || content.as_str().is_some_and(|content| body == content),
        "the rule's URL was called with {body:?}"
    );
    // EdgeCore gets the body, and edge-agent a response with its status
    let response = serde_json::from_value::<ServiceResponse>(answer.content.clone());
    ensure!(
        answer.content == "done" || response.is_ok_and(|response| response.body == b"done"),
        "the call was answered with {}",
        answer.content
    );
    Ok(())
}
