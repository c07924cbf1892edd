//! Calls that the cloud carries out.

use std::{fmt, sync::Arc, time::Duration};

use clock::Instant;
use componentbase::Link;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::debug;
use wire::{
    Down, Downstream, Upstream,
    application::{Application, Status, Target, Verb, Watches},
};

use super::super::response::ApiError;
use crate::edgehub::{EdgeHub, Unreachable};

/// How long the cloud may take to answer a call; EdgeCore's value.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(10);
/// A cloud that has not answered a call in time most likely runs no dynamic controller. It is not called again for this time,
/// or until the next connection.
const UNRESPONSIVE_PERIOD: Duration = Duration::from_secs(60);

/// Why a call was not carried out.
#[derive(Debug)]
pub(super) enum CallError {
    /// The cloud cannot be called; only what is stored is known.
    Unavailable(Unavailable),
    /// The cloud has refused the call.
    Refused(ApiError),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(away) => f.write_str(away.message()),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

/// Why the cloud cannot be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// There is no connection.
    Offline,
    /// The cloud does not answer calls.
    Unresponsive,
}

impl Unavailable {
    /// Returns the reason as a text.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Offline => "the cloud is not connected",
            Self::Unresponsive => {
                "the cloud is connected and does not answer; CloudCore needs modules.dynamicController.enable: true"
            }
        }
    }

    /// Returns the error for a request that needs the cloud.
    pub(super) fn error(self, what: &str) -> ApiError {
        let why = format!("{what}: {}", self.message());
        if self == Self::Offline {
            ApiError::unavailable(&why)
        } else {
            ApiError::timeout(&why)
        }
    }
}

/// The connection for calls to the cloud; cheap to clone.
#[derive(Clone)]
pub(super) struct Cloud {
    node: Arc<str>,
    hub: EdgeHub,
    silent: Arc<Mutex<Option<(Link, Instant)>>>,
}

impl Cloud {
    pub(super) fn new(node: &str, hub: EdgeHub) -> Self {
        Self {
            node: node.into(),
            hub,
            silent: Arc::default(),
        }
    }

    /// Returns the name of the node that calls.
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Returns the connection as it is now; `None` while the cloud cannot be called.
    pub(super) fn link(&self) -> Option<Link> {
        let link = *self.hub.link().borrow();
        (self.unavailable(link).is_none()).then_some(link)
    }

    /// Returns the state of the connection as a watch channel.
    pub(super) fn links(&self) -> tokio::sync::watch::Receiver<Link> {
        self.hub.link()
    }

    fn unavailable(&self, link: Link) -> Option<Unavailable> {
        let is_silent = |(then, since): &(Link, Instant)| {
            *then == link && since.elapsed() < UNRESPONSIVE_PERIOD
        };
        match link {
            Link::Down => Some(Unavailable::Offline),
            Link::Up(_) => self
                .silent
                .lock()
                .as_ref()
                .filter(|silent| is_silent(silent))
                .map(|_| Unavailable::Unresponsive),
        }
    }

    /// Builds a call for objects.
    pub(super) fn call(
        &self,
        target: &Target,
        verb: Verb,
        option: &Value,
        body: Vec<u8>,
        part: &str,
    ) -> Application {
        Application::new(&self.node, target.to_string(), verb, option, body, part)
    }

    /// Returns what the cloud answers at a path that names no objects.
    pub(super) async fn get_path(&self, path: &str) -> Result<Vec<u8>, CallError> {
        self.execute(Application::new(
            &self.node,
            path.to_owned(),
            Verb::Get,
            &json!({}),
            Vec::new(),
            "",
        ))
        .await
    }

    /// Executes a call. Returns its result as JSON, which is empty for calls without one.
    pub(super) async fn execute(&self, call: Application) -> Result<Vec<u8>, CallError> {
        let (key, verb) = (call.key.clone(), call.verb);
        let content = match self
            .request(Upstream::Application(call.write()))
            .await?
            .body
        {
            Downstream::Application(content) => content,
            other => return Err(unexpected_answer(other.form().as_str())),
        };
        let answer = Application::read(&content).map_err(|why| unexpected_answer(&why))?;
        match answer.status {
            Status::Approved => Ok(answer.resp_body),
            _ => {
                debug!(
                    key,
                    verb = verb.as_str(),
                    reason = answer.reason,
                    "cloud rejected a call"
                );
                Err(CallError::Refused(match answer.refusal() {
                    Some(status) => ApiError::of(status.clone()),
                    None => ApiError::bad_gateway(&format!(
                        "the cloud has not carried it out: {}",
                        answer.reason
                    )),
                }))
            }
        }
    }

    /// Sends the list of watches that clients keep; the cloud ends all others.
    pub(super) async fn send_watches(&self, watches: &Watches) -> Result<(), CallError> {
        let content = serde_json::to_value(watches).unwrap_or_default();
        self.request(Upstream::WatchSync(content)).await.map(drop)
    }

    async fn request(&self, request: Upstream) -> Result<Down, CallError> {
        let link = *self.hub.link().borrow();
        if let Some(away) = self.unavailable(link) {
            return Err(CallError::Unavailable(away));
        }
        match self
            .hub
            .request(request.into_message(clock::unix_millis()), CLOUD_TIMEOUT)
            .await
        {
            Ok(answer) => Ok(Down::from(answer)),
            Err(Unreachable::Timeout(_)) => {
                *self.silent.lock() = Some((link, Instant::now()));
                Err(CallError::Unavailable(Unavailable::Unresponsive))
            }
            Err(Unreachable::Offline | Unreachable::Superseded) => {
                Err(CallError::Unavailable(Unavailable::Offline))
            }
        }
    }
}

fn unexpected_answer(what: &str) -> CallError {
    CallError::Refused(ApiError::bad_gateway(&format!(
        "the cloud's answer is of another kind than the call: {what}"
    )))
}
