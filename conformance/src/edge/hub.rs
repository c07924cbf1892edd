//! CloudHub of the kit: one session at a time, the newest.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{net::TcpStream, time::Instant};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use super::{
    answers::answers,
    state::{Cloud, SessionRequest},
};
use crate::peer::session::{Automatic, Session};

/// Serves one connection until it ends.
pub(super) async fn serve(cloud: Arc<Cloud>, stream: TlsStream<TcpStream>) {
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first())
        .map(|certificate| certificate.to_vec())
        .unwrap_or_default();
    let mut request = SessionRequest {
        path: String::new(),
        headers: BTreeMap::new(),
        certificate,
        at: Instant::now(),
    };
    // the type is the library's
    #[allow(clippy::result_large_err)]
    let keep = |asked: &Request, answer: Response| -> Result<Response, ErrorResponse> {
        asked.uri().path().clone_into(&mut request.path);
        for (name, value) in asked.headers() {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            request.headers.insert(name.as_str().to_owned(), value);
        }
        Ok(answer)
    };
    let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, keep).await else {
        return;
    };
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
        let replies = answers(&cloud, &message);
        cloud.record(message);
        for reply in replies {
            let text = wire::json::encode(&reply);
            outgoing.send(text.into()).await.ok();
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
