//! Detects connections that a server ends soon after it accepted them, as if another client has the same identifier. Pure.

use std::time::Duration;

use clock::Instant;

use limits::Repeated;

/// A connection that ends earlier is short.
const SHORT: Duration = Duration::from_secs(60);
/// The number of short connections in a row of a client that has a rival.
const SUSPICIOUS: u32 = 3;

/// The short connections in a row.
#[derive(Debug, Default)]
pub(crate) struct ShortConnections {
    /// When the connection was established.
    established: Option<Instant>,
    ended: u32,
    reports: Repeated,
}

/// The end of a connection, or a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There was no connection.
    NotConnected,
    /// It lasted for a while.
    Long,
    /// It was short.
    Short,
    /// It was one of many short ones; their number, if it is to be reported now.
    Again(Option<u64>),
}

impl ShortConnections {
    /// Records a new connection.
    pub(crate) fn establish(&mut self, now: Instant) {
        self.established = Some(now);
    }

    /// Reports whether the last connections were all short.
    pub(crate) fn are_suspicious(&self) -> bool {
        self.ended >= SUSPICIOUS
    }

    /// Records the end of the connection, or a failed attempt.
    pub(crate) fn end(&mut self, now: Instant) -> Ended {
        let Some(established) = self.established.take() else {
            return Ended::NotConnected;
        };
        if now.saturating_duration_since(established) >= SHORT {
            self.ended = 0;
            self.reports.recover();
            return Ended::Long;
        }
        self.ended = self.ended.saturating_add(1);
        match self.are_suspicious() {
            true => Ended::Again(self.reports.count("short", now)),
            false => Ended::Short,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_short_connection_in_a_row_is_reported_and_later_ones_rarely() {
        let (mut connections, begun) = (ShortConnections::default(), Instant::now());
        let mut now = begun;
        let mut ends = Vec::new();
        for seconds in [2, 2, 2, 2, 90, 2] {
            connections.establish(now);
            now += Duration::from_secs(seconds);
            ends.push(connections.end(now));
        }
        let (reported, counted) = (Ended::Again(Some(1)), Ended::Again(None));
        let expected = [
            Ended::Short,
            Ended::Short,
            reported,
            counted,
            Ended::Long,
            Ended::Short,
        ];
        assert_eq!(ends, expected);
        assert_eq!(connections.end(now), Ended::NotConnected);
    }
}
