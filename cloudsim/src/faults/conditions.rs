//! The conditions of a link: whether it is up, and what becomes of its messages. Pure.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Period, Profile};

/// The conditions of a node's link, in each direction. The default of a field is that of a perfect link, or of the profile.
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
}

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
        ];
        for (field, part) in parts {
            if part.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
                return Err(InvalidConditions::Part { field });
            }
        }
        if self.throttle == Some(0) {
            return Err(InvalidConditions::Throttle);
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

    /// Returns the conditions with the profile's values filled in and without the profile's name.
    pub fn lowered(&self) -> Self {
        let base = self.profile.map(Self::of_profile).unwrap_or_default();
        Self {
            profile: None,
            link: self.link.or(base.link),
            schedule: self.schedule.or(base.schedule),
            delay: self.delay.or(base.delay),
            jitter: self.jitter.or(base.jitter),
            throttle: self.throttle.or(base.throttle),
            drop: self.drop.or(base.drop),
            duplicate: self.duplicate.or(base.duplicate),
            reorder: self.reorder.or(base.reorder),
            stale: self.stale.or(base.stale),
            refuse_acknowledgements: self
                .refuse_acknowledgements
                .or(base.refuse_acknowledgements),
            refuse_answers: self.refuse_answers.or(base.refuse_answers),
            cut_relay: self.cut_relay.or(base.cut_relay),
        }
    }

    /// Reports whether there is no fault.
    pub fn is_perfect(&self) -> bool {
        *self == Self::default()
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
