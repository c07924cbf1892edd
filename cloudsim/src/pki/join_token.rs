//! Join tokens: the one in Secret `kubeedge/tokensecret`, valid for a day, renewed every half day, for any number of new names; and those
//! that an administrator requests, for one node, a lifetime and a number of uses.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use kube::Client;
use objectstore::Store;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::enroll::{Ca, Token, TokenScope, is_node_name, verify_bearer};

use super::{
    PkiError,
    records::{Change, Precondition, RecordEntry, Records, RecordsError},
    reserved_names,
    secrets::Secrets,
};

const SECRET: &str = "tokensecret";
const FIELD: &str = "tokendata";

/// Lifetime of a token; twice CloudCore's `tokenRefreshDuration`.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The remaining lifetime below which a token is renewed; CloudCore's `tokenRefreshDuration`. Older tokens stay valid until they expire.
const REFRESH_BEFORE_EXPIRY: Duration = Duration::from_secs(12 * 60 * 60);
/// How often the token is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// The longest lifetime that can be requested, seconds: thirty days.
const MAX_SECONDS: u64 = 30 * 24 * 60 * 60;
/// How often the counting of a use is tried when others change the same record.
const MAX_ATTEMPTS: usize = 8;

/// A request for a join token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// The only node for which it is valid; `None` for any new node.
    #[serde(default)]
    pub node: Option<String>,
    /// Its lifetime in seconds; `None` for a day.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// For how many certificates it can be used; `None` for any number.
    #[serde(default)]
    pub uses: Option<u32>,
}

/// A token cannot be issued or used.
#[derive(Debug, thiserror::Error)]
pub enum JoinTokenError {
    /// The request is invalid.
    #[error("{0}")]
    Asked(String),
    /// The token has no uses left, or was removed.
    #[error("the token has reached its number of uses; get a new one with `cloudsim token`")]
    UsedUp,
    /// Its uses could not be counted.
    #[error("cannot count the uses of the join token in the store")]
    Store(#[from] RecordsError),
    /// It could not be signed.
    #[error("cannot create the token")]
    Made(#[from] wire::enroll::TokenError),
}

/// Counts the uses of tokens with a limited number; cheap to clone.
#[derive(Clone, Debug)]
pub struct JoinTokens {
    records: Records,
}

impl JoinTokens {
    /// The kind of the records.
    const KIND: &str = "jointokens";

    /// Creates counters in the store under the API, in a collection that the API does not serve.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            records: Records::in_store(Self::KIND, store),
        }
    }

    /// Creates counters in a cluster.
    pub fn in_cluster(client: &Client) -> Self {
        Self {
            records: Records::in_cluster(Self::KIND, client),
        }
    }

    /// Issues a token of this authority.
    pub async fn mint(&self, ca: &Ca, request: &TokenRequest) -> Result<String, JoinTokenError> {
        if let Some(node) = request.node.as_deref().filter(|node| !is_node_name(node)) {
            return Err(JoinTokenError::Asked(format!(
                "no node can be called {node:?}"
            )));
        }
        if let Some((node, why)) = request
            .node
            .as_deref()
            .and_then(|node| Some((node, reserved_names::reason(node, &[])?)))
        {
            return Err(JoinTokenError::Asked(format!(
                "no node can be called {node:?}: {why}"
            )));
        }
        let seconds = request.seconds.unwrap_or(LIFETIME.as_secs());
        if !(1..=MAX_SECONDS).contains(&seconds) || request.uses == Some(0) {
            return Err(JoinTokenError::Asked(
                "a token needs at least one use, and a lifetime of 1 s to 30 days".to_owned(),
            ));
        }
        let mut scope = TokenScope {
            node: request.node.clone(),
            id: None,
        };
        if let Some(uses) = request.uses {
            let id = clock::uuid().to_string();
            let value = json!({"metadata": {"name": id}, "uses": uses, "expires": now() + seconds});
            let mut changes = vec![Change {
                name: id.clone(),
                expected: Precondition::Absent,
                value: Some(value),
            }];
            changes.extend(self.remove_expired().await?);
            self.records.write(changes).await?;
            scope.id = Some(id);
        }
        Ok(Token::mint_for(
            ca,
            clock::system_now(),
            Duration::from_secs(seconds),
            &scope,
        )?)
    }

