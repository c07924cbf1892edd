//! Named kinds of links; [`super::Conditions::of_profile`] has their values. Pure.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A named kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// A geostationary satellite link.
    Satellite,
    /// A third-generation mobile network.
    Cellular3G,
    /// A fourth-generation mobile network.
    Cellular4G,
    /// A shared wireless network.
    Wifi,
    /// Alternately five seconds up and five seconds cut.
    Offline555,
    /// Alternately a minute up and ten minutes cut, as a vehicle that passes by.
    Vehicle,
}

/// There is no profile of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown profile {0:?}; choose one of Satellite, Cellular3G, Cellular4G, Wifi, Offline555, Vehicle"
)]
pub struct UnknownProfile(String);

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 6] = [
        Self::Satellite,
        Self::Cellular3G,
        Self::Cellular4G,
        Self::Wifi,
        Self::Offline555,
        Self::Vehicle,
    ];

    /// Returns the name of the profile.
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
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL
            .into_iter()
            .find(|profile| profile.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownProfile(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
            let named = UnknownProfile(String::new()).to_string();
            assert!(named.contains(profile.name()), "{named}");
        }
        assert!(
            "Pigeon"
                .parse::<Profile>()
                .unwrap_err()
                .to_string()
                .contains("Satellite")
        );
    }
}
