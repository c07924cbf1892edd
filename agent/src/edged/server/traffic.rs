//! `/metrics`: traffic to and from the cloud, by kind of message. Pure.

use kubeapi::exposition::{Text, number};

use crate::edgehub::{Direction, Flow, Octets};

/// Appends the metrics.
pub(super) fn append(text: &mut Text, flows: &[Flow], octets: Octets) {
    let labels = |flow: &Flow| {
        [
            ("direction", direction(flow.direction)),
            ("kind", flow.kind.as_str()),
        ]
    };
    let mut messages = text.counter(
        "edgehub_messages_total",
        "Messages to the cloud (up) and from it (down), by what they are about.",
    );
    for flow in flows {
        messages.sample(&labels(flow), number(flow.messages));
    }
    let mut bytes = text.counter(
        "edgehub_message_bytes_total",
        "Bytes of these messages as they are encoded, without TLS and framing.",
    );
    for flow in flows {
        bytes.sample(&labels(flow), number(flow.bytes));
    }
    let mut socket = text.counter(
        "edgehub_socket_bytes_total",
        "Bytes on the connections to the cloud, with TLS, framing, handshakes and signs of life.",
    );
    for (way, count) in [(Direction::Up, octets.up), (Direction::Down, octets.down)] {
        socket.sample(&[("direction", direction(way))], number(count));
    }
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edgehub::Kind;

    #[test]
    fn traffic_is_told_by_kind_and_direction() {
        let mut text = Text::default();
        let flow = Flow {
            kind: Kind::Lease,
            direction: Direction::Up,
            messages: 3,
            bytes: 1500,
        };
        append(&mut text, &[flow], Octets { up: 2000, down: 70 });
        let text = text.into_string();
        for line in [
            "edgehub_messages_total{direction=\"up\",kind=\"lease\"} 3",
            "edgehub_message_bytes_total{direction=\"up\",kind=\"lease\"} 1500",
            "edgehub_socket_bytes_total{direction=\"up\"} 2000",
            "edgehub_socket_bytes_total{direction=\"down\"} 70",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
    }
}