    /// Returns the removals of expired records.
    async fn remove_expired(&self) -> Result<Vec<Change>, RecordsError> {
        let is_over = |entry: &RecordEntry| {
            entry.value["expires"]
                .as_u64()
                .is_none_or(|end| end < now())
        };
        let over = self.records.list().await?.into_iter().filter(is_over);
        Ok(over
            .map(|entry| Change {
                name: entry.name,
                expected: Precondition::Anything,
                value: None,
            })
            .collect())
    }

    /// Uses the token with this id once.
    pub async fn take(&self, id: &str) -> Result<(), JoinTokenError> {
        for _ in 0..MAX_ATTEMPTS {
            let RecordEntry {
                name,
                mut value,
                version,
            } = self.records.get(id).await?.ok_or(JoinTokenError::UsedUp)?;
            let left = value["uses"]
                .as_u64()
                .unwrap_or_default()
                .checked_sub(1)
                .ok_or(JoinTokenError::UsedUp)?;
            value["uses"] = left.into();
            let change = Change {
                name,
                expected: version,
                value: Some(value),
            };
            match self.records.write(vec![change]).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(JoinTokenError::UsedUp)
    }
}

fn now() -> u64 {
    clock::since_unix_epoch().as_secs()
}

/// The token that is stored in the API, and renewed.
#[derive(Debug)]
pub struct JoinToken;

impl JoinToken {
    /// Returns the stored token.
    pub async fn read(client: &Client) -> Result<Option<String>, PkiError> {
        let Some(data) = Secrets::new(client).get(SECRET).await? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(data.field(FIELD)?).into_owned();
        Ok(Some(text))
    }

    /// Makes and stores a token.
    pub async fn renew(client: &Client, ca: &Ca) -> Result<String, PkiError> {
        let token = Token::mint(ca, clock::system_now(), LIFETIME)?;
        Secrets::new(client)
            .put(
                SECRET,
                BTreeMap::from([(FIELD, token.clone().into_bytes())]),
            )
            .await?;
        Ok(token)
    }

    /// Returns the stored token if it is of this authority, for any node and valid for half a day more; otherwise makes a new one.
    pub async fn ensure(client: &Client, ca: &Ca) -> Result<String, PkiError> {
        match Self::read(client).await {
            Ok(Some(token)) if is_fresh(token.trim(), ca, now()) => Ok(token.trim().to_owned()),
            // an invalid token is replaced: nobody could join with it
            Ok(_) | Err(PkiError::Secret { .. } | PkiError::Damaged { .. }) => {
                Self::renew(client, ca).await
            }
            Err(error) => Err(error),
        }
    }

    /// Renews the token until `shutdown`, so that it is always valid for half a day.
    pub async fn keep_fresh(client: Client, ca: Arc<Ca>, shutdown: CancellationToken) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // the first tick comes at once, when the token has just been checked
        ticks.tick().await;
        loop {
            clock::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(error) = Self::ensure(&client, &ca).await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to renew join token; retrying within the hour"
                );
            }
        }
    }
}

