//! What a link is like: whether it stands, and what becomes of the messages on it. Pure.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Period, Profile};

/// The conditions of a node's link, each way. What is not given is as on a perfect link, or as the profile has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Conditions {
    /// A kind of link by its name; what stands beside it here counts in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Whether the link stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Times in which the link stands and in which it is cut, in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// How long a message is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
    /// So much longer at most, at random; order is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Period>,
    /// Bytes that pass in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<u64>,
    /// The part of messages that are lost, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<f64>,
    /// The part of messages that come twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// The part of messages that later ones overtake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// The part of the objects going down that an older version of the same object follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<f64>,
    /// The cloud hears no acknowledgement of the node's, so that it sends everything again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_acknowledgements: Option<bool>,
    /// The cloud answers none of the node's reports and questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_answers: Option<bool>,
    /// The node has no way over the relay to other nodes: its connection there ends, and no new one comes about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_relay: Option<bool>,
}

/// Whether a link stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Link {
    /// It stands.
    #[default]
    Up,
    /// Connections end, and no new ones come about.
    Cut,
    /// Connections stand and new ones come about, and nothing comes through.
    HalfOpen,
}

/// So long up, then so long cut, again and again, from the moment on at which it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// How long it stands.
    pub up: Period,
    /// How long it is cut.
    pub down: Period,
}

/// Conditions that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// A part of less than nothing, or of more than all.
    #[error("{field} is the part of messages that it happens to: give a number from 0 to 1")]
    Part {
        /// Which field.
        field: &'static str,
    },
    /// Nothing would ever pass.
    #[error("a throttle of 0 bytes a second lets nothing pass; cut the link instead")]
    Throttle,
    /// Nothing would ever change.
    #[error("a schedule needs times up and down of 100ms at least")]
    Schedule,
}

/// Shorter times up or down no agent would notice.
const SHORTEST: Duration = Duration::from_millis(100);

impl Conditions {
    /// Those in which the link is so.
    pub fn link(link: Link) -> Self {
        Self { link: Some(link), ..Self::default() }
    }

    /// Those of a kind of link.
    pub fn profile(profile: Profile) -> Self {
        Self { profile: Some(profile), ..Self::default() }
    }

    /// What a kind of link is like. Delays are of one way, as usual figures of such links have them. Nothing is lost: TCP and QUIC repeat what
    /// a radio loses, which is in the jitter.
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
            Profile::Offline555 => {
                Self { schedule: Some(Schedule { up: Period::seconds(5), down: Period::seconds(5) }), ..none }
            }
            Profile::Vehicle => Self {
                schedule: Some(Schedule { up: Period::seconds(60), down: Period::seconds(600) }),
                delay: Some(Period::millis(30)),
                ..none
            },
        }
    }

    /// Checks that they can be.
    ///
    /// # Errors
    /// What cannot, and what could.
    pub fn check(&self) -> Result<(), Impossible> {
        let parts = [
            ("drop", self.drop),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("stale", self.stale),
        ];
        for (field, part) in parts {
            if part.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
                return Err(Impossible::Part { field });
            }
        }
        if self.throttle == Some(0) {
            return Err(Impossible::Throttle);
        }
        match self.schedule {
            Some(Schedule { up, down }) if up.get() < SHORTEST || down.get() < SHORTEST => {
                Err(Impossible::Schedule)
            }
            _ => Ok(()),
        }
    }

    /// With what the profile adds; it is then named no more.
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
            refuse_acknowledgements: self.refuse_acknowledgements.or(base.refuse_acknowledgements),
            refuse_answers: self.refuse_answers.or(base.refuse_answers),
            cut_relay: self.cut_relay.or(base.cut_relay),
        }
    }

    /// Whether nothing is wrong.
    pub fn is_perfect(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the link stands at `now`, given when the conditions were set, and when that changes by itself.
    pub fn link_at(&self, since: Instant, now: Instant) -> (Link, Option<Instant>) {
        let link = self.link.unwrap_or_default();
        let Some(Schedule { up, down }) = self.schedule.filter(|_| link == Link::Up) else {
            return (link, None);
        };
        let (up, round) = (up.get(), up.get() + down.get());
        let age = now.saturating_duration_since(since);
        // milliseconds of a day and more fit
        let within =
            Duration::from_nanos(u64::try_from(age.as_nanos() % round.as_nanos().max(1)).unwrap_or_default());
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
        let schedule = Schedule { up: Period::seconds(5), down: Period::seconds(2) };
        let conditions = Conditions { schedule: Some(schedule), ..Conditions::default() };
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
        let cut = Conditions { link: Some(Link::HalfOpen), ..conditions.clone() };
        assert_eq!(cut.link_at(since, since), (Link::HalfOpen, None), "what is said outright counts");
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
        assert_eq!(lowered.throttle, Conditions::of_profile(Profile::Satellite).throttle);
        assert!(Conditions::default().is_perfect() && !lowered.is_perfect());
    }
}
