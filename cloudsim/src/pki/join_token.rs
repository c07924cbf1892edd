//! Join tokens: the one in Secret `kubeedge/tokensecret`, valid for a day, made anew each half day, for any number of new names; and
//! those that an administrator asks for, for one node, a time and a number of uses.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kube::Client;
use kubeapi::store::Store;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;
use wire::enroll::{Ca, Token, TokenScope, is_node_name, verify_bearer};

use super::{
    PkiError,
    records::{Change, Entry, Expected, Records, RecordsError},
    reserved_names,
    secrets::Secrets,
};

const SECRET: &str = "tokensecret";
const FIELD: &str = "tokendata";

/// How long a token is good for; CloudCore's twice `tokenRefreshDuration`.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// A new one is made when the last is not good for longer; CloudCore's `tokenRefreshDuration`. Older ones stay good for their time.
const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// How often it is looked at.
const CHECK: Duration = Duration::from_secs(30 * 60);

/// The longest life of a token that is asked for, seconds: thirty days.
const MAX_SECONDS: u64 = 30 * 24 * 60 * 60;
/// How often a use is counted while others count theirs.
const ATTEMPTS: usize = 8;

/// A token that an administrator wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// The only node that it is for; none: any new one.
    #[serde(default)]
    pub node: Option<String>,
    /// How long it is good for, seconds; none: a day.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// How many certificates it is good for; none: any number.
    #[serde(default)]
    pub uses: Option<u32>,
}

