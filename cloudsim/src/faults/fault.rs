//! Single faults, and what those of one node's link mean together. Pure.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use clock::Instant;
use jiff::Timestamp;
use record::Side;
use serde::{Serialize, Serializer};
use wire::Message;

use super::{Conditions, Direction, Link, Period};

/// The nodes whose links a fault concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultTarget {
    /// Every node without conditions of its own.
    All,
    /// The node of this name.
    Node(String),
}

impl FromStr for FaultTarget {
    type Err = std::convert::Infallible;

    /// Parses `all`, or the name of a node.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "all" {
            Self::All
        } else {
            Self::Node(text.to_owned())
        })
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Node(name) => f.write_str(name),
        }
    }
}

impl Serialize for FaultTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A fault that is injected, or was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Its number, unique in this cloud.
    pub id: u64,
    /// The nodes.
    pub target: FaultTarget,
    /// When it was injected.
    pub since: Timestamp,
    /// When it ended, or will end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The conditions, as they were given.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// A fault that is injected now, with times of the clock that cannot be set.
#[derive(Clone, Debug)]
pub(super) struct ActiveFault {
    pub(super) fault: Fault,
    pub(super) effect: ActiveConditions,
}

/// Conditions, with the times between which they hold.
#[derive(Clone, Debug)]
pub(crate) struct ActiveConditions {
    /// With the values of their profile filled in.
    lowered: Arc<Conditions>,
    since: Instant,
    pub(super) until: Option<Instant>,
}

impl ActiveFault {
    pub(super) fn new(id: u64, target: FaultTarget, conditions: Conditions, now: Instant) -> Self {
        let since = clock::now();
        let lasting: Option<Duration> = conditions.lasting.map(Period::get);
        Self {
            effect: ActiveConditions {
                lowered: Arc::new(conditions.lowered()),
                since: now,
                // a time beyond the clock's range counts as never
                until: lasting.and_then(|lasting| now.checked_add(lasting)),
            },
            fault: Fault {
                id,
                target,
                since,
                until: lasting.and_then(|lasting| since.checked_add(lasting).ok()),
                conditions,
            },
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.effect.until.is_some_and(|until| until <= now)
    }

    /// Reports whether it concerns only the servers for nodes.
    pub(super) fn is_of_servers(&self) -> bool {
        let conditions = &self.fault.conditions;
        let others = Conditions {
            certificate: None,
            answers: None,
            ..conditions.clone()
        };
        conditions.of_servers().is_some() && others.is_perfect()
    }
}

/// The state of a link, and when it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) link: Link,
    pub(crate) until: Option<Instant>,
}

impl LinkState {
    /// Returns the state of a link with these faults.
    pub(crate) fn of(faults: Option<&LinkFaults>, now: Instant) -> Self {
        let perfect = Self {
            link: Link::Up,
            until: None,
        };
        faults.map_or(perfect, |faults| faults.state(now))
    }
}

/// The faults of one node's link, in the order in which they were injected: a later one counts where both set the same condition.
#[derive(Clone, Debug)]
pub(crate) struct LinkFaults(pub(super) Vec<ActiveConditions>);

impl LinkFaults {
    /// Reports whether any of them is a fault.
    pub(super) fn has_any(&self) -> bool {
        self.0.iter().any(|one| !one.lowered.is_perfect())
    }

    fn state(&self, now: Instant) -> LinkState {
        let decides =
            |one: &&ActiveConditions| one.lowered.link.is_some() || one.lowered.schedule.is_some();
        let decisive = self.0.iter().rev().find(decides);
        let (link, change) =
            decisive.map_or((Link::Up, None), |one| one.lowered.link_at(one.since, now));
        let ends = self.0.iter().filter_map(|one| one.until);
        LinkState {
            link,
            until: ends.chain(change).min(),
        }
    }

    /// Returns the conditions that hold for the whole link.
    pub(crate) fn conditions(&self) -> Conditions {
        self.merge(|lowered| !lowered.is_selective())
    }

    /// Returns the conditions that hold for a message.
    pub(crate) fn of_message(&self, direction: Direction, message: &Message) -> Conditions {
        let side = match direction {
            Direction::ToNode => Side::Cloud,
            Direction::ToCloud => Side::Edge,
        };
        self.merge(|lowered| {
            let is_kind = |kind: &String| kind == record::kind_of(side, message);
            lowered.direction.is_none_or(|one| one == direction)
                && (lowered.kinds.is_empty() || lowered.kinds.iter().any(is_kind))
        })
    }

    fn merge(&self, is_meant: impl Fn(&Conditions) -> bool) -> Conditions {
        let meant = self.0.iter().map(|one| &*one.lowered);
        let meant = meant.filter(|lowered| is_meant(lowered));
        meant.fold(Conditions::default(), |before, one| one.over(&before))
    }
}