/// Reports whether the token is of this authority, for any node, and valid for half a day from `now` (seconds since 1970).
fn is_fresh(token: &str, ca: &Ca, now: u64) -> bool {
    let Ok(token) = Token::parse(token) else {
        return false;
    };
    let scope = verify_bearer(token.jwt(), ca, UNIX_EPOCH + Duration::from_secs(now));
    let expires = token.claims().map(|claims| claims.expires);
    token.check_ca(ca.cert_der()).is_ok()
        && scope.is_ok_and(|scope| scope == TokenScope::default())
        && expires
            .is_ok_and(|expires| expires > now.saturating_add(REFRESH_BEFORE_EXPIRY.as_secs()))
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_token_is_good_for_its_node_its_time_and_its_uses() {
        let (tokens, ca) = (
            JoinTokens::new(MemoryStore::new()),
            Ca::generate(clock::system_now()).unwrap(),
        );
        let request = TokenRequest {
            node: Some("edge-1".into()),
            seconds: Some(600),
            uses: Some(2),
        };
        let token = tokens.mint(&ca, &request).await.unwrap();
        let jwt = Token::parse(&token).unwrap().jwt().to_owned();
        let scope = verify_bearer(&jwt, &ca, clock::system_now()).unwrap();
        assert_eq!(scope.node.as_deref(), Some("edge-1"));
        assert!(verify_bearer(&jwt, &ca, clock::system_now() + Duration::from_secs(601)).is_err());
        let id = scope.id.unwrap();
        for _ in 0..2 {
            tokens.take(&id).await.unwrap();
        }
        assert!(matches!(
            tokens.take(&id).await,
            Err(JoinTokenError::UsedUp)
        ));
        assert!(matches!(
            tokens.take("unknown").await,
            Err(JoinTokenError::UsedUp)
        ));
        let shared = tokens.mint(&ca, &TokenRequest::default()).await.unwrap();
        let scope = verify_bearer(
            Token::parse(&shared).unwrap().jwt(),
            &ca,
            clock::system_now(),
        )
        .unwrap();
        assert_eq!(scope, TokenScope::default());
    }

    #[tokio::test]
    async fn a_token_stays_as_long_as_it_is_good_for_half_a_day() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        crate::controllers::namespace_defaults::ensure_initial(&client)
            .await
            .unwrap();
        let (ca, other) = (
            Ca::generate(clock::system_now()).unwrap(),
            Ca::generate(clock::system_now()).unwrap(),
        );
        let first = JoinToken::ensure(&client, &ca).await.unwrap();
        assert_eq!(JoinToken::ensure(&client, &ca).await.unwrap(), first);
        assert!(is_fresh(&first, &ca, now()) && !is_fresh(&first, &other, now()));
        assert!(
            !is_fresh(&first, &ca, now() + REFRESH_BEFORE_EXPIRY.as_secs() + 1)
                && !is_fresh("a.b", &ca, now())
        );
        assert_ne!(
            JoinToken::ensure(&client, &other).await.unwrap(),
            first,
            "another authority's is good for nothing"
        );
        Secrets::new(&client)
            .put(
                SECRET,
                BTreeMap::from([("other", b"x".to_vec()), (FIELD, b"rubbish".to_vec())]),
            )
            .await
            .unwrap();
        let made = JoinToken::ensure(&client, &ca).await.unwrap();
        assert_eq!(JoinToken::read(&client).await.unwrap(), Some(made));
    }

    #[tokio::test]
    async fn tokens_out_of_bounds_are_refused() {
        let (tokens, ca) = (
            JoinTokens::new(MemoryStore::new()),
            Ca::generate(clock::system_now()).unwrap(),
        );
        let none = TokenRequest::default();
        for request in [
            TokenRequest {
                node: Some("Edge 1".into()),
                ..none.clone()
            },
            TokenRequest {
                node: Some("kubernetes".into()),
                ..none.clone()
            },
            TokenRequest {
                seconds: Some(0),
                ..none.clone()
            },
            TokenRequest {
                seconds: Some(MAX_SECONDS + 1),
                ..none.clone()
            },
            TokenRequest {
                uses: Some(0),
                ..none.clone()
            },
        ] {
            assert!(
                matches!(
                    tokens.mint(&ca, &request).await,
                    Err(JoinTokenError::Asked(_))
                ),
                "{request:?}"
            );
        }
    }
}
