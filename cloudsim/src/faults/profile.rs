//! Links by the names of what they are like. Pure.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Conditions, Period, Schedule};

/// A kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// A geostationary satellite.
    Satellite,
    /// A mobile network of the third generation.
    Cellular3G,
    /// A mobile network of the fourth generation.
    Cellular4G,
    /// A radio network that is shared with many.
    Wifi,
    /// Five seconds up, five seconds cut, again and again.
    Offline555,
    /// A minute up, ten minutes cut: a vehicle that comes by.
    Vehicle,
}

/// A name that no kind of link has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no profile {0:?}; choose one of Satellite, Cellular3G, Cellular4G, Wifi, Offline555, Vehicle"
)]
pub struct UnknownProfile(String);

impl Profile {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Satellite, Self::Cellular3G, Self::Cellular4G, Self::Wifi, Self::Offline555, Self::Vehicle];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Satellite => "Satellite",
            Self::Cellular3G => "Cellular3G",
            Self::Cellular4G => "Cellular4G",
            Self::Wifi => "Wifi",
            Self::Offline555 => "Offline555",
            Self::Vehicle => "Vehicle",
        }
    }

    /// What it is like. Delays are of one way, as usual figures of such links have them. Nothing is lost: TCP and QUIC repeat what
    /// a radio loses, which is in the jitter.
    pub fn conditions(self) -> Conditions {
        let none = Conditions::default();
        match self {
            Self::Satellite => Conditions {
                delay: Some(Period::millis(300)),
                jitter: Some(Period::millis(150)),
                throttle: Some(64 * 1024),
                ..none
            },
            Self::Cellular3G => Conditions {
                delay: Some(Period::millis(100)),
                jitter: Some(Period::millis(100)),
                throttle: Some(96 * 1024),
                ..none
            },
            Self::Cellular4G => Conditions {
                delay: Some(Period::millis(30)),
                jitter: Some(Period::millis(20)),
                throttle: Some(1024 * 1024),
                ..none
            },
            Self::Wifi => Conditions {
                delay: Some(Period::millis(3)),
                jitter: Some(Period::millis(20)),
                throttle: Some(4 * 1024 * 1024),
                ..none
            },
            Self::Offline555 => Conditions {
                schedule: Some(Schedule { up: Period::seconds(5), down: Period::seconds(5) }),
                ..none
            },
            Self::Vehicle => Conditions {
                schedule: Some(Schedule { up: Period::seconds(60), down: Period::seconds(600) }),
                delay: Some(Period::millis(30)),
                ..none
            },
        }
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownProfile(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_and_can_be() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
            assert_eq!(profile.conditions().check(), Ok(()));
            assert!(!profile.conditions().is_perfect());
            let named = UnknownProfile(String::new()).to_string();
            assert!(named.contains(profile.name()), "{named}");
        }
        assert!("Pigeon".parse::<Profile>().unwrap_err().to_string().contains("Satellite"));
    }
}
