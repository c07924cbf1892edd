//! Who may connect, and which topics they may use.

use std::{collections::HashMap, sync::Arc};

use ring::digest;

use crate::reason::Reason;

/// What a rule allows or refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Publishing, including wills.
    Publish,
    /// Subscribing.
    Subscribe,
    /// Publishing and subscribing.
    All,
}

/// One access rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The user that the rule applies to; everybody if `None`.
    pub user: Option<String>,
    /// The action that the rule applies to.
    pub action: Action,
    /// A topic filter. `%c` within a level stands for the client identifier, `%u` for the user.
    pub filter: String,
    /// Whether the rule allows or refuses.
    pub allow: bool,
}

/// Access to the broker. By default everybody may connect and do everything, as on a loopback listener.
#[derive(Debug, Clone)]
pub struct Access {
    users: HashMap<Arc<str>, digest::Digest>,
    anonymous: bool,
    rules: Vec<Rule>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            users: HashMap::new(),
            anonymous: true,
            rules: Vec::new(),
        }
    }
}

/// The authenticated identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) client: Arc<str>,
    pub(crate) user: Option<Arc<str>>,
}

impl Access {
    /// Adds a user with a password. Only a digest of the password is stored.
    #[must_use]
    pub fn with_user(mut self, user: &str, password: &[u8]) -> Self {
        self.users
            .insert(user.into(), digest::digest(&digest::SHA256, password));
        self
    }

    /// Sets whether clients without a user name are accepted. The name in a verified client certificate counts as a user name.
    #[must_use]
    pub fn with_anonymous(mut self, anonymous: bool) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// Adds a rule. The first matching rule decides; if there are rules and none matches, access is refused.
    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Authenticates a client. `certificate` is the common name of a verified client certificate and takes precedence over user and
    /// password.
    pub(crate) fn authenticate(
        &self,
        certificate: Option<Arc<str>>,
        user: Option<&str>,
        password: Option<&[u8]>,
    ) -> Result<Option<Arc<str>>, Reason> {
        if let Some(name) = certificate {
            return Ok(Some(name));
        }
        let Some(user) = user else {
            return if self.anonymous {
                Ok(None)
            } else {
                Err(Reason::NotAuthorized)
            };
        };
        if self.users.is_empty() && self.anonymous {
            // An unverified name must not match anybody's rules.
            return Ok(None);
        }
        let given = digest::digest(&digest::SHA256, password.unwrap_or_default());
        match self.users.get_key_value(user) {
            // Digests are compared, so that the time of the comparison reveals nothing about the password.
            Some((user, wanted)) if wanted.as_ref() == given.as_ref() => Ok(Some(Arc::clone(user))),
            _ => Err(Reason::BadUserNameOrPassword),
        }
    }

    /// Reports whether `who` may publish to `topic`.
    pub(crate) fn may_publish(&self, who: &Identity, topic: &str) -> bool {
        self.decide(who, Action::Publish, topic)
    }

    /// Reports whether `who` may receive every topic that `filter` (without a share) matches.
    pub(crate) fn may_subscribe(&self, who: &Identity, filter: &str) -> bool {
        self.decide(who, Action::Subscribe, filter)
    }

    fn decide(&self, who: &Identity, action: Action, filter: &str) -> bool {
        let fits = |rule: &&Rule| {
            let user = rule
                .user
                .as_deref()
                .is_none_or(|user| who.user.as_deref() == Some(user));
            let about = rule.action == action || rule.action == Action::All;
            // A refusal applies to everything that it overlaps, a permission only to what it covers completely.
            user && about
                && if rule.allow {
                    covers(&rule.filter, filter, who)
                } else {
                    touches(&rule.filter, filter, who)
                }
        };
        self.rules.is_empty() || self.rules.iter().find(fits).is_some_and(|rule| rule.allow)
    }
}

/// Compares a level of a rule's filter with `level`, literally: a client named `+` gains nothing by its name.
fn same(pattern: &str, level: &str, who: &Identity) -> bool {
    if !pattern.contains('%') {
        return pattern == level;
    }
    if pattern.contains("%u") && who.user.is_none() {
        return false;
    }
    let user = who.user.as_deref().unwrap_or_default();
    let mut rest = level;
    let mut parts = pattern;
    while !parts.is_empty() {
        let (value, length) = match () {
            () if parts.starts_with("%c") => (&*who.client, 2),
            () if parts.starts_with("%u") => (user, 2),
            () => {
                let length = parts
                    .char_indices()
                    .skip(1)
                    .find(|(_, c)| *c == '%')
                    .map_or(parts.len(), |(at, _)| at);
                (&parts[..length], length)
            }
        };
        let Some(after) = rest.strip_prefix(value) else {
            return false;
        };
        rest = after;
        parts = &parts[length..];
    }
    rest.is_empty() && !level.contains(['+', '#'])
}

