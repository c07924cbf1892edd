//! A client that wants its connection to become something else: to what, and the answer that makes it so.

use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{self, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE},
    request::Parts,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::Tasks;
use crate::{Body, status::StatusError};

/// Which protocols a SPDY connection is for, and which of them is spoken.
pub(super) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The protocol that connections of streams are upgraded to.
pub(super) const SPDY: HeaderValue = HeaderValue::from_static("SPDY/3.1");

/// The connection behind the answer.
pub(super) type ClientIo = TokioIo<Upgraded>;

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Spdy,
    WebSocket(Handshake),
}

/// A WebSocket's opening.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    key: String,
    /// What the client offers, its favourite first.
    pub(super) protocols: Vec<String>,
}

/// All elements of the lists under a name.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|element| !element.is_empty())
}

impl Asked {
    /// What the headers ask for; 400 where it is nothing that is served here.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, StatusError> {
        let required = || StatusError::bad_request("Upgrade request required");
        if !elements(headers, &CONNECTION).any(|element| element.eq_ignore_ascii_case("upgrade")) {
            return Err(required());
        }
        let is_for =
            |protocol: &str| elements(headers, &UPGRADE).any(|one| one.eq_ignore_ascii_case(protocol));
        if is_for("SPDY/3.1") {
            return Ok(Self::Spdy);
        }
        if !is_for("websocket") {
            return Err(required());
        }
        let is_current = headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).filter(|_| is_current);
        let key = key.ok_or_else(|| StatusError::bad_request("not a WebSocket handshake of version 13"))?;
        let protocols = elements(headers, &SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
        Ok(Self::WebSocket(Handshake { key: key.to_owned(), protocols }))
    }
}

impl Handshake {
    /// The headers that accept it, with the subprotocol that was chosen.
    pub(super) fn accepted(&self, protocol: &str) -> Result<HeaderMap, StatusError> {
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| StatusError::bad_request("a subprotocol has a bad name"))
        };
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, value(&derive_accept_key(self.key.as_bytes()))?);
        if !protocol.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value(protocol)?);
        }
        Ok(headers)
    }

    /// 403: none of the subprotocols that it offers is spoken here.
    pub(super) fn refused(&self, spoken: &[&str]) -> StatusError {
        let why = format!(
            "unable to upgrade: unable to negotiate protocol: client supports {:?}, server accepts {spoken:?}",
            self.protocols
        );
        StatusError::of_node(StatusCode::FORBIDDEN, why)
    }
}

/// The client's connection.
pub(super) struct Client {
    upgrade: OnUpgrade,
    pub(super) tasks: Tasks,
}

impl Client {
    /// Takes it out of a request. Only connections of HTTP/1.1 can become something else here.
    pub(super) fn of(parts: &mut Parts) -> Result<Self, StatusError> {
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let required = || StatusError::bad_request("Upgrade request required, over a connection of HTTP/1.1");
        let tasks = parts.extensions.get::<Tasks>().cloned().unwrap_or_default();
        Ok(Self { upgrade: upgrade.ok_or_else(required)?, tasks })
    }

    /// Answers 101; what follows on the connection is `work`'s.
    pub(super) fn switch<F>(
        self,
        headers: HeaderMap,
        work: impl FnOnce(ClientIo) -> F + Send + 'static,
    ) -> Response<Body>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { upgrade, tasks } = self;
        tasks.spawn(async move {
            match upgrade.await {
                Ok(io) => work(TokioIo::new(io)).await,
                Err(error) => tracing::debug!(%error, "a client left before its connection was upgraded"),
            }
        });
        let mut answer = Response::new(Body::default());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = headers;
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_to_spdy_or_to_a_websocket() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            Asked::of(&map).map_err(|error| error.code.as_u16())
        };
        assert_eq!(of(&[("connection", "keep-alive, upgrade"), ("upgrade", "spdy/3.1")]), Ok(Asked::Spdy));
        let handshake = [
            ("connection", "Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "a2V5"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
            ("sec-websocket-protocol", "x"),
        ];
        let protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io", "x"].map(str::to_owned).to_vec();
        assert_eq!(of(&handshake), Ok(Asked::WebSocket(Handshake { key: "a2V5".to_owned(), protocols })));
        for bad in [
            &handshake[1..],
            &handshake[..1],
            &handshake[..3],
            &[("connection", "upgrade"), ("upgrade", "h2c")],
        ] {
            assert_eq!(of(bad), Err(400), "{bad:?}");
        }
    }
}
