//! Codes of login links, and sessions: random texts with a user and an end. All in memory, with bounds.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use clock::{HashMap, Instant};
use http::HeaderMap;
use kubeapi::Identity;
use parking_lot::Mutex;

use crate::reviews::bearer_token;

/// How long a login link is valid.
pub(super) const CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// How long a session of an administrator is valid.
pub(super) const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// How long that of another user is, whose permission to log in may end earlier.
pub(super) const USER_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// How often the account of a session is checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The most codes, and the most sessions, of one user. Another one replaces the oldest of the user.
const MAX_OF_USER: usize = 8;
/// The most of all users. Another one replaces the oldest.
const MAX_GRANTS: usize = 512;

/// A user of the page, or of the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Visitor {
    pub(crate) identity: Identity,
    /// The token with which the user logged in, if it was one.
    pub(crate) token: Option<Token>,
}

impl From<Identity> for Visitor {
    fn from(identity: Identity) -> Self {
        Self {
            identity,
            token: None,
        }
    }
}

impl Visitor {
    /// Returns the user who has sent these headers.
    pub(crate) fn new(identity: Identity, headers: &HeaderMap) -> Self {
        let token = bearer_token(headers).ok();
        let token = token.map(|token| Token(token.into()));
        Self { identity, token }
    }
}

/// A bearer token, which no log shows.
#[derive(Clone, PartialEq)]
pub(crate) struct Token(pub(super) Arc<str>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The codes and sessions of a cloud; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    codes: Grants,
    sessions: Grants,
}

impl Sessions {
    /// Adds a code for a user and returns it.
    pub(super) fn add_code(&self, user: Visitor, now: Instant) -> String {
        self.0.lock().codes.add(user, now + CODE_LIFETIME, now)
    }

    /// Begins a session with a code, which becomes invalid. Returns the id of the session, its lifetime, and the user.
    pub(super) fn begin(&self, code: &str, now: Instant) -> Option<(String, Duration, Visitor)> {
        let mut tables = self.0.lock();
        let user = tables.codes.user(code, now)?;
        tables.codes.0.remove(code);
        let lifetime = match user.identity.is_master() {
            true => SESSION_LIFETIME,
            false => USER_LIFETIME,
        };
        let id = tables.sessions.add(user.clone(), now + lifetime, now);
        Some((id, lifetime, user))
    }

    /// Returns the user of a session.
    pub(super) fn user(&self, id: &str, now: Instant) -> Option<Visitor> {
        self.0.lock().sessions.user(id, now)
    }

    /// Reports whether the session's account must be checked again, once per interval.
    pub(super) fn begin_check(&self, id: &str, now: Instant) -> bool {
        let mut tables = self.0.lock();
        let Some(checked) = tables
            .sessions
            .0
            .get_mut(id)
            .map(|grant| &mut grant.checked)
        else {
            return false;
        };
        let is_due = now >= *checked + CHECK_INTERVAL;
        if is_due {
            *checked = now;
        }
        is_due
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.0.lock().sessions.0.remove(id);
    }
}

/// Users by their random text.
#[derive(Debug, Default)]
struct Grants(HashMap<String, Grant>);

#[derive(Debug)]
struct Grant {
    user: Visitor,
    end: Instant,
    /// When it was last checked that the account and the token are valid.
    checked: Instant,
}

impl Grants {
    fn add(&mut self, user: Visitor, end: Instant, now: Instant) -> String {
        self.0.retain(|_, grant| grant.end > now);
        let of_user = |other: &Visitor| other.identity.user == user.identity.user;
        if (self.0.values().filter(|grant| of_user(&grant.user))).count() >= MAX_OF_USER {
            self.remove_oldest(of_user);
        }
        if self.0.len() >= MAX_GRANTS {
            self.remove_oldest(|_| true);
        }
        let text = URL_SAFE_NO_PAD.encode(clock::rng().random::<[u8; 32]>());
        let grant = Grant {
            user,
            end,
            checked: now,
        };
        self.0.insert(text.clone(), grant);
        text
    }

    fn remove_oldest(&mut self, is_meant: impl Fn(&Visitor) -> bool) {
        let meant = self.0.iter().filter(|(_, grant)| is_meant(&grant.user));
        let oldest = meant.min_by_key(|(_, grant)| grant.end);
        if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
            self.0.remove(&oldest);
        }
    }

    fn user(&self, text: &str, now: Instant) -> Option<Visitor> {
        let grant = self.0.get(text)?;
        (grant.end > now).then(|| grant.user.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_valid_once_and_for_a_while_and_sessions_longer() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let master = || Visitor::from(Identity::master());
        let code = sessions.add_code(master(), now);
        assert_eq!(sessions.begin("wrong", now), None);
        let (id, _, user) = sessions.begin(&code, now).unwrap();
        assert_eq!(user, master());
        assert_eq!(sessions.begin(&code, now), None);
        assert_eq!(sessions.user(&code, now), None);
        let late = now + SESSION_LIFETIME;
        assert!(sessions.user(&id, late - Duration::from_secs(1)).is_some());
        assert_eq!(sessions.user(&id, late), None);
        let code = sessions.add_code(master(), now);
        assert_eq!(sessions.begin(&code, now + CODE_LIFETIME), None);
        sessions.end(&id);
        assert_eq!(sessions.user(&id, now), None);
    }

    #[test]
    fn oldest_session_of_a_user_ends_if_the_user_has_too_many() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let begin = |second, user: &Identity| {
            let at = now + Duration::from_secs(second);
            let code = sessions.add_code(user.clone().into(), at);
            sessions.begin(&code, at).unwrap().0
        };
        let is_open = |id: &String| sessions.user(id, now).is_some();
        let other = Identity {
            user: "other".to_owned(),
            ..Identity::default()
        };
        let of_other = begin(0, &other);
        let of_master = |second| begin(second, &Identity::master());
        let ids: Vec<String> = (1..=MAX_OF_USER as u64 + 1).map(of_master).collect();
        assert!(!is_open(&ids[0]) && ids[1..].iter().all(is_open));
        assert!(is_open(&of_other));
    }
}
