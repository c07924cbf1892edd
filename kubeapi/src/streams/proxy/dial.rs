//! Sends HTTP requests to a port of a pod over a port-forward.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, request, response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use spdy::{
    Headers, Role,
    session::{self, Session, Stream},
};
use tokio::{io::AsyncReadExt, time::timeout};

use super::{backend::Backend, headers::response_headers, links, path::ProxyPath, tls};
use crate::{
    Body, NodeAnswer, NodeIo, NodeStreams,
    request::body::RequestBody,
    status::StatusError,
    streams::{
        Tasks, copy, node,
        remote::spdy,
        slots::Slot,
        upgrade::{Client, UpgradeRequest},
    },
};

/// The protocol of port-forwards.
const PORT_FORWARD_PROTOCOL: HeaderValue = HeaderValue::from_static("portforward.k8s.io");
/// How long a pod may take to send the head of its response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// The most bytes of the reason why a port cannot be reached, and how long it may take after the connection has ended.
const MAX_REASON_BYTES: u64 = 4 * 1024;
const REASON_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a port.
struct Connection {
    session: Session,
    error: Stream,
    data: Stream,
}

fn unreachable(why: impl std::fmt::Display) -> StatusError {
    StatusError::unavailable(format!("error trying to reach service: {why}"))
}

async fn connect(
    streams: &dyn NodeStreams,
    backend: &Backend,
    namespace: &str,
    tasks: &Tasks,
) -> Result<Connection, StatusError> {
    let path = format!("/portForward/{namespace}/{}", backend.pod.name());
    let io = match node::send_request(
        streams,
        backend.pod.host()?,
        spdy(path, [&PORT_FORWARD_PROTOCOL]),
    )
    .await?
    {
        NodeAnswer::Upgraded(_, io) => io,
        NodeAnswer::Response(answer) => {
            return Err(unreachable(node::text(answer.into_body()).await));
        }
    };
    let (session, incoming, driver) = session::new(io, Role::Client);
    // a node opens no streams
    drop(incoming);
    tasks.spawn(async move {
        if let Err(error) = driver.run().await {
            tracing::debug!(%error, "port-forward to a node lost");
        }
    });
    let headers = |kind: &str| {
        let port = backend.port.to_string();
        Headers::new()
            .with("streamtype", kind)
            .with("port", port)
            .with("requestid", "0")
    };
    let error = session
        .open(headers("error"), true)
        .await
        .map_err(unreachable)?;
    let data = session
        .open(headers("data"), false)
        .await
        .map_err(unreachable)?;
    Ok(Connection {
        session,
        error,
        data,
    })
}

/// Returns the node's reason why the port could not be reached.
async fn reason(error: Stream) -> Option<String> {
    let mut text = Vec::new();
    // what has come by then is told
    let _ = timeout(
        REASON_TIMEOUT,
        error.take(MAX_REASON_BYTES).read_to_end(&mut text),
    )
    .await;
    Some(String::from_utf8_lossy(&text).trim().to_owned()).filter(|text| !text.is_empty())
}

/// Sends the request to the pod, and relays its response or upgraded connection.
pub(super) async fn answer(
    streams: &dyn NodeStreams,
    backend: &Backend,
    (parts, headers, body): (&mut request::Parts, HeaderMap, RequestBody),
    place: &ProxyPath,
    slot: Slot,
) -> Result<Response<Body>, StatusError> {
    let namespace = backend.pod.namespace().to_owned();
    let tasks = parts.extensions.get::<Tasks>().cloned().unwrap_or_default();
    let client = if UpgradeRequest::of(&parts.headers).is_ok() {
        Some(Client::of(parts)?)
    } else {
        None
    };
    let Connection {
        session,
        error,
        data,
    } = connect(streams, backend, &namespace, &tasks).await?;
    let io: Box<dyn NodeIo> = if backend.is_https {
        match tls::connect(data).await {
            Ok(stream) => Box::new(stream),
            Err(why) => return Err(unreachable(reason(error).await.unwrap_or(why))),
        }
    } else {
        Box::new(data)
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io))
        .await
        .map_err(unreachable)?;
    tasks.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to a pod lost");
        }
    });
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = place
        .path_and_query()
        .parse()
        .map_err(|_| StatusError::bad_request("the path cannot be proxied"))?;
    *request.headers_mut() = headers;
    if client.is_some() {
        for name in [
            HeaderName::from_static("connection"),
            HeaderName::from_static("upgrade"),
        ] {
            if let Some(value) = parts.headers.get(&name) {
                request.headers_mut().insert(name, value.clone());
            }
        }
    }
    let answered = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await;
    let answer: Response<Incoming> = match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(failed)) => {
            let why = reason(error).await.unwrap_or_else(|| failed.to_string());
            return Err(unreachable(why));
        }
        Err(_) => {
            return Err(unreachable(format!(
                "no answer came within {} s",
                ANSWER_TIMEOUT.as_secs()
            )));
        }
    };
    let held = (session, error, sender, slot);
    match client {
        Some(client) if answer.status() == http::StatusCode::SWITCHING_PROTOCOLS => {
            let headers = upgrade_headers(answer.headers());
            let pod = hyper::upgrade::on(answer);
            Ok(client.switch(headers, move |client| async move {
                match pod.await {
                    Ok(pod) => copy::both(client, TokioIo::new(pod)).await,
                    Err(error) => tracing::debug!(%error, "pod refused to upgrade its connection"),
                }
                drop(held);
            }))
        }
        _ => {
            let (mut head, body): (response::Parts, Incoming) = answer.into_parts();
            let body = body.map_err(Into::into).map_frame(move |frame| {
                // moved in here, all of it is dropped with the body
                let _ = &held;
                frame
            });
            let body = links::through_proxy(&head.headers, body.boxed_unsync(), place);
            head.headers = response_headers(&head, place);
            head.extensions.clear();
            Ok(Response::from_parts(head, body))
        }
    }
}

/// Returns the headers of a 101 response without hop-by-hop headers.
fn upgrade_headers(pod: &HeaderMap) -> HeaderMap {
    let mut headers = pod.clone();
    headers.remove("connection");
    headers
}
