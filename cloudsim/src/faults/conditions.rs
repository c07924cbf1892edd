//! The conditions of a link: whether it is up, and what becomes of its messages. Pure.

use clock::Instant;
use std::{str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Answers, Certificate, Period, Profile, Skew};

/// The conditions of a node's link, in each direction. The default of a field is that of a perfect link, or of the profile. They are the
/// one format of faults: of the API, the command line, scenarios and the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Conditions {
    /// A named kind of link; the other fields override its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Whether the link is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Periods in which the link is alternately up and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The latency of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
    /// The largest random addition to `delay`; the order is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Period>,
    /// The bandwidth, in bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<u64>,
    /// The fraction of messages that are lost, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<f64>,
    /// The fraction of messages that arrive twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// The fraction of messages that are overtaken by later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// The fraction of objects sent to the node that are followed by an older version of the same object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<f64>,
    /// Drops the node's acknowledgements, so that the cloud sends everything again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_acknowledgements: Option<bool>,
    /// Drops the cloud's answers to the node's reports and requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_answers: Option<bool>,
    /// Cuts the node off from the relay between nodes: its connection ends, and new ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_relay: Option<bool>,
    /// The fraction of messages in which one bit is flipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<f64>,
    /// How wrong the times in the node's messages are, as if its clock were fast or slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<Skew>,
    /// How long each write of a simulated node takes longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_delay: Option<Period>,
    /// Whether the disk of a simulated node is full: it can only delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_full: Option<bool>,
    /// The certificate that the servers for nodes show; for all nodes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// How the enrolment server answers; for all nodes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// The direction of the affected messages; both if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The kinds of the affected messages, by their names in the protocol; all if it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// How long the fault lasts; until it is removed if this is absent.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Period>,
}

/// A direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// From the cloud to the node.
    ToNode,
    /// From the node to the cloud.
    ToCloud,
}

/// There is no direction of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown direction {0:?}; choose toNode or toCloud")]
pub struct UnknownDirection(String);

impl FromStr for Direction {
    type Err = UnknownDirection;

    fn from_str(text: &str) -> Result<Self, UnknownDirection> {
        match text {
            "toNode" => Ok(Self::ToNode),
            "toCloud" => Ok(Self::ToCloud),
            text => Err(UnknownDirection(text.chars().take(40).collect())),
        }
    }
}

/// The state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Link {
    /// Connections work.
    #[default]
    Up,
    /// Connections are closed, and new ones are refused.
    Cut,
    /// Connections stay open and new ones are accepted, but nothing comes through.
    HalfOpen,
}

/// Alternating periods, up first, from the moment at which the conditions were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// How long the link is up.
    pub up: Period,
    /// How long the link is cut.
    pub down: Period,
}

/// The conditions are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConditions {
    /// A fraction is not between 0 and 1.
    #[error("{field} is a fraction of messages; use a number from 0 to 1")]
    Part {
        /// The name of the field.
        field: &'static str,
    },
    /// The bandwidth is zero.
    #[error("a throttle of 0 bytes per second blocks all messages; cut the link instead")]
    Throttle,
    /// A period of the schedule is too short.
    #[error("a schedule needs an up time and a down time of at least 100ms")]
    Schedule,
    /// The fault ends at once.
    #[error("a fault for 0s has no effect; give a longer time, or none")]
    Lasting,
    /// A kind of messages is unknown.
    #[error("unknown kind of messages {name:?}{near}; docs/protocol.md lists them")]
    Kind {
        /// The name.
        name: String,
        /// The nearest name, in parentheses.
        near: String,
    },
    /// A condition that is not one of messages cannot select some.
    #[error("{field} is no condition of single messages; remove direction and kinds")]
    Selection {
        /// The name of the field.
        field: &'static str,
    },
    /// A condition of the servers for nodes cannot be one of a single node.
    #[error("{field} concerns all nodes; use the target `all`")]
    OneNode {
        /// The name of the field.
        field: &'static str,
    },
    /// There are too many faults.
    #[error(
        "this target has {MAX_FAULTS_OF_TARGET} faults already, or {MAX_TARGETS} nodes have some; remove faults"
    )]
    TooMany,
}

/// The most faults of a node, or of all nodes, at a time.
pub(super) const MAX_FAULTS_OF_TARGET: usize = 256;
/// The most nodes with faults of their own.
pub(super) const MAX_TARGETS: usize = 100_000;

/// The shortest period of a schedule; no agent would notice shorter ones.
const MIN_SCHEDULE_PERIOD: Duration = Duration::from_millis(100);

