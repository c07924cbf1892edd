//! The tokens in URLs and their requests: each token is valid for one request and for a minute.

use std::{collections::HashMap, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use clock::Instant;
use parking_lot::Mutex;

use super::request::StreamRequest;

/// How long a token is valid: the kubelet's value.
const LIFETIME: Duration = Duration::from_secs(60);
/// The most tokens at a time: the kubelet's value.
const MAX_TOKENS: usize = 1000;
/// The bytes of a token before it is encoded as text.
const LENGTH: usize = 12;

#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<String, (Instant, StreamRequest)>>);

impl Tokens {
    /// Returns a token for this request; `None` if too many tokens wait.
    pub(super) fn add(&self, ask: StreamRequest, now: Instant) -> Option<String> {
        let mut all = self.0.lock();
        if all.len() >= MAX_TOKENS {
            all.retain(|_, (since, _)| now.duration_since(*since) < LIFETIME);
        }
        if all.len() >= MAX_TOKENS {
            return None;
        }
        let token = URL_SAFE_NO_PAD.encode(clock::rng().random::<[u8; LENGTH]>());
        all.insert(token.clone(), (now, ask));
        Some(token)
    }

    /// Returns the request of a token, which is then used up.
    pub(super) fn take(&self, token: &str, now: Instant) -> Option<StreamRequest> {
        let (since, ask) = self.0.lock().remove(token)?;
        (now.duration_since(since) < LIFETIME).then_some(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once_and_for_a_minute() {
        let tokens = Tokens::default();
        let start = Instant::now();
        let ask = || StreamRequest::Exec(wire::cri::ExecRequest::default());
        let token = tokens.add(ask(), start).unwrap();
        assert_eq!(tokens.take(&token, start), Some(ask()));
        assert_eq!(tokens.take(&token, start), None);
        let token = tokens.add(ask(), start).unwrap();
        assert_eq!(tokens.take(&token, start + LIFETIME), None);
    }

    #[test]
    fn only_so_many_wait_and_old_ones_make_room() {
        let tokens = Tokens::default();
        let start = Instant::now();
        let ask = || StreamRequest::Attach(wire::cri::AttachRequest::default());
        for _ in 0..MAX_TOKENS {
            assert!(tokens.add(ask(), start).is_some());
        }
        assert_eq!(tokens.add(ask(), start), None);
        assert!(tokens.add(ask(), start + LIFETIME).is_some());
    }
}
