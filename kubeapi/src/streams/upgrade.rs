//! Protocol upgrades of clients' connections: what a client requests, and the 101 response.

use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{
        self, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
    },
    request::Parts,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::Tasks;
use crate::{Body, status::StatusError};

/// The header with the stream protocols that are offered, and the one that is chosen.
pub(super) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The protocol of upgraded connections with streams.
pub(super) const SPDY: HeaderValue = HeaderValue::from_static("SPDY/3.1");

/// The upgraded connection.
pub(super) type ClientIo = TokioIo<Upgraded>;

/// The upgrade that a client requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UpgradeRequest {
    Spdy,
    WebSocket(Handshake),
}

/// The opening handshake of a WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    key: String,
    /// The subprotocols that the client offers, in the order of its preference.
    pub(super) protocols: Vec<String>,
}

/// Returns all elements of the list header `name`.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

impl UpgradeRequest {
    /// Returns the requested upgrade; 400 where it is not supported.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, StatusError> {
        let required = || StatusError::bad_request("Upgrade request required");
        if !elements(headers, &CONNECTION).any(|element| element.eq_ignore_ascii_case("upgrade")) {
            return Err(required());
        }
        let is_for = |protocol: &str| {
            elements(headers, &UPGRADE).any(|one| one.eq_ignore_ascii_case(protocol))
        };
        if is_for("SPDY/3.1") {
            return Ok(Self::Spdy);
        }
        if !is_for("websocket") {
            return Err(required());
        }
        let is_current = headers
            .get(header::SEC_WEBSOCKET_VERSION)
            .is_some_and(|version| version == "13");
        let key = headers
            .get(SEC_WEBSOCKET_KEY)
            .and_then(|key| key.to_str().ok())
            .filter(|_| is_current);
        let key =
            key.ok_or_else(|| StatusError::bad_request("not a WebSocket handshake of version 13"))?;
        let protocols = elements(headers, &SEC_WEBSOCKET_PROTOCOL)
            .map(str::to_owned)
            .collect();
        Ok(Self::WebSocket(Handshake {
            key: key.to_owned(),
            protocols,
        }))
    }
}

impl Handshake {
    /// Returns the headers that accept the handshake, with the chosen subprotocol.
    pub(super) fn response_headers(&self, protocol: &str) -> Result<HeaderMap, StatusError> {
        let value = |text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| StatusError::bad_request("a subprotocol has a bad name"))
        };
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(
            SEC_WEBSOCKET_ACCEPT,
            value(&derive_accept_key(self.key.as_bytes()))?,
        );
        if !protocol.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value(protocol)?);
        }
        Ok(headers)
    }

    /// Returns 403 where none of the offered subprotocols is supported.
    pub(super) fn refusal(&self, spoken: &[&str]) -> StatusError {
        let why = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            self.protocols.join(" "),
            spoken.join(" ")
        );
        StatusError::of_node(StatusCode::FORBIDDEN, why)
    }
}

/// A client's connection that can be upgraded.
pub(super) struct Client {
    upgrade: OnUpgrade,
    pub(super) tasks: Tasks,
}

impl Client {
    /// Takes the upgrade out of a request. Only HTTP/1.1 connections can be upgraded.
    pub(super) fn of(parts: &mut Parts) -> Result<Self, StatusError> {
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let required =
            || StatusError::bad_request("Upgrade request required, over a connection of HTTP/1.1");
        let tasks = parts.extensions.get::<Tasks>().cloned().unwrap_or_default();
        Ok(Self {
            upgrade: upgrade.ok_or_else(required)?,
            tasks,
        })
    }

    /// Answers 101 and runs `work` on the upgraded connection.
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
                Err(error) => {
                    tracing::debug!(%error, "client disconnected before the upgrade")
                }
            }
        });
        let mut answer = Response::new(Body::default());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = headers;
        answer
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("Upgrade"));
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
            UpgradeRequest::of(&map).map_err(|error| error.code.as_u16())
        };
        assert_eq!(
            of(&[
                ("connection", "keep-alive, upgrade"),
                ("upgrade", "spdy/3.1")
            ]),
            Ok(UpgradeRequest::Spdy)
        );
        let handshake = [
            ("connection", "Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "a2V5"),
            ("sec-websocket-version", "13"),
            (
                "sec-websocket-protocol",
                "v5.channel.k8s.io, v4.channel.k8s.io",
            ),
            ("sec-websocket-protocol", "x"),
        ];
        let protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io", "x"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            of(&handshake),
            Ok(UpgradeRequest::WebSocket(Handshake {
                key: "a2V5".to_owned(),
                protocols
            }))
        );
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
