//! Tests of [`super`].

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::{body::Frame, server::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};
use tonic::transport::Endpoint;

use super::{
    Deps, ProbeKind, Probes,
    address::{Address, HttpTarget},
    check::check,
    outcome::Outcome,
    target::ProbeTarget,
};
use crate::{
    background::Background,
    events::Recorder,
    observed::{Container, ObservedPod, ObservedState},
    runtime::Runtime,
};

/// A server that answers each connection with this, and tells what it was asked.
async fn server(answer: &'static str) -> (Address, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, questions) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut question = vec![0; 4096];
            let length = stream.read(&mut question).await.unwrap_or(0);
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = asked.try_send(String::from_utf8_lossy(&question[..length]).into_owned());
            if answer.is_empty() {
                std::future::pending::<()>().await;
            }
        }
    });
    (
        Address {
            host: "127.0.0.1".into(),
            port,
        },
        questions,
    )
}

/// An address at which nobody listens.
async fn nobody() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Address {
        host: "127.0.0.1".into(),
        port: listener.local_addr().unwrap().port(),
    }
}

fn page(address: &Address, tls: bool, headers: &[(&str, &str)]) -> ProbeTarget {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    ProbeTarget::HttpGet(HttpTarget {
        address: address.clone(),
        tls,
        path: "/ok?a=b".into(),
        headers,
    })
}

async fn outcome(target: ProbeTarget, timeout: Duration) -> Outcome {
    let runtime = Runtime::new(
        Endpoint::from_static("http://127.0.0.1:1").connect_lazy(),
        None,
    );
    check(&runtime, "c", &target, timeout).await
}

/// Long enough for a machine that is busy.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn failure(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failure(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_is_asked_for_as_the_kubelet_does() {
    let (address, mut questions) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    let headers = [("Host", "shop.example"), ("X-Probe", "1"), ("Accept", "")];
    assert_eq!(
        outcome(page(&address, false, &headers), LONG).await,
        Outcome::Success
    );
    let question = questions.recv().await.unwrap().to_lowercase();
    assert!(
        question.starts_with("get /ok?a=b http/1.1\r\n"),
        "{question}"
    );
    for line in [
        "user-agent: kube-probe/",
        "host: shop.example\r\n",
        "x-probe: 1\r\n",
    ] {
        assert!(question.contains(line), "{line} in {question}");
    }
    assert!(!question.contains("accept"), "{question}");
}

#[tokio::test]
async fn answers_of_pages_count_by_their_status() {
    let (bad, _bad) = server("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").await;
    let text = failure(outcome(page(&bad, false, &[]), LONG).await);
    assert_eq!(text, "HTTP probe failed with statuscode: 503");
    let (away, _away) = server("HTTP/1.1 302 Found\r\nlocation: http://example.org/\r\n\r\n").await;
    let warning = Outcome::Warning("Probe terminated redirects to http://example.org/".into());
    assert_eq!(outcome(page(&away, false, &[]), LONG).await, warning);
    let (round, _round) = server("HTTP/1.1 302 Found\r\nlocation: /again\r\n\r\n").await;
    let text = failure(outcome(page(&round, false, &[]), LONG).await);
    assert!(text.ends_with("stopped after 10 redirects"), "{text}");
    let (odd, _odd) = server("SSH-2.0-OpenSSH\r\n").await;
    failure(outcome(page(&odd, false, &[]), LONG).await);
    let (plain, _plain) = server("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let text = failure(outcome(page(&plain, true, &[]), LONG).await);
    assert!(text.contains(": tls: "), "{text}");
}

#[tokio::test]
async fn probe_timeout_is_a_failure() {
    let (mute, _mute) = server("").await;
    let text = failure(outcome(page(&mute, false, &[]), SHORT).await);
    assert!(text.contains("context deadline exceeded"), "{text}");
    let text = failure(outcome(ProbeTarget::Grpc(mute, String::new()), SHORT).await);
    assert!(text.starts_with("timeout: "), "{text}");
}

#[tokio::test]
async fn closed_port_fails_the_probe() {
    let address = nobody().await;
    let text = failure(outcome(ProbeTarget::TcpSocket(address.clone()), LONG).await);
    assert_eq!(
        text,
        format!("dial tcp {address}: connect: connection refused")
    );
    let text = failure(outcome(ProbeTarget::Grpc(address, "s".into()), LONG).await);
    assert!(
        text.starts_with("timeout: failed to connect service"),
        "{text}"
    );
    let (open, _open) = server("x").await;
    assert_eq!(
        outcome(ProbeTarget::TcpSocket(open), LONG).await,
        Outcome::Success
    );
}

#[tokio::test]
async fn unreachable_runtime_is_no_probe_failure() {
    let outcome = outcome(ProbeTarget::Exec(vec!["true".into()]), LONG).await;
    assert!(matches!(outcome, Outcome::Error(_)), "{outcome:?}");
}

/// A health server that answers with this message and status.
async fn health_server(message: &'static [u8], status: &'static str) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(
                move |request: http::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let asked = request.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(&asked[..], b"\0\0\0\0\x03\x0a\x01s");
                    let mut frame = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
                    frame.extend(message);
                    let trailers = [("grpc-status".parse().unwrap(), status.parse().unwrap())];
                    let frames = [
                        Frame::data(Bytes::from(frame)),
                        Frame::trailers(trailers.into_iter().collect()),
                    ];
                    let body =
                        StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)));
                    http::Response::builder()
                        .header("content-type", "application/grpc")
                        .body(body)
                },
            );
            let connection = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    Address {
        host: "127.0.0.1".into(),
        port,
    }
}