/// Reports whether `pattern` matches everything that `filter` matches.
fn covers(pattern: &str, filter: &str, who: &Identity) -> bool {
    if pattern.starts_with(['+', '#']) && filter.starts_with('$') {
        return false;
    }
    let mut levels = filter.split('/');
    for wanted in pattern.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            (_, None | Some("#")) => return false,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if same(wanted, level, who) => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Reports whether there may be a topic that both match.
fn touches(pattern: &str, filter: &str, who: &Identity) -> bool {
    if (pattern.starts_with(['+', '#']) && filter.starts_with('$'))
        || (pattern.starts_with('$') && filter.starts_with(['+', '#']))
    {
        return false;
    }
    let (mut wanted, mut levels) = (pattern.split('/'), filter.split('/'));
    loop {
        match (wanted.next(), levels.next()) {
            (None, None) | (Some("#"), _) | (_, Some("#")) => return true,
            (None, _) | (_, None) => return false,
            (Some("+"), _) | (_, Some("+")) => {}
            (Some(wanted), Some(level)) if same(wanted, level, who) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(client: &str, user: Option<&str>) -> Identity {
        Identity {
            client: client.into(),
            user: user.map(Into::into),
        }
    }

    fn rule(user: Option<&str>, action: Action, filter: &str, allow: bool) -> Rule {
        Rule {
            user: user.map(Into::into),
            action,
            filter: filter.into(),
            allow,
        }
    }

    #[test]
    fn a_device_publishes_its_own_topics_only() {
        let access = Access::default()
            .with_rule(rule(Some("ops"), Action::All, "#", true))
            .with_rule(rule(None, Action::All, "$hw/events/device/%c/#", true))
            .with_rule(rule(None, Action::Publish, "users/%u/in-%c", true));
        let thermometer = who("t-1", Some("eve"));
        assert!(access.may_publish(&thermometer, "$hw/events/device/t-1/twin/update"));
        assert!(!access.may_publish(&thermometer, "$hw/events/device/t-2/twin/update"));
        assert!(
            !access.may_publish(&who("t-2", None), "users//in-t-2"),
            "no user, no %u"
        );
        assert!(access.may_publish(&thermometer, "users/eve/in-t-1"));
        assert!(access.may_subscribe(&thermometer, "$hw/events/device/t-1/#"));
        assert!(!access.may_subscribe(&thermometer, "$hw/events/device/+/twin/update/delta"));
        assert!(!access.may_subscribe(&thermometer, "#"));
        assert!(access.may_subscribe(&who("x", Some("ops")), "a/#"));
        assert!(
            !access.may_subscribe(&who("x", Some("ops")), "$hw/#"),
            "# is not about topics of the system"
        );
    }

    #[test]
    fn a_name_with_wildcards_gains_nothing() {
        let access = Access::default().with_rule(rule(None, Action::All, "device/%c/#", true));
        for name in ["+", "#", "a/b", "%c", ""] {
            assert!(
                !access.may_subscribe(&who(name, None), "device/+/twin"),
                "{name}"
            );
            assert!(
                !access.may_publish(&who(name, None), "device/a/b"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_refusal_stands_for_what_it_touches() {
        let access = Access::default()
            .with_rule(rule(None, Action::Subscribe, "a/secret", false))
            .with_rule(rule(None, Action::All, "#", true));
        let client = who("x", None);
        assert!(!access.may_subscribe(&client, "a/+") && !access.may_subscribe(&client, "#"));
        assert!(access.may_subscribe(&client, "b/+") && access.may_publish(&client, "a/secret"));
    }

    #[test]
    fn users_are_checked() {
        let access = Access::default().with_user("u", b"p").with_anonymous(false);
        assert_eq!(
            access.authenticate(None, Some("u"), Some(b"p")),
            Ok(Some("u".into()))
        );
        for (user, password) in [("u", Some(&b"x"[..])), ("u", None), ("v", Some(b"p"))] {
            assert_eq!(
                access.authenticate(None, Some(user), password),
                Err(Reason::BadUserNameOrPassword)
            );
        }
        assert_eq!(
            access.authenticate(None, None, None),
            Err(Reason::NotAuthorized)
        );
        assert_eq!(
            access.authenticate(Some("cn".into()), None, None),
            Ok(Some("cn".into()))
        );
        assert_eq!(
            Access::default().authenticate(None, Some("ops"), None),
            Ok(None),
            "a name nobody checked"
        );
    }
}
