//! Tests of [`super`].

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::{body::Frame, server::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tonic::transport::Endpoint;

use super::{
    check::check,
    outcome::Outcome,
    target::{Address, Page, Target},
};
use crate::edged::runtime::Runtime;

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
    (Address { host: "127.0.0.1".into(), port }, questions)
}

/// An address at which nobody listens.
async fn nobody() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() }
}

fn page(address: &Address, tls: bool, headers: &[(&str, &str)]) -> Target {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Target::Http(Page { address: address.clone(), tls, path: "/ok?a=b".into(), headers })
}

async fn outcome(target: Target, timeout: Duration) -> Outcome {
    let runtime = Runtime::new(Endpoint::from_static("http://127.0.0.1:1").connect_lazy(), None);
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
    assert_eq!(outcome(page(&address, false, &headers), LONG).await, Outcome::Success);
    let question = questions.recv().await.unwrap().to_lowercase();
    assert!(question.starts_with("get /ok?a=b http/1.1\r\n"), "{question}");
    for line in ["user-agent: kube-probe/", "host: shop.example\r\n", "x-probe: 1\r\n"] {
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
async fn who_does_not_answer_in_time_has_failed() {
    let (mute, _mute) = server("").await;
    let text = failure(outcome(page(&mute, false, &[]), SHORT).await);
    assert!(text.contains("context deadline exceeded"), "{text}");
    let text = failure(outcome(Target::Grpc(mute, String::new()), SHORT).await);
    assert!(text.starts_with("timeout: "), "{text}");
}

#[tokio::test]
async fn a_port_that_is_closed_says_so() {
    let address = nobody().await;
    let text = failure(outcome(Target::Tcp(address.clone()), LONG).await);
    assert_eq!(text, format!("dial tcp {address}: connect: connection refused"));
    let text = failure(outcome(Target::Grpc(address, "s".into()), LONG).await);
    assert!(text.starts_with("timeout: failed to connect service"), "{text}");
    let (open, _open) = server("x").await;
    assert_eq!(outcome(Target::Tcp(open), LONG).await, Outcome::Success);
}

#[tokio::test]
async fn a_runtime_that_is_away_says_nothing_of_the_container() {
    let outcome = outcome(Target::Exec(vec!["true".into()]), LONG).await;
    assert!(matches!(outcome, Outcome::Error(_)), "{outcome:?}");
}

/// A health server that answers with this message and status.
async fn health_server(message: &'static [u8], status: &'static str) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service =
                hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let asked = request.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(&asked[..], b"\0\0\0\0\x03\x0a\x01s");
                    let mut frame = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
                    frame.extend(message);
                    let trailers = [("grpc-status".parse().unwrap(), status.parse().unwrap())];
                    let frames =
                        [Frame::data(Bytes::from(frame)), Frame::trailers(trailers.into_iter().collect())];
                    let body = StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Infallible>)));
                    http::Response::builder().header("content-type", "application/grpc").body(body)
                });
            let connection =
                http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    Address { host: "127.0.0.1".into(), port }
}

#[tokio::test]
async fn a_grpc_service_is_healthy_when_it_serves() {
    let ask = async |message, status| {
        outcome(Target::Grpc(health_server(message, status).await, "s".into()), LONG).await
    };
    assert_eq!(ask(&[0x08, 1], "0").await, Outcome::Success);
    let text = failure(ask(&[0x08, 2], "0").await);
    assert_eq!(text, "service unhealthy (responded with \"NOT_SERVING\")");
    let text = failure(ask(&[], "12").await);
    assert!(text.starts_with("error: this server does not implement the grpc health protocol"), "{text}");
    failure(ask(&[0xff], "0").await);
}
