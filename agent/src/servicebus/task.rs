//! The task: runs the cloud's calls concurrently, and the server for local programs.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use componentbase::{Heartbeat, Part, PartError};
use http::StatusCode;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};
use wire::{Down, Downstream, Header, Upstream, text::short};

use super::{
    body::LargeBodyLimiter,
    call::{self, Call, CallError},
    client::Client,
    metrics::ServiceBusMetrics,
    ports::Ports,
    server::{self, RequestHandler},
    shares::{self, CallPermit, ConcurrencyLimits},
    targets::TargetError,
};
use crate::{config::CertificateFiles, edgehub::EdgeHub, metamanager::RouterMessages};

/// The wait after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long an answer may wait for space in the queue to the cloud.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// The most calls and refusals whose answer is not sent yet; beyond them the cloud's messages are not read. Each ends by its
/// deadlines.
const MAX_TASKS: usize = 2 * shares::MAX_CALLS;

/// The task that [`super::new`] builds.
#[derive(Debug)]
pub struct Task {
    pub(super) messages: RouterMessages,
    pub(super) handler: Arc<RequestHandler>,
    pub(super) runner: Arc<CallRunner>,
    pub(super) tls: Option<CertificateFiles>,
    pub(super) listens: watch::Sender<Option<SocketAddr>>,
}

/// Executes the cloud's calls.
#[derive(Debug)]
pub(super) struct CallRunner {
    pub(super) client: Client,
    pub(super) call_timeout: Duration,
    pub(super) ports: Ports,
    pub(super) shares: ConcurrencyLimits,
    pub(super) large: LargeBodyLimiter,
    pub(super) hub: EdgeHub,
    pub(super) metrics: Arc<ServiceBusMetrics>,
}

/// An admitted call with its permits.
struct AdmittedCall {
    call: Call,
    permit: CallPermit,
    /// The permit of a large request, held as long as its bytes.
    _large: Option<OwnedSemaphorePermit>,
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        self.run_restartable(&Heartbeat::unmonitored(), shutdown)
            .await;
    }

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again: running calls are not
    /// answered, and the cloud's callers time out.
    async fn run_restartable(&mut self, heartbeat: &Heartbeat, shutdown: CancellationToken) {
        let Self {
            messages,
            handler,
            runner,
            tls,
            listens,
        } = self;
        runner.metrics.set_shares(runner.shares.clone());
        heartbeat.beat();
        while let Err(failure) = handler.targets.load().await {
            error!(
                error = &failure as &dyn std::error::Error,
                "failed to read the registered URLs of rules; retrying"
            );
            tokio::time::sleep(STORE_RETRY_DELAY).await;
            heartbeat.beat();
        }
        // the server ends with this future, however it ends
        let serving = shutdown.child_token();
        let _end = serving.clone().drop_guard();
        let serve = server::run(handler.clone(), tls.as_ref(), listens, serving);
        clock::select! {
            // cancel-safe: a call without an answer ends by its caller's timeout
            () = shutdown.cancelled() => {}
            ((), ()) = async { tokio::join!(serve, listen(messages, handler, runner, heartbeat)) } => {}
        }
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        self.run_restartable(&heartbeat, shutdown).await;
        Ok(())
    }
}

/// Handles the cloud's messages, and never waits for a local server.
async fn listen(
    messages: &mut RouterMessages,
    handler: &RequestHandler,
    runner: &Arc<CallRunner>,
    heartbeat: &Heartbeat,
) {
    let mut calls = JoinSet::new();
    loop {
        let rest = heartbeat.idle();
        let message = clock::select! {
            // cancel-safe: nothing is taken unless the arm wins
            message = messages.next(), if calls.len() < MAX_TASKS => message,
            Some(ended) = calls.join_next() => {
                if let Err(failure) = ended {
                    error!(error = &failure as &dyn std::error::Error, "failed to answer a call from the cloud to a local server");
                }
                continue;
            }
        };
        drop(rest);
        let Some(Down { header, body }) = message else {
            break;
        };
        match body {
            Downstream::ServiceTarget { on, url, .. } => register(handler, &url, on).await,
            Downstream::ServiceCall {
                method,
                target,
                request,
            } => match runner.admit(&method, &target, &request) {
                Ok(admitted) => drop(calls.spawn(componentbase::in_span(execute_call(
                    runner.clone(),
                    header,
                    admitted,
                )))),
                Err(refused) => drop(calls.spawn(componentbase::in_span(refuse(
                    runner.clone(),
                    header,
                    refused,
                )))),
            },
            other => warn!(
                what = other.form().as_str(),
                "message ignored: not for ServiceBus"
            ),
        }
    }
    // the cloud's messages have ended, as everything else will soon
    let _rest = heartbeat.idle();
    std::future::pending().await
}

async fn register(handler: &RequestHandler, url: &str, on: bool) {
    loop {
        match handler.targets.set(url, on).await {
            Ok(()) => return,
            Err(TargetError::Store(failure)) => {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "failed to store the URL of a rule; retrying"
                );
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
            Err(unkept @ (TargetError::NoUrl | TargetError::TooMany)) => {
                warn!(url = short(url), error = %unkept, "cannot register the URL of a rule; URL ignored");
                return;
            }
        }
    }
}

impl CallRunner {
    /// Checks whether a call may be executed, before it costs anything.
    fn admit(
        &self,
        method: &str,
        target: &str,
        request: &serde_json::Value,
    ) -> Result<AdmittedCall, CallError> {
        let call = Call::read(method, target, request)?;
        self.ports.check(call.port)?;
        let permit = self.shares.admit(call.port)?;
        let large = self.large.permit(call.body.len()).ok_or_else(|| {
            let why =
                "too many large requests for services on this node are under way; call again later";
            CallError::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        Ok(AdmittedCall {
            call,
            permit,
            _large: large,
        })
    }

    async fn send(&self, header: &Header, message: Upstream) {
        let message = message
            .into_message(clock::unix_millis())
            .answering(&header.msg_id);
        // without a connection the answer is of no use: the caller got an error when the connection ended
        if !matches!(
            timeout(SEND_TIMEOUT, self.hub.send(message)).await,
            Ok(Ok(()))
        ) {
            self.metrics.unsent();
            debug!("failed to send the answer of a local server to the cloud");
        }
    }
}

async fn execute_call(runner: Arc<CallRunner>, header: Header, admitted: AdmittedCall) {
    let AdmittedCall {
        call,
        permit,
        _large,
    } = admitted;
    let (port, patience) = (call.port, runner.call_timeout);
    let called = async {
        // the permit ends with the response: the next call does not wait for the cloud
        let _slot = permit.acquire().await;
        runner.client.call(call, &runner.large).await
    };
    match timeout(patience, called).await {
        Ok(Ok((answer, _large_answer))) => {
            runner.metrics.count_answer();
            runner.send(&header, call::message(answer)).await;
        }
        Ok(Err(refused)) => refuse(runner.clone(), header, refused).await,
        Err(_) => {
            let why = format!(
                "the service at port {port} of this node did not answer within {patience:?} (modules.serviceBus.callTimeout)"
            );
            refuse(
                runner.clone(),
                header,
                CallError::new(StatusCode::GATEWAY_TIMEOUT, why),
            )
            .await;
        }
    }
}

async fn refuse(runner: Arc<CallRunner>, header: Header, refused: CallError) {
    debug!(
        status = refused.status.as_u16(),
        reason = refused.why,
        "call of the cloud rejected"
    );
    runner.metrics.count_refused(refused.status);
    runner.send(&header, call::error_message(&refused)).await;
}