impl Conditions {
    /// Returns conditions that only set the link's state.
    pub fn link(link: Link) -> Self {
        Self {
            link: Some(link),
            ..Self::default()
        }
    }

    /// Returns conditions that only name a profile.
    pub fn profile(profile: Profile) -> Self {
        Self {
            profile: Some(profile),
            ..Self::default()
        }
    }

    /// Returns the conditions of a profile. Delays are one-way, as in usual figures for such links. Nothing is lost: TCP and QUIC repeat
    /// what a radio loses, which is part of the jitter.
    pub fn of_profile(profile: Profile) -> Self {
        let none = Self::default();
        match profile {
            Profile::Satellite => Self {
                delay: Some(Period::millis(300)),
                jitter: Some(Period::millis(150)),
                throttle: Some(64 * 1024),
                ..none
            },
            Profile::Cellular3G => Self {
                delay: Some(Period::millis(100)),
                jitter: Some(Period::millis(100)),
                throttle: Some(96 * 1024),
                ..none
            },
            Profile::Cellular4G => Self {
                delay: Some(Period::millis(30)),
                jitter: Some(Period::millis(20)),
                throttle: Some(1024 * 1024),
                ..none
            },
            Profile::Wifi => Self {
                delay: Some(Period::millis(3)),
                jitter: Some(Period::millis(20)),
                throttle: Some(4 * 1024 * 1024),
                ..none
            },
            Profile::Offline555 => Self {
                schedule: Some(Schedule {
                    up: Period::seconds(5),
                    down: Period::seconds(5),
                }),
                ..none
            },
            Profile::Vehicle => Self {
                schedule: Some(Schedule {
                    up: Period::seconds(60),
                    down: Period::seconds(600),
                }),
                delay: Some(Period::millis(30)),
                ..none
            },
        }
    }

