//! Codes of login links, and sessions: random texts with a user and an end. All in memory, with bounds.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use kubeapi::Identity;
use parking_lot::Mutex;

/// How long a login link is valid.
pub(super) const CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// How long a session is valid.
pub(super) const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The most codes, and the most sessions. Another one replaces the oldest.
const MAX_GRANTS: usize = 64;

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
    pub(super) fn add_code(&self, user: Identity, now: Instant) -> String {
        self.0.lock().codes.add(user, now + CODE_LIFETIME, now)
    }

    /// Begins a session with a code, which becomes invalid. Returns the id of the session and the user.
    pub(super) fn begin(&self, code: &str, now: Instant) -> Option<(String, Identity)> {
        let mut tables = self.0.lock();
        let user = tables.codes.user(code, now)?;
        tables.codes.0.remove(code);
        let end = now + SESSION_LIFETIME;
        Some((tables.sessions.add(user.clone(), end, now), user))
    }

    /// Returns the user of a session.
    pub(super) fn user(&self, id: &str, now: Instant) -> Option<Identity> {
        self.0.lock().sessions.user(id, now)
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.0.lock().sessions.0.remove(id);
    }
}

/// Users by their random text, with its end.
#[derive(Debug, Default)]
struct Grants(HashMap<String, (Identity, Instant)>);

impl Grants {
    fn add(&mut self, user: Identity, end: Instant, now: Instant) -> String {
        self.0.retain(|_, (_, end)| *end > now);
        while self.0.len() >= MAX_GRANTS {
            let oldest = self.0.iter().min_by_key(|(_, (_, end))| *end);
            let Some(oldest) = oldest.map(|(text, _)| text.clone()) else {
                break;
            };
            self.0.remove(&oldest);
        }
        let text = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        self.0.insert(text.clone(), (user, end));
        text
    }

    fn user(&self, text: &str, now: Instant) -> Option<Identity> {
        let (user, end) = self.0.get(text)?;
        (*end > now).then(|| user.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_valid_once_and_for_a_while_and_sessions_longer() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.add_code(Identity::master(), now);
        assert_eq!(sessions.begin("wrong", now), None);
        let (id, user) = sessions.begin(&code, now).unwrap();
        assert_eq!(user, Identity::master());
        assert_eq!(sessions.begin(&code, now), None);
        assert_eq!(sessions.user(&code, now), None);
        let late = now + SESSION_LIFETIME;
        assert!(sessions.user(&id, late - Duration::from_secs(1)).is_some());
        assert_eq!(sessions.user(&id, late), None);
        let code = sessions.add_code(Identity::master(), now);
        assert_eq!(sessions.begin(&code, now + CODE_LIFETIME), None);
        sessions.end(&id);
        assert_eq!(sessions.user(&id, now), None);
    }

    #[test]
    fn oldest_session_ends_if_there_are_too_many() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let begin = |second| {
            let at = now + Duration::from_secs(second);
            let code = sessions.add_code(Identity::master(), at);
            sessions.begin(&code, at).unwrap().0
        };
        let ids: Vec<String> = (0..=MAX_GRANTS as u64).map(begin).collect();
        let is_open = |id: &String| sessions.user(id, now).is_some();
        assert!(!is_open(&ids[0]) && ids[1..].iter().all(is_open));
    }
}
