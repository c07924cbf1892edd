//! What runs: what the cloud calls, each call by itself, and the server for local programs.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::StatusCode;
use rustls::ServerConfig;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};
use wire::{Down, Downstream, Header, Upstream, text::short};

use super::{
    body::Large,
    call::{self, Call, Refusal},
    client::Client,
    figures::Figures,
    ports::Ports,
    server::{self, RequestHandler},
    shares::{self, Place, Shares},
    targets::Unkept,
};
use crate::{
    edgehub::EdgeHub,
    metamanager::RouterMessages,
    rt::{Heart, Part, PartError, unix_millis},
};

/// After the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long an answer may wait for room on the way to the cloud.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls and refusals that are not sent yet; beyond them the cloud is not read. Each ends by its deadlines.
const MAX_TASKS: usize = 2 * shares::ALL;

/// See [`super::new`].
#[derive(Debug)]
pub struct Task {
    pub(super) messages: RouterMessages,
    pub(super) handler: Arc<RequestHandler>,
    pub(super) runner: Arc<CallRunner>,
    pub(super) tls: Option<ServerConfig>,
    pub(super) listens: watch::Sender<Option<SocketAddr>>,
}

/// What calls of the cloud are carried out with.
#[derive(Debug)]
pub(super) struct CallRunner {
    pub(super) client: Client,
    pub(super) call_timeout: Duration,
    pub(super) ports: Ports,
    pub(super) shares: Shares,
    pub(super) large: Large,
    pub(super) hub: EdgeHub,
    pub(super) figures: Arc<Figures>,
}

/// A call that may be carried out, with its places.
struct Admitted {
    call: Call,
    place: Place,
    /// Of a large request; held as long as its bytes are.
    _large: Option<OwnedSemaphorePermit>,
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        self.run_again(&Heart::unheard(), shutdown).await;
    }

    /// The same for whoever may drop it in its middle, and call it again: what was called then is not answered, and the cloud's caller is
    /// told so by its timeout.
    async fn run_again(&mut self, heart: &Heart, shutdown: CancellationToken) {
        let Self { messages, handler, runner, tls, listens } = self;
        runner.figures.watch(runner.shares.clone());
        heart.beat();
        while let Err(failure) = handler.targets.load().await {
            error!(
                error = &failure as &dyn std::error::Error,
                "the URLs that rules have registered cannot be read"
            );
            tokio::time::sleep(STORE_RETRY_DELAY).await;
            heart.beat();
        }
        // what serves ends with this, however this ends
        let serving = shutdown.child_token();
        let _end = serving.clone().drop_guard();
        let serve = server::run(handler.clone(), tls.clone(), listens, serving);
        tokio::select! {
            // cancel-safe, all: a call that is not answered ends by its caller's timeout
            () = shutdown.cancelled() => {}
            ((), ()) = async { tokio::join!(serve, listen(messages, handler, runner, heart)) } => {}
        }
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        self.run_again(&heart, shutdown).await;
        Ok(())
    }
}

/// Takes what the cloud says, and never waits for a local server.
async fn listen(
    messages: &mut RouterMessages,
    handler: &RequestHandler,
    runner: &Arc<CallRunner>,
    heart: &Heart,
) {
    let mut calls = JoinSet::new();
    loop {
        let rest = heart.rest();
        let message = tokio::select! {
            // cancel-safe, both: nothing is taken unless the arm wins
            message = messages.next(), if calls.len() < MAX_TASKS => message,
            Some(ended) = calls.join_next() => {
                if let Err(failure) = ended {
                    error!(error = &failure as &dyn std::error::Error, "a call of the cloud has failed");
                }
                continue;
            }
        };
        drop(rest);
        let Some(Down { header, body }) = message else { break };
        match body {
            Downstream::ServiceTarget { on, url, .. } => register(handler, &url, on).await,
            Downstream::ServiceCall { method, target, request } => {
                match runner.admit(&method, &target, &request) {
                    Ok(admitted) => drop(calls.spawn(carry_out(runner.clone(), header, admitted))),
                    Err(refused) => drop(calls.spawn(refuse(runner.clone(), header, refused))),
                }
            }
            other => warn!(what = other.kind(), "this is not for ServiceBus"),
        }
    }
    // the cloud's messages have ended, and with them soon everything else
    let _rest = heart.rest();
    std::future::pending().await
}

async fn register(handler: &RequestHandler, url: &str, on: bool) {
    loop {
        match handler.targets.set(url, on).await {
            Ok(()) => return,
            Err(Unkept::Store(failure)) => {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "a URL that a rule registers cannot be kept"
                );
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
            Err(unkept @ (Unkept::NoUrl | Unkept::TooMany)) => {
                warn!(url = short(url), %unkept, "a URL that a rule registers is not kept");
                return;
            }
        }
    }
}

impl CallRunner {
    /// Whether a call may be carried out; what cannot be even begun with costs nothing.
    fn admit(&self, method: &str, target: &str, request: &serde_json::Value) -> Result<Admitted, Refusal> {
        let call = Call::read(method, target, request)?;
        self.ports.check(call.port)?;
        let place = self.shares.admit(call.port)?;
        let large = self.large.place(call.body.len()).ok_or_else(|| {
            let why = "too many large requests for services on this node are under way; call again later";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        Ok(Admitted { call, place, _large: large })
    }

    async fn send(&self, header: &Header, message: Upstream) {
        let message = message.into_message(unix_millis()).answering(&header.msg_id);
        // without a connection nobody waits for it any more: whoever called was told when the connection ended
        if !matches!(timeout(SEND_TIMEOUT, self.hub.send(message)).await, Ok(Ok(()))) {
            self.figures.unsent();
            debug!("the answer of a local server did not reach the cloud");
        }
    }
}

async fn carry_out(runner: Arc<CallRunner>, header: Header, admitted: Admitted) {
    let Admitted { call, place, _large } = admitted;
    let (port, patience) = (call.port, runner.call_timeout);
    let called = async {
        // the turn ends with the answer: whoever waits for it does not wait for the cloud
        let _turn = place.turn().await;
        runner.client.call(call, &runner.large).await
    };
    match timeout(patience, called).await {
        Ok(Ok((answer, _large_answer))) => {
            runner.figures.answered();
            runner.send(&header, call::message(answer)).await;
        }
        Ok(Err(refused)) => refuse(runner.clone(), header, refused).await,
        Err(_) => {
            let why = format!(
                "the service at port {port} of this node did not answer within {patience:?} (modules.serviceBus.callTimeout)"
            );
            refuse(runner.clone(), header, Refusal::new(StatusCode::GATEWAY_TIMEOUT, why)).await;
        }
    }
}

async fn refuse(runner: Arc<CallRunner>, header: Header, refused: Refusal) {
    debug!(
        status = refused.status.as_u16(),
        why = refused.why,
        "a call of the cloud has no answer of a local server"
    );
    runner.figures.refused(refused.status);
    runner.send(&header, call::refusal(&refused)).await;
}
