//! The messages of exec and attach over a WebSocket: the number of a channel, and its bytes. Pure.
//!
//! Source: Kubernetes, `k8s.io/apimachinery/pkg/util/remotecommand` and `k8s.io/streaming/pkg/httpstream/wsstream`.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Message;

pub(super) const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const STATUS: u8 = 3;
pub(super) const RESIZE: u8 = 4;
/// The channel of [`Protocol::can_close`].
pub(super) const CLOSE: u8 = 255;

/// A subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocol {
    pub(super) name: &'static str,
    /// Whether the client can close a single channel: `FF` and its number.
    pub(super) can_close: bool,
    /// Whether the exit is reported as a `Status`; else a failure is reported as text.
    pub(super) has_status: bool,
    /// Whether bytes are sent as base64 text.
    base64: bool,
}

const fn protocol(name: &'static str, version: u8, base64: bool) -> Protocol {
    Protocol {
        name,
        can_close: version >= 5,
        has_status: version >= 4,
        base64,
    }
}

/// All subprotocols, the best first. The one without a name is used with clients that offer none.
const PROTOCOLS: [Protocol; 6] = [
    protocol("v5.channel.k8s.io", 5, false),
    protocol("v4.channel.k8s.io", 4, false),
    protocol("v4.base64.channel.k8s.io", 4, true),
    protocol("channel.k8s.io", 1, false),
    protocol("base64.channel.k8s.io", 1, true),
    protocol("", 1, false),
];

/// An invalid message, which ends the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

impl Protocol {
    /// Chooses the subprotocol for a client that offers these: version 5 where possible, else the client's first choice.
    pub(super) fn choose(offered: &[String]) -> Option<Self> {
        if offered.is_empty() {
            return PROTOCOLS
                .into_iter()
                .find(|protocol| protocol.name.is_empty());
        }
        let known = |offer: &String| {
            PROTOCOLS
                .into_iter()
                .find(|protocol| protocol.name == offer)
        };
        let all: Vec<_> = offered.iter().filter_map(known).collect();
        all.iter()
            .find(|protocol| protocol.can_close)
            .or(all.first())
            .copied()
    }

    /// Returns the names of all subprotocols.
    pub(super) fn names() -> Vec<&'static str> {
        PROTOCOLS
            .iter()
            .map(|protocol| protocol.name)
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// Makes a message to the client.
    pub(super) fn message(self, channel: u8, data: &[u8]) -> Message {
        if self.base64 {
            return Message::text(format!("{channel}{}", STANDARD.encode(data)));
        }
        let mut bytes = BytesMut::with_capacity(data.len() + 1);
        bytes.put_u8(channel);
        bytes.put_slice(data);
        Message::Binary(bytes.freeze())
    }

    /// Parses a message of a client; `None` for an empty one. Clients may send bytes as text.
    pub(super) fn read(self, message: Bytes) -> Result<Option<(u8, Bytes)>, Malformed> {
        let Some((channel, data)) = message.split_first() else {
            return Ok(None);
        };
        if !self.base64 {
            return Ok(Some((*channel, message.slice(1..))));
        }
        let data = STANDARD
            .decode(data)
            .map_err(|_| Malformed("a message is not base64"))?;
        Ok(Some((channel.wrapping_sub(b'0'), data.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_5_is_chosen_where_it_is_offered_and_else_the_favourite() {
        let choose = |offered: &[&str]| {
            let offered: Vec<_> = offered.iter().map(|name| (*name).to_owned()).collect();
            Protocol::choose(&offered).map(|protocol| protocol.name)
        };
        let (v5, v4) = ("v5.channel.k8s.io", "v4.channel.k8s.io");
        let base64 = "base64.channel.k8s.io";
        assert_eq!(choose(&[v5]), Some(v5));
        assert_eq!(choose(&[v4, v5]), Some(v5));
        assert_eq!(choose(&["x", v4]), Some(v4));
        assert_eq!(choose(&[base64, v4]), Some(base64));
        assert_eq!(choose(&["x"]), None);
        assert_eq!(choose(&[]), Some(""));
    }

    #[test]
    fn messages_are_a_channel_and_bytes() {
        let plain = Protocol::choose(&["v4.channel.k8s.io".to_owned()]).unwrap();
        assert_eq!(
            plain.message(STDOUT, b"ab"),
            Message::Binary(Bytes::from_static(b"\x01ab"))
        );
        assert_eq!(
            plain.read(Bytes::from_static(b"\x00x")),
            Ok(Some((0, Bytes::from_static(b"x"))))
        );
        assert_eq!(
            plain.read(Bytes::from_static(b"\x04")),
            Ok(Some((4, Bytes::new())))
        );
        assert_eq!(plain.read(Bytes::new()), Ok(None));
        let base64 = Protocol::choose(&["base64.channel.k8s.io".to_owned()]).unwrap();
        assert_eq!(base64.message(STDERR, b"ab"), Message::text("2YWI="));
        assert_eq!(
            base64.read(Bytes::from_static(b"0YWI=")),
            Ok(Some((0, Bytes::from_static(b"ab"))))
        );
        assert!(base64.read(Bytes::from_static(b"0?")).is_err());
    }
}
