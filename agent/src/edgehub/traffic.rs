//! Counts the traffic with the cloud by kinds of messages.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::kind::Kind;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the cloud.
    Up,
    /// To this node.
    Down,
}

impl Direction {
    /// Returns the direction's name in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The messages of one kind in one direction since the agent started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The kind of the messages.
    pub kind: Kind,
    /// Their direction.
    pub direction: Direction,
    /// Their number.
    pub messages: u64,
    /// Their total size as encoded, bytes, without TLS and the transport's framing.
    pub bytes: u64,
}

/// The bytes on the connections' sockets since the agent started, including TLS, pings and handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Octets {
    /// To the cloud.
    pub up: u64,
    /// To this node.
    pub down: u64,
}

#[derive(Debug, Default)]
struct Counter {
    messages: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Counters {
    flows: [[Counter; Kind::ALL.len()]; 2],
    up: AtomicU64,
    down: AtomicU64,
    connections: AtomicU64,
}

/// The counters; cheap to clone, readable at any time.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<Counters>);

impl Traffic {
    /// Returns the counts so far; kinds without messages are left out.
    pub fn flows(&self) -> Vec<Flow> {
        let of = |direction: Direction| {
            Kind::ALL.into_iter().map(move |kind| {
                let counter = &self.0.flows[direction as usize][kind as usize];
                let (messages, bytes) = (
                    counter.messages.load(Ordering::Relaxed),
                    counter.bytes.load(Ordering::Relaxed),
                );
                Flow {
                    kind,
                    direction,
                    messages,
                    bytes,
                }
            })
        };
        of(Direction::Up)
            .chain(of(Direction::Down))
            .filter(|flow| flow.messages > 0)
            .collect()
    }

    /// Returns the bytes on the sockets so far.
    pub fn octets(&self) -> Octets {
        Octets {
            up: self.0.up.load(Ordering::Relaxed),
            down: self.0.down.load(Ordering::Relaxed),
        }
    }

    /// Counts a new connection; returns the number of connections.
    pub(super) fn count_connection(&self) -> u64 {
        self.0.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of messages received from the cloud.
    pub(super) fn received_count(&self) -> u64 {
        let down = &self.0.flows[Direction::Down as usize];
        down.iter()
            .map(|counter| counter.messages.load(Ordering::Relaxed))
            .sum()
    }

    pub(super) fn message(&self, direction: Direction, kind: Kind, bytes: usize) {
        let counter = &self.0.flows[direction as usize][kind as usize];
        counter.messages.fetch_add(1, Ordering::Relaxed);
        counter.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn raw(&self, direction: Direction, bytes: usize) {
        let counter = match direction {
            Direction::Up => &self.0.up,
            Direction::Down => &self.0.down,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_kind_and_direction() {
        let traffic = Traffic::default();
        traffic.message(Direction::Up, Kind::Lease, 100);
        traffic.message(Direction::Up, Kind::Lease, 50);
        traffic.message(Direction::Down, Kind::Pod, 7);
        traffic.raw(Direction::Down, 9);
        let flow = |kind, direction, messages, bytes| Flow {
            kind,
            direction,
            messages,
            bytes,
        };
        let expected = [
            flow(Kind::Lease, Direction::Up, 2, 150),
            flow(Kind::Pod, Direction::Down, 1, 7),
        ];
        assert_eq!(traffic.flows(), expected);
        assert_eq!(traffic.octets(), Octets { up: 0, down: 9 });
        assert_eq!(traffic.received_count(), 1);
    }
}