    /// Checks that the conditions are valid.
    ///
    /// # Errors
    /// Returns which field is invalid, and the valid range.
    pub fn check(&self) -> Result<(), InvalidConditions> {
        let parts = [
            ("drop", self.drop),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("stale", self.stale),
            ("corrupt", self.corrupt),
        ];
        for (field, part) in parts {
            if part.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
                return Err(InvalidConditions::Part { field });
            }
        }
        if self.throttle == Some(0) {
            return Err(InvalidConditions::Throttle);
        }
        if self.lasting.is_some_and(|lasting| lasting.is_zero()) {
            return Err(InvalidConditions::Lasting);
        }
        let is_unknown = |name: &&String| !record::kinds().any(|known| known == name.as_str());
        if let Some(name) = self.kinds.iter().find(is_unknown) {
            let (near, name) = (
                wire::did_you_mean(name, record::kinds()),
                wire::text::short(name),
            );
            return Err(InvalidConditions::Kind { name, near });
        }
        if let Some(field) = self.of_whole_link().filter(|_| self.is_selective()) {
            return Err(InvalidConditions::Selection { field });
        }
        match self.schedule {
            Some(Schedule { up, down })
                if up.get() < MIN_SCHEDULE_PERIOD || down.get() < MIN_SCHEDULE_PERIOD =>
            {
                Err(InvalidConditions::Schedule)
            }
            _ => Ok(()),
        }
    }

    /// Returns a condition that cannot be one of single messages, if there is one.
    fn of_whole_link(&self) -> Option<&'static str> {
        let lowered = self.lowered();
        let fields = [
            ("link", lowered.link.is_some()),
            ("schedule", lowered.schedule.is_some()),
            ("cutRelay", lowered.cut_relay.is_some()),
            ("clockSkew", lowered.clock_skew.is_some()),
            ("diskDelay", lowered.disk_delay.is_some()),
            ("diskFull", lowered.disk_full.is_some()),
        ];
        let found = fields.into_iter().find(|(_, is_set)| *is_set);
        found.map(|(name, _)| name).or(self.of_servers())
    }

    /// Returns a condition that is one of the servers for nodes, if there is one.
    pub(super) fn of_servers(&self) -> Option<&'static str> {
        let certificate = self.certificate.map(|_| "certificate");
        certificate.or(self.answers.map(|_| "answers"))
    }

    /// Reports whether only some messages are affected.
    pub(super) fn is_selective(&self) -> bool {
        self.direction.is_some() || !self.kinds.is_empty()
    }

    /// Returns the conditions with the profile's values filled in and without the profile's name.
    pub fn lowered(&self) -> Self {
        let base = self.profile.map(Self::of_profile).unwrap_or_default();
        Self {
            profile: None,
            ..self.over(&base)
        }
    }

    /// Returns these conditions, and those of `base` which these do not have.
    pub(super) fn over(&self, base: &Self) -> Self {
        macro_rules! first {
            ($($field:ident)*) => {
                Self {
                    kinds: match self.kinds.is_empty() {
                        true => base.kinds.clone(),
                        false => self.kinds.clone(),
                    },
                    $($field: self.$field.or(base.$field),)*
                }
            };
        }
        first!(
            profile link schedule delay jitter throttle drop duplicate reorder stale refuse_acknowledgements refuse_answers cut_relay
            corrupt clock_skew disk_delay disk_full certificate answers direction lasting
        )
    }

    /// Reports whether there is no fault.
    pub fn is_perfect(&self) -> bool {
        let unselective = Self {
            direction: None,
            kinds: Vec::new(),
            lasting: None,
            ..self.clone()
        };
        unselective == Self::default()
    }

    /// Returns the state of the link at `now`, if the conditions were set at `since`, and when it changes next by the schedule.
    pub fn link_at(&self, since: Instant, now: Instant) -> (Link, Option<Instant>) {
        let link = self.link.unwrap_or_default();
        let Some(Schedule { up, down }) = self.schedule.filter(|_| link == Link::Up) else {
            return (link, None);
        };
        let (up, round) = (up.get(), up.get() + down.get());
        let age = now.saturating_duration_since(since);
        // milliseconds of a day and more fit
        let within = Duration::from_nanos(
            u64::try_from(age.as_nanos() % round.as_nanos().max(1)).unwrap_or_default(),
        );
        if within < up {
            (Link::Up, Some(now + (up - within)))
        } else {
            (Link::Cut, Some(now + (round - within)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_goes_up_and_down_from_when_it_was_set() {
        let since = Instant::now();
        let schedule = Schedule {
            up: Period::seconds(5),
            down: Period::seconds(2),
        };
        let conditions = Conditions {
            schedule: Some(schedule),
            ..Conditions::default()
        };
        let at = |millis| {
            let now = since + Duration::from_millis(millis);
            let (link, until) = conditions.link_at(since, now);
            (link, (until.unwrap() - since).as_millis())
        };
        assert_eq!(at(0), (Link::Up, 5000));
        assert_eq!(at(4999), (Link::Up, 5000));
        assert_eq!(at(5000), (Link::Cut, 7000));
        assert_eq!(at(6999), (Link::Cut, 7000));
        assert_eq!(at(7000), (Link::Up, 12_000));
        assert_eq!(at(7_000_000), (Link::Up, 7_005_000));
        let cut = Conditions {
            link: Some(Link::HalfOpen),
            ..conditions.clone()
        };
        assert_eq!(
            cut.link_at(since, since),
            (Link::HalfOpen, None),
            "what is said outright counts"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_cure() {
        let read = |value| serde_json::from_value::<Conditions>(value).unwrap().check();
        assert_eq!(read(json!({"drop": 1.0, "delay": "5s"})), Ok(()));
        for (value, says) in [
            (json!({"drop": 1.01}), "from 0 to 1"),
            (json!({"stale": -0.1}), "from 0 to 1"),
            (json!({"throttle": 0}), "cut the link"),
            (json!({"schedule": {"up": "0s", "down": "5s"}}), "100ms"),
            (json!({"corrupt": 2}), "from 0 to 1"),
            (json!({"delay": "1s", "for": "0s"}), "longer time"),
            (json!({"drop": 1, "kinds": ["pods"]}), "did you mean pod?"),
            (
                json!({"link": "cut", "direction": "toNode"}),
                "link is no condition",
            ),
            (
                json!({"profile": "Vehicle", "kinds": ["pod"]}),
                "schedule is no",
            ),
            (
                json!({"certificate": "expired", "kinds": ["pod"]}),
                "certificate is no",
            ),
        ] {
            let said = read(value.clone()).unwrap_err().to_string();
            assert!(said.contains(says), "{value}: {said}");
        }
        assert!(serde_json::from_value::<Conditions>(json!({"dorp": 1})).is_err());
    }

    #[test]
    fn every_profile_can_be() {
        for profile in Profile::ALL {
            assert_eq!(Conditions::of_profile(profile).check(), Ok(()));
            assert!(!Conditions::of_profile(profile).is_perfect());
        }
    }

    #[test]
    fn what_is_given_counts_in_place_of_the_profiles() {
        let given: Conditions =
            serde_json::from_value(json!({"profile": "Satellite", "delay": "1s"})).unwrap();
        let lowered = given.lowered();
        assert_eq!(lowered.delay, Some(Period::seconds(1)));
        assert_eq!(
            lowered.throttle,
            Conditions::of_profile(Profile::Satellite).throttle
        );
        assert!(Conditions::default().is_perfect() && !lowered.is_perfect());
    }
}
