//! The client whose quota counts what the broker keeps for it.

use std::{net::IpAddr, sync::Arc};

use crate::access::Identity;

/// The client whose quota something counts against.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    User(Arc<str>),
    Address(IpAddr),
}

impl Holder {
    /// Returns the user, or else the address. Clients of this machine without a user have no quota of their own.
    pub(crate) fn of(who: &Identity, peer: Option<IpAddr>) -> Option<Self> {
        let address = || peer.filter(|peer| !peer.is_loopback()).map(Self::Address);
        who.user.clone().map(Self::User).or_else(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_that_of_the_user_or_else_of_the_address() {
        let who = |user: Option<&str>| Identity {
            client: "c".into(),
            user: user.map(Into::into),
        };
        let (far, here) = ("192.0.2.1".parse().unwrap(), "127.0.0.1".parse().unwrap());
        for (user, peer, expected) in [
            (Some("ann"), Some(far), Some(Holder::User("ann".into()))),
            (Some("ann"), Some(here), Some(Holder::User("ann".into()))),
            (None, Some(far), Some(Holder::Address(far))),
            (None, Some(here), None),
            (None, None, None),
        ] {
            assert_eq!(Holder::of(&who(user), peer), expected, "{user:?} {peer:?}");
        }
    }
}