/// Why there is no token, or it is not taken.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// What is asked for is not given.
    #[error("{0}")]
    Asked(String),
    /// It has been used as often as it may be, or was taken away.
    #[error("the token has been used as often as it may be; get a new one with `cloudsim token`")]
    UsedUp,
    /// Its uses could not be counted.
    #[error("the uses of join tokens cannot be read or written")]
    Store(#[from] RecordsError),
    /// It could not be made.
    #[error("the token could not be made")]
    Made(#[from] wire::enroll::TokenError),
}

/// Counts the uses of tokens that have a number of them; cheap to clone.
#[derive(Clone, Debug)]
pub struct JoinTokens {
    records: Records,
}

impl JoinTokens {
    /// What the records are called where they are kept.
    const KIND: &str = "jointokens";

    /// Counted in the store under the API, in a collection that the API does not serve.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { records: Records::in_store(Self::KIND, store) }
    }

    /// Counted in a cluster.
    pub fn in_cluster(client: &Client) -> Self {
        Self { records: Records::in_cluster(Self::KIND, client) }
    }

    /// A token of this authority.
    pub async fn mint(&self, ca: &Ca, request: &TokenRequest) -> Result<String, NoToken> {
        if let Some(node) = request.node.as_deref().filter(|node| !is_node_name(node)) {
            return Err(NoToken::Asked(format!("no node can be called {node:?}")));
        }
        if let Some((node, why)) =
            request.node.as_deref().and_then(|node| Some((node, reserved_names::reason(node, &[])?)))
        {
            return Err(NoToken::Asked(format!("no node can be called {node:?}: {why}")));
        }
        let seconds = request.seconds.unwrap_or(LIFETIME.as_secs());
        if !(1..=MAX_SECONDS).contains(&seconds) || request.uses == Some(0) {
            return Err(NoToken::Asked(
                "a token is good for one use at least, and for 1 s to 30 days".to_owned(),
            ));
        }
        let mut scope = TokenScope { node: request.node.clone(), id: None };
        if let Some(uses) = request.uses {
            let id = Uuid::new_v4().to_string();
            let value = json!({"metadata": {"name": id}, "uses": uses, "expires": now() + seconds});
            let mut changes =
                vec![Change { name: id.clone(), expected: Expected::Absent, value: Some(value) }];
            changes.extend(self.expired().await?);
            self.records.write(changes).await?;
            scope.id = Some(id);
        }
        Ok(Token::mint_for(ca, SystemTime::now(), Duration::from_secs(seconds), &scope)?)
    }

    /// The removal of those that nobody can use any more.
    async fn expired(&self) -> Result<Vec<Change>, RecordsError> {
        let is_over = |entry: &Entry| entry.value["expires"].as_u64().is_none_or(|end| end < now());
        let over = self.records.list().await?.into_iter().filter(is_over);
        Ok(over.map(|entry| Change { name: entry.name, expected: Expected::Anything, value: None }).collect())
    }

    /// Uses the token of this name once.
    pub async fn take(&self, id: &str) -> Result<(), NoToken> {
        for _ in 0..ATTEMPTS {
            let Entry { name, mut value, version } = self.records.get(id).await?.ok_or(NoToken::UsedUp)?;
            let left = value["uses"].as_u64().unwrap_or_default().checked_sub(1).ok_or(NoToken::UsedUp)?;
            value["uses"] = left.into();
            let change = Change { name, expected: version, value: Some(value) };
            match self.records.write(vec![change]).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_raced() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(NoToken::UsedUp)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Keeps the token fresh.
#[derive(Debug)]
pub struct JoinToken;

impl JoinToken {
    /// The token that stands in the API, for whoever has access to it.
    pub async fn read(client: &Client) -> Result<Option<String>, PkiError> {
        let Some(data) = Secrets::new(client).get(SECRET).await? else { return Ok(None) };
        let text = String::from_utf8_lossy(data.field(FIELD)?).into_owned();
        Ok(Some(text))
    }

    /// Makes a token and writes it down.
    pub async fn renew(client: &Client, ca: &Ca) -> Result<String, PkiError> {
        let token = Token::mint(ca, SystemTime::now(), LIFETIME)?;
        Secrets::new(client).put(SECRET, BTreeMap::from([(FIELD, token.clone().into_bytes())])).await?;
        Ok(token)
    }

    /// The token that stands, where it is one of this authority for any node and good for half a day more; else a new one.
    pub async fn ensure(client: &Client, ca: &Ca) -> Result<String, PkiError> {
        match Self::read(client).await {
            Ok(Some(token)) if is_fresh(token.trim(), ca, now()) => Ok(token.trim().to_owned()),
            // what is damaged is made anew: nobody could join with it
            Ok(_) | Err(PkiError::Secret { .. }) => Self::renew(client, ca).await,
            Err(error) => Err(error),
        }
    }

    /// Sees to it until `shutdown` that a token stands which is good for half a day.
    pub async fn keep_fresh(client: Client, ca: Arc<Ca>, shutdown: CancellationToken) {
        let mut ticks = interval(CHECK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // the first tick comes at once, and the token of the start is fresh
        ticks.tick().await;
        loop {
            tokio::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(error) = Self::ensure(&client, &ca).await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "the join token could not be renewed; this is tried again within the hour"
                );
            }
        }
    }
}

/// Whether the token is this authority's, for any node, and good for half a day from `now` on, seconds since 1970.
fn is_fresh(token: &str, ca: &Ca, now: u64) -> bool {
    let Ok(token) = Token::parse(token) else { return false };
    let scope = verify_bearer(token.jwt(), ca, UNIX_EPOCH + Duration::from_secs(now));
    let expires = token.claims().map(|claims| claims.expires);
    token.check_ca(ca.cert_der()).is_ok()
        && scope.is_ok_and(|scope| scope == TokenScope::default())
        && expires.is_ok_and(|expires| expires > now.saturating_add(REFRESH.as_secs()))
}

#[cfg(test)]
mod tests {
    use kubeapi::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_token_is_good_for_its_node_its_time_and_its_uses() {
        let (tokens, ca) = (JoinTokens::new(MemoryStore::new()), Ca::generate(SystemTime::now()).unwrap());
        let request = TokenRequest { node: Some("edge-1".into()), seconds: Some(600), uses: Some(2) };
        let token = tokens.mint(&ca, &request).await.unwrap();
        let jwt = Token::parse(&token).unwrap().jwt().to_owned();
        let scope = verify_bearer(&jwt, &ca, SystemTime::now()).unwrap();
        assert_eq!(scope.node.as_deref(), Some("edge-1"));
        assert!(verify_bearer(&jwt, &ca, SystemTime::now() + Duration::from_secs(601)).is_err());
        let id = scope.id.unwrap();
        for _ in 0..2 {
            tokens.take(&id).await.unwrap();
        }
        assert!(matches!(tokens.take(&id).await, Err(NoToken::UsedUp)));
        assert!(matches!(tokens.take("unknown").await, Err(NoToken::UsedUp)));
        let shared = tokens.mint(&ca, &TokenRequest::default()).await.unwrap();
        let scope = verify_bearer(Token::parse(&shared).unwrap().jwt(), &ca, SystemTime::now()).unwrap();
        assert_eq!(scope, TokenScope::default());
    }

    #[tokio::test]
    async fn a_token_stays_as_long_as_it_is_good_for_half_a_day() {
        let client = kubeapi::Api::builder(MemoryStore::new()).build().client("default");
        crate::controllers::namespaces::ensure_initial(&client).await.unwrap();
        let (ca, other) =
            (Ca::generate(SystemTime::now()).unwrap(), Ca::generate(SystemTime::now()).unwrap());
        let first = JoinToken::ensure(&client, &ca).await.unwrap();
        assert_eq!(JoinToken::ensure(&client, &ca).await.unwrap(), first);
        assert!(is_fresh(&first, &ca, now()) && !is_fresh(&first, &other, now()));
        assert!(!is_fresh(&first, &ca, now() + REFRESH.as_secs() + 1) && !is_fresh("a.b", &ca, now()));
        assert_ne!(
            JoinToken::ensure(&client, &other).await.unwrap(),
            first,
            "another authority's is good for nothing"
        );
        Secrets::new(&client)
            .put(SECRET, BTreeMap::from([("other", b"x".to_vec()), (FIELD, b"rubbish".to_vec())]))
            .await
            .unwrap();
        let made = JoinToken::ensure(&client, &ca).await.unwrap();
        assert_eq!(JoinToken::read(&client).await.unwrap(), Some(made));
    }

    #[tokio::test]
    async fn tokens_out_of_bounds_are_refused() {
        let (tokens, ca) = (JoinTokens::new(MemoryStore::new()), Ca::generate(SystemTime::now()).unwrap());
        let none = TokenRequest::default();
        for request in [
            TokenRequest { node: Some("Edge 1".into()), ..none.clone() },
            TokenRequest { node: Some("kubernetes".into()), ..none.clone() },
            TokenRequest { seconds: Some(0), ..none.clone() },
            TokenRequest { seconds: Some(MAX_SECONDS + 1), ..none.clone() },
            TokenRequest { uses: Some(0), ..none.clone() },
        ] {
            assert!(matches!(tokens.mint(&ca, &request).await, Err(NoToken::Asked(_))), "{request:?}");
        }
    }
}
