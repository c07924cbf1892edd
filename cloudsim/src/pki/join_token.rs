//! The join token in Secret `kubeedge/tokensecret`: valid for a day, made anew each half day.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kube::Client;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::enroll::{Ca, Token};

use super::{PkiError, secrets::Secrets};

const SECRET: &str = "tokensecret";
const FIELD: &str = "tokendata";

/// How long a token is good for; CloudCore's twice `tokenRefreshDuration`.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a new one is made; CloudCore's `tokenRefreshDuration`. Older ones stay good for their time.
const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);

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

    /// Renews it each half day until `shutdown`.
    pub async fn keep_fresh(client: Client, ca: Arc<Ca>, shutdown: CancellationToken) {
        let mut ticks = interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // the first tick comes at once, and the token of the start is fresh
        ticks.tick().await;
        loop {
            tokio::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(error) = Self::renew(&client, &ca).await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "the join token could not be renewed; the old one is good for 12 hours more"
                );
            }
        }
    }
}
