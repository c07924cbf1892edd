//! `/metrics`: traffic to and from the cloud, by kind of message. Pure.

use componentbase::Metric;

use super::traffic::{Direction, Flow, Octets};

/// Returns the metrics.
pub(super) fn metrics(flows: &[Flow], octets: Octets) -> [Metric; 3] {
    let by_flow = |metric: Metric, count: fn(&Flow) -> u64| {
        flows.iter().fold(metric, |metric, flow| {
            let labels = [
                ("direction", flow.direction.as_str()),
                ("kind", flow.kind.as_str()),
            ];
            metric.with(&labels, count(flow))
        })
    };
    let messages = Metric::counter(
        "edgehub_messages_total",
        "Messages to the cloud (up) and from it (down), by kind.",
    );
    let bytes = Metric::counter(
        "edgehub_message_bytes_total",
        "Bytes of messages to the cloud (up) and from it (down) as encoded, without TLS and framing.",
    );
    let socket = Metric::counter(
        "edgehub_socket_bytes_total",
        "Bytes on the connections to the cloud, including TLS and framing.",
    );
    [
        by_flow(messages, |flow| flow.messages),
        by_flow(bytes, |flow| flow.bytes),
        socket
            .with(&[("direction", Direction::Up.as_str())], octets.up)
            .with(&[("direction", Direction::Down.as_str())], octets.down),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edgehub::Kind;

    #[test]
    fn traffic_is_counted_by_kind_and_direction() {
        let flow = Flow {
            kind: Kind::Lease,
            direction: Direction::Up,
            messages: 3,
            bytes: 1500,
        };
        let metrics = metrics(&[flow], Octets { up: 2000, down: 70 });
        let samples: Vec<_> = metrics
            .iter()
            .map(|metric| (metric.name, metric.samples.clone()))
            .collect();
        let (up, down, lease) = (
            ("direction", "up".to_owned()),
            ("direction", "down".to_owned()),
            ("kind", "lease".to_owned()),
        );
        let by_kind = |count| vec![(vec![up.clone(), lease.clone()], count)];
        assert_eq!(
            samples,
            [
                ("edgehub_messages_total", by_kind(3)),
                ("edgehub_message_bytes_total", by_kind(1500)),
                (
                    "edgehub_socket_bytes_total",
                    vec![(vec![up.clone()], 2000), (vec![down], 70)]
                ),
            ]
        );
    }
}
