//! `/healthz`, `/livez` and `/readyz`, with `?verbose`, `?exclude=` and each check by its name, in the words of the real server.
//!
//! | check | what |
//! |---|---|
//! | `ping` | the API answers |
//! | `store` | the store takes writes; not part of `/livez`, as a restart of the server frees no disk |

use std::time::Duration;

use clock::Instant;

use http::{Response, StatusCode};
use tokio::time::timeout;

use crate::{
    request::body::{self, Body},
    status::StatusError,
};
use objectstore::Store;

/// The checks of each page, in the order of its output.
const CHECKS: [&str; 2] = ["ping", "store"];
/// How long a result is cached, so that frequent requests cause no more writes.
const VALIDITY: Duration = Duration::from_secs(5);
/// How long the check of the store may take until it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Caches the last result of the check of the store.
#[derive(Debug, Default)]
pub struct StoreCheckCache(tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>);

impl StoreCheckCache {
    /// Checks that `store` takes writes, unless it did so within the last five seconds.
    ///
    /// # Errors
    /// Why it takes none, or that it does not answer in time.
    pub async fn check(&self, store: &dyn Store) -> Result<(), String> {
        let mut last = self.0.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < VALIDITY
            // one that has failed is tried again at once
            && result.is_ok()
        {
            return Ok(());
        }
        let result = match timeout(TIMEOUT, store.check()).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it does not answer within {} s", TIMEOUT.as_secs())),
        };
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

/// Answers a health page: `which` is the page, `one` the requested check.
pub(crate) async fn answer(
    checked: &StoreCheckCache,
    store: &dyn Store,
    which: &str,
    one: Option<&str>,
    query: &str,
) -> Result<Response<Body>, StatusError> {
    let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let mut excluded: Vec<&str> = parameters
        .iter()
        .filter(|(name, _)| name == "exclude")
        .map(|(_, value)| value.as_ref())
        .collect();
    let is_verbose = parameters.iter().any(|(name, _)| name == "verbose");
    let checks = CHECKS
        .into_iter()
        .filter(|check| which != "livez" || *check != "store");
    let checks: Vec<_> = checks
        .filter(|check| one.is_none_or(|one| one == *check))
        .collect();
    if checks.is_empty() {
        return Err(StatusError::no_resource());
    }
    let (mut lines, mut failed) = (String::new(), Vec::new());
    for check in checks {
        if one.is_none() && excluded.contains(&check) {
            excluded.retain(|name| *name != check);
            lines.push_str(&format!("[+]{check} excluded: ok\n"));
            continue;
        }
        let result = if check == "store" {
            checked.check(store).await
        } else {
            Ok(())
        };
        match result {
            Ok(()) => lines.push_str(&format!("[+]{check} ok\n")),
            Err(why) => {
                tracing::debug!(check, reason = why, "health check failed");
                // as there: whoever may not log in learns which, and not why
                lines.push_str(&format!("[-]{check} failed: reason withheld\n"));
                failed.push(check);
            }
        }
    }
    if !excluded.is_empty() && one.is_none() {
        let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(", ")
        ));
    }
    if failed.is_empty() {
        let all = format!("{lines}{which} check passed\n");
        return Ok(body::text(if is_verbose && one.is_none() {
            all
        } else {
            "ok".to_owned()
        }));
    }
    let text = match one {
        Some(_) => "internal server error: reason withheld\n".to_owned(),
        None => format!("{lines}{which} check failed\n"),
    };
    let mut answer = body::text(text);
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    Ok(answer)
}
