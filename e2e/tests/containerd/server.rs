//! Servers beside the pods, for what reaches out of them: probes, hooks.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::SystemTime,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, body::Incoming, header::HeaderMap, server::conn::http2, service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};

/// Answers every request with 200 while it is well, else with 503, and remembers what was asked.
pub(crate) struct HttpServer {
    pub(crate) port: u16,
    pub(crate) well: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Answer>>>,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    head: String,
    pub(crate) well: bool,
    pub(crate) at: SystemTime,
}

impl HttpServer {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = listener.local_addr()?.port();
        let (well, asked) = (
            Arc::new(AtomicBool::new(true)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let (its_well, its_asked) = (well.clone(), asked.clone());
        // ends with the test's process
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(head) = head(&stream) else { continue };
                let well = its_well.load(Ordering::SeqCst);
                if let Ok(mut asked) = its_asked.lock() {
                    asked.push(Answer {
                        head,
                        well,
                        at: SystemTime::now(),
                    });
                }
                let status = if well {
                    "200 OK"
                } else {
                    "503 Service Unavailable"
                };
                let _ = write!(
                    &stream,
                    "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
            }
        });
        Ok(Self { port, well, asked })
    }

    /// The first request whose head has this text.
    pub(crate) fn first_request(&self, text: &str) -> Option<String> {
        self.asked
            .lock()
            .ok()?
            .iter()
            .map(|answer| &answer.head)
            .find(|head| head.contains(text))
            .cloned()
    }

    /// All answers to requests whose heads have this text.
    pub(crate) fn answers(&self, text: &str) -> Vec<Answer> {
        let all = self.asked.lock().map(|all| all.clone()).unwrap_or_default();
        all.into_iter()
            .filter(|answer| answer.head.contains(text))
            .collect()
    }
}

fn head(stream: &TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(testkit::PROCESS_TIMEOUT))?;
    let lines = BufReader::new(stream).lines();
    let lines: Result<Vec<String>, _> = lines
        .take_while(|line| line.as_ref().is_ok_and(|l| !l.is_empty()))
        .collect();
    Ok(lines?.join("\n"))
}

/// A server of `grpc.health.v1.Health`, for one service.
pub(crate) struct HealthServer {
    pub(crate) port: u16,
    pub(crate) well: Arc<AtomicBool>,
    // the server ends with it
    _runtime: tokio::runtime::Runtime,
}

impl HealthServer {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let (port, well) = (
            listener.local_addr()?.port(),
            Arc::new(AtomicBool::new(true)),
        );
        let its_well = well.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let well = its_well.clone();
                let answer =
                    service_fn(move |request| health(request, well.load(Ordering::SeqCst)));
                let served = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer);
                tokio::spawn(served);
            }
        });
        Ok(Self {
            port,
            well,
            _runtime: runtime,
        })
    }
}

/// A `HealthCheckResponse`: field 1 is 1 for SERVING, 2 for NOT_SERVING; before it five bytes of gRPC's own.
async fn health(
    request: Request<Incoming>,
    well: bool,
) -> Result<
    Response<impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible>>,
    hyper::Error,
> {
    let known = request.uri().path() == "/grpc.health.v1.Health/Check";
    let asked = request.into_body().collect().await?.to_bytes();
    // the service's name, field 1, is the end of the request
    let known = known && asked.ends_with(b"store");
    let body = Bytes::from_static(if well {
        &[0, 0, 0, 0, 2, 8, 1]
    } else {
        &[0, 0, 0, 0, 2, 8, 2]
    });
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", if known { 0 } else { 12 }.into());
    let body = Full::new(body).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body);
    response.headers_mut().insert(
        "content-type",
        hyper::header::HeaderValue::from_static("application/grpc"),
    );
    Ok(response)
}