#[tokio::test]
async fn a_grpc_service_is_healthy_when_it_serves() {
    let ask = async |message, status| {
        outcome(
            ProbeTarget::Grpc(health_server(message, status).await, "s".into()),
            LONG,
        )
        .await
    };
    assert_eq!(ask(&[0x08, 1], "0").await, Outcome::Success);
    let text = failure(ask(&[0x08, 2], "0").await);
    assert_eq!(text, "service unhealthy (responded with \"NOT_SERVING\")");
    let text = failure(ask(&[], "12").await);
    assert!(
        text.starts_with("error: this server does not implement the grpc health protocol"),
        "{text}"
    );
    failure(ask(&[0xff], "0").await);
}

/// Probes of a pod whose only container, `c`, began to run two hours ago.
struct Followed {
    probes: std::sync::Arc<Probes>,
    pod: std::sync::Arc<k8s_openapi::api::core::v1::Pod>,
    observed: ObservedPod,
    _triggered: mpsc::Receiver<crate::trigger::Trigger>,
}

impl Followed {
    fn new(container: serde_json::Value) -> Self {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [container]}});
        let (triggers, _triggered) = mpsc::channel(8);
        let probes = Probes::new(Deps {
            runtime: Runtime::new(
                Endpoint::from_static("http://127.0.0.1:1").connect_lazy(),
                None,
            ),
            events: Recorder::disabled(),
            triggers,
            background: Background::new(Default::default()),
        });
        let started_at = clock::now() - jiff::SignedDuration::from_hours(2);
        let running = Container {
            id: "1".into(),
            state: ObservedState::Running { started_at },
            ..Container::test("c")
        };
        let observed = ObservedPod::new(vec![], vec![running]);
        Self {
            probes,
            pod: std::sync::Arc::new(serde_json::from_value(pod).unwrap()),
            observed,
            _triggered,
        }
    }

    fn follow(&mut self, pod_ip: &str) {
        self.probes.apply(&self.pod, &mut self.observed);
        self.probes.sync(&self.pod, &self.observed, pod_ip);
    }
}

#[tokio::test]
async fn what_waits_for_the_startup_probe_begins_right_after_it() {
    let (started, _started) = server("").await;
    let (ready, mut asked) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    let probe = |port: u16| json!({"httpGet": {"port": port}, "periodSeconds": 3600});
    let mut followed = Followed::new(
        json!({"name": "c", "startupProbe": probe(started.port), "readinessProbe": probe(ready.port)}),
    );
    followed.follow("127.0.0.1");
    assert!(followed.probes.record("u", "1", ProbeKind::Startup, true));
    followed.follow("127.0.0.1");
    within("a question, and not after an hour", asked.recv())
        .await
        .unwrap();
}

#[tokio::test]
async fn probes_follow_the_pods_address() {
    let (address, mut asked) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    let probe = json!({"httpGet": {"port": address.port}, "periodSeconds": 1});
    let mut followed = Followed::new(json!({"name": "c", "readinessProbe": probe}));
    // it has none yet
    followed.follow("");
    followed.follow("127.0.0.1");
    let question = within("a question at the new address", asked.recv())
        .await
        .unwrap();
    assert!(
        question.contains(&format!("127.0.0.1:{}", address.port)),
        "{question}"
    );
}
