//! The kit's cloud as edges use it: enrolment, one session at a time (the newest), and a tunnel that waits for its cases.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use peer::{
    Service,
    cloud::{self, Caller, Opened, Refusal, bearer, certify, text},
    quic,
    session::{Automatic, Session},
    transport::{Socket, Transport},
    tunnel::Tunnel,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol};
use wire::{
    enroll::{CA_PATH, EDGE_CERT_PATH, NODE_NAME_HEADER, NODE_PATH},
    websocket::Role,
};

use super::{
    answers::answers,
    state::{Cloud, Enrolment, OpenTunnel, SessionRequest},
};

impl cloud::Cloud for Cloud {
    type Accepted = ();

    async fn answer(
        &self,
        request: Request<Bytes>,
        caller: &Caller,
    ) -> Result<Response<Bytes>, Refusal> {
        let path = request.uri().path();
        if path == CA_PATH {
            self.change(|state| state.ca_requests += 1);
        } else if path == EDGE_CERT_PATH {
            let node = request.headers().get(NODE_NAME_HEADER);
            let enrolment = Enrolment {
                bearer: bearer(&request).map(str::to_owned),
                node: node.map_or_else(String::new, |node| {
                    String::from_utf8_lossy(node.as_bytes()).into_owned()
                }),
                csr: request.body().to_vec(),
            };
            self.change(|state| state.enrolments.push(enrolment));
        } else if let Some(name) = path.strip_prefix(NODE_PATH) {
            let path = format!("null/node/{name}");
            let status = match self.state.lock().objects.contains_key(&path) {
                true => StatusCode::OK,
                false => StatusCode::NOT_FOUND,
            };
            return Ok(text(status, ""));
        }
        Ok(certify(&self.ca, &request, caller))
    }

    async fn accept(
        &self,
        service: Service,
        _: &Request<()>,
        _: &Caller,
    ) -> Result<(HeaderMap, ()), Refusal> {
        if service == Service::Hub && self.transport == Transport::Quic {
            let why = "this run tests sessions over QUIC; enable it at the edge";
            return Err(Refusal::Answer(text(StatusCode::FORBIDDEN, why)));
        }
        Ok((HeaderMap::new(), ()))
    }

    async fn serve(&self, service: Service, opened: Opened<()>) {
        if service == Service::Tunnel {
            let headers = headers(opened.request.headers());
            let mut tunnel = Tunnel::new(opened.stream, Role::Server);
            let (requests, mut requested) = mpsc::channel(1);
            let open = OpenTunnel { headers, requests };
            self.change(|state| state.tunnel = Some(open));
            tokio::select! {
                // cancel-safe: a ping that is not answered is sent again
                _ = tunnel.answer_pings() => {}
                // cancel-safe: a request that is not seen is dropped with the channel
                Some(request) = requested.recv() => drop(request.send(tunnel)),
            }
            return;
        }
        let request = SessionRequest {
            path: opened.request.uri().path().to_owned(),
            headers: headers(opened.request.headers()),
            certificate: opened.caller.certificate.unwrap_or_default(),
            at: Instant::now(),
        };
        let (stream, role) = (opened.stream, protocol::Role::Server);
        let socket = WebSocketStream::from_raw_socket(stream, role, None).await;
        serve_session(self, request, socket).await;
    }
}

/// Serves a session that an edge has opened over QUIC.
pub(super) async fn serve_quic(cloud: Arc<Cloud>, greeting: quic::Greeting) {
    let Ok(opened) = greeting.accept().await else {
        return;
    };
    let request = SessionRequest {
        path: String::new(),
        headers: opened.headers,
        certificate: opened.certificate,
        at: Instant::now(),
    };
    serve_session(&cloud, request, opened.stream).await;
}

async fn serve_session(cloud: &Cloud, request: SessionRequest, socket: impl Socket) {
    let automatic = Automatic {
        keepalive: false,
        acknowledge: false,
    };
    let mut session = Session::start(socket, automatic);
    let outgoing = session.sender();
    cloud.change(|state| {
        state.sessions.push(request);
        state.outgoing = Some(outgoing.clone());
    });
    while let Ok(message) = session.next().await {
        let replies = answers(cloud, &message);
        cloud.record(message);
        for reply in replies {
            outgoing.send(reply.into()).await.ok();
        }
    }
    cloud.change(|state| {
        if state
            .outgoing
            .as_ref()
            .is_some_and(|current| current.same_channel(&outgoing))
        {
            state.outgoing = None;
        }
    });
}

fn headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}
