//! A node that is no node: its kubelet answers with what a few scripted commands say.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper_util::rt::TokioIo;
use kubeapi::{NodeAnswer, NodeError, NodeIo, NodeRequest, NodeStreams};
use parking_lot::Mutex;
use spdy::{
    Role,
    session::{self, Incoming, Session, Stream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex},
    sync::{Notify, broadcast},
};

type Body = UnsyncBoxBody<Bytes, kubeapi::BoxError>;

/// The node `edge-1`.
pub(super) struct FakeNode {
    asked: Mutex<Vec<String>>,
    said: broadcast::Sender<&'static str>,
    left: std::sync::Arc<Notify>,
}

impl Default for FakeNode {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            said: broadcast::channel(16).0,
            left: std::sync::Arc::default(),
        }
    }
}

/// Tells when it is dropped.
struct Left(std::sync::Arc<Notify>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The API's end of a stream.
struct Ours(DuplexStream, #[allow(dead_code)] Left);

impl AsyncRead for Ours {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Ours {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn text(code: u16, text: &'static str) -> NodeAnswer {
    let body = Full::from(text)
        .map_err(|never: Infallible| match never {})
        .boxed_unsync();
    NodeAnswer::Response(Response::builder().status(code).body(body).unwrap())
}

impl FakeNode {
    /// What it was asked, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// A line of every log that is followed.
    pub(super) fn say(&self, line: &'static str) {
        self.said.send(line).unwrap();
    }

    /// Waits until a stream was dropped.
    pub(super) async fn wait_dropped(&self) {
        self.left.notified().await;
    }

    fn log(&self, path: &str, query: &str) -> NodeAnswer {
        match path.rsplit('/').next() {
            Some("a") => text(
                400,
                "container \"a\" in pod \"two\" is waiting to start: ContainerCreating",
            ),
            Some("b") => text(404, "pod \"two\" does not exist"),
            _ if query.contains("follow=true") => {
                let left = Left(self.left.clone());
                let said = futures::stream::unfold(self.said.subscribe(), |mut said| async {
                    said.recv().await.ok().map(|line| (line, said))
                });
                let lines = futures::stream::iter(["line 1\n"])
                    .chain(said)
                    .map(move |line| {
                        let _ = &left;
                        Ok(http_body::Frame::data(Bytes::from_static(line.as_bytes())))
                    });
                let body: Body = StreamBody::new(lines).boxed_unsync();
                NodeAnswer::Response(Response::new(body))
            }
            _ => text(200, "line 1\nline 2\n"),
        }
    }

    /// Upgrades to SPDY; `serve` is given the node's end.
    fn upgrade<F>(
        &self,
        request: &NodeRequest,
        serve: impl FnOnce(Session, Incoming) -> F + Send + 'static,
    ) -> NodeAnswer
    where
        F: Future<Output = ()> + Send + 'static,
    {
        assert_eq!(request.headers[header::UPGRADE], "SPDY/3.1");
        let offered = request.headers.get_all("x-stream-protocol-version").iter();
        let is_known =
            |name: &&HeaderValue| *name == "v4.channel.k8s.io" || *name == "portforward.k8s.io";
        let protocol = offered.into_iter().find(is_known).unwrap().clone();
        let (ours, theirs) = duplex(4096);
        let (session, incoming, driver) = session::new(theirs, Role::Server);
        tokio::spawn(async move {
            let serve = serve(session, incoming);
            let (_, _) = tokio::join!(driver.run(), serve);
        });
        let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        let head = head
            .header("x-stream-protocol-version", protocol)
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let io: Box<dyn NodeIo> = Box::new(Ours(ours, Left(self.left.clone())));
        NodeAnswer::Upgraded(head, io)
    }
}

#[async_trait]
impl NodeStreams for FakeNode {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        self.asked.lock().push(format!(
            "{node} {} {}",
            request.method, request.path_and_query
        ));
        if node != "edge-1" {
            return Err(NodeError::NotConnected(node.to_owned()));
        }
        let path_and_query = request.path_and_query.clone();
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((&path_and_query, ""));
        let query: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let words = query
            .iter()
            .filter(|(name, _)| name == "command")
            .map(|(_, word)| word.clone());
        let words: Vec<String> = words.collect();
        Ok(match path.split('/').nth(1) {
            Some("containerLogs") => self.log(path, &path_and_query),
            Some("exec") if words.first().is_some_and(|word| word == "absent") => {
                text(500, "container not found (\"c\")")
            }
            Some(what @ ("exec" | "attach")) => {
                let words = if what == "attach" {
                    vec!["say".to_owned(), "attached".to_owned()]
                } else {
                    words
                };
                let flags = ["input", "output", "error", "tty"];
                let wanted = query
                    .iter()
                    .filter(|(name, _)| flags.contains(&name.as_str()))
                    .count();
                self.upgrade(&request, move |session, incoming| {
                    command(session, incoming, words, 1 + wanted)
                })
            }
            Some("portForward") => self.upgrade(&request, forward),
            Some("stats") => text(200, "{\"node\":{}}"),
            _ => text(404, "404 page not found\n"),
        })
    }
}

/// The streams of a command.
#[derive(Default)]
struct Streams {
    error: Option<Stream>,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

async fn command(session: Session, mut incoming: Incoming, words: Vec<String>, count: usize) {
    let mut streams = Streams::default();
    for _ in 0..count {
        let Some(request) = incoming.next().await else {
            return;
        };
        let name = request.headers.get("streamtype").unwrap().to_owned();
        let stream = Some(request.accept().await.unwrap());
        match name.as_str() {
            "error" => streams.error = stream,
            "stdin" => streams.stdin = stream,
            "stdout" => streams.stdout = stream,
            "stderr" => streams.stderr = stream,
            "resize" => streams.resize = stream,
            other => panic!("a stream of type {other:?}"),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut stdout = streams.stdout.take().unwrap();
    let status = match words.as_slice() {
        ["say", rest @ ..] => {
            if let [out, ..] = rest {
                stdout.write_all(out.as_bytes()).await.unwrap();
            }
            if let ([_, err, ..], Some(stderr)) = (rest, streams.stderr.as_mut()) {
                stderr.write_all(err.as_bytes()).await.unwrap();
            }
            success()
        }
        ["cat"] => {
            let mut stdin = streams.stdin.take().unwrap();
            tokio::io::copy(&mut stdin, &mut stdout).await.unwrap();
            success()
        }
        ["exit", code] => exit_status(code),
        ["wait"] => {
            stdout.write_all(b"begun").await.unwrap();
            return std::future::pending().await;
        }
        ["cut"] => {
            stdout.write_all(b"half").await.unwrap();
            return session.close().await;
        }
        ["size"] => {
            let mut size = vec![0; 64];
            let length = streams
                .resize
                .as_mut()
                .unwrap()
                .read(&mut size)
                .await
                .unwrap();
            stdout.write_all(&size[..length]).await.unwrap();
            success()
        }
        other => panic!("{other:?} is no command"),
    };
    stdout.shutdown().await.unwrap();
    let mut error = streams.error.take().unwrap();
    error.write_all(status.as_bytes()).await.unwrap();
    // what is sent is sent before the rest is reset
    session.close().await;
}

fn success() -> String {
    r#"{"metadata":{},"status":"Success"}"#.to_owned()
}

fn exit_status(code: &str) -> String {
    let message = format!("command terminated with non-zero exit code: exit status {code}");
    let causes = serde_json::json!([{"reason": "ExitCode", "message": code}]);
    serde_json::json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": message,
        "details": {"causes": causes}})
    .to_string()
}

/// Port 8080 sends back what comes, port 80 speaks HTTP, port 443 does over TLS, and others refuse.
async fn forward(session: Session, mut incoming: Incoming) {
    let mut errors = Vec::new();
    while let Some(request) = incoming.next().await {
        let header = |name: &str| request.headers.get(name).unwrap().to_owned();
        let (kind, port) = (header("streamtype"), header("port"));
        let mut stream = request.accept().await.unwrap();
        if kind == "error" {
            if !["80", "443", "8080"].contains(&port.as_str()) {
                stream.write_all(b"connection refused").await.unwrap();
            }
            // kept: its end would be the end of the forwarding
            errors.push(stream);
            continue;
        }
        tokio::spawn(async move {
            match port.as_str() {
                "8080" => {
                    let (mut reads, mut writes) = tokio::io::split(stream);
                    // a client may leave at any time
                    let _ = tokio::io::copy(&mut reads, &mut writes).await;
                    let _ = writes.shutdown().await;
                }
                "80" => serve(stream).await,
                "443" => serve(tls().accept(stream).await.unwrap()).await,
                _ => stream.reset(spdy::Status::Cancel).await,
            }
        });
    }
    drop(session);
}

/// With a certificate that nobody knows.
fn tls() -> tokio_rustls::TlsAcceptor {
    let own = rcgen::generate_simple_self_signed(["pod".to_owned()]).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.into()], key)
        .unwrap();
    tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config))
}

/// A server that says what it was asked.
async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    let service =
        hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let mut lines = format!("{} {}\n", head.method, head.uri);
            for (name, value) in &head.headers {
                lines.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
            }
            lines.push_str(&String::from_utf8_lossy(&body));
            let mut answer = Response::new(Full::new(Bytes::from(lines)));
            if head.uri.path() == "/json" {
                let json = HeaderValue::from_static("application/json");
                answer = Response::new(Full::new(Bytes::from_static(b"{\"a\":1}")));
                answer.headers_mut().insert(header::CONTENT_TYPE, json);
            }
            if head.uri.path() == "/moved" {
                *answer.status_mut() = StatusCode::FOUND;
                answer
                    .headers_mut()
                    .insert(header::LOCATION, HeaderValue::from_static("/elsewhere"));
            }
            Ok::<_, Infallible>(answer)
        });
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // a client may leave at any time
    let _ = serving.await;
}
