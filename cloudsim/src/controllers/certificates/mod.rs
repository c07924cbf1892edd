//! Certificate requests of nodes' servers: approved or denied, signed, and deleted when nobody needs them any more.
//!
//! In: CertificateSigningRequests for the signer `kubernetes.io/kubelet-serving`, which is what MetaServer asks for. Out: their
//! conditions and certificates. Requests for other signers are left to whoever serves those.
//!
//! Source: Kubernetes' controllers `csrsigning` and `csrcleaner`; the approver of CloudCore.

mod cleaner;
mod judge;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::{
            CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
        },
        core::v1::{Node, Service},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::enroll::{Ca, pem_certificate};

pub use self::cleaner::run as clean;
use self::judge::{Known, Taken, Verdict, judge, readable};
use crate::hub::Sessions;

/// The longest a certificate is good for; the lifetime of those by which nodes are known.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The shortest; Kubernetes'.
const SHORTEST: Duration = Duration::from_secs(600);
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// How often a request is looked at whose node is not connected.
const UNTIL_CONNECTED: Duration = Duration::from_secs(5);

/// Which of the two parts run, and with what.
#[derive(Clone, Debug)]
pub struct Signer {
    /// Whether requests are approved and denied.
    pub approves: bool,
    /// Whether what is approved is signed.
    pub signs: bool,
    /// The authority.
    pub ca: Arc<Ca>,
    /// What requests are judged by.
    pub judge: Judge,
}

/// What requests of nodes are judged by.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The names and addresses of the cloud itself, which no node may have but the loopback ones.
    pub cloud: Vec<String>,
    /// Where nodes are connected from.
    pub sessions: Sessions,
}

impl Judge {
    /// Why a node that is connected here may not have what it asks for; nothing where it may. `spec`: with the node as the one who asks.
    pub(crate) async fn objects(
        &self,
        client: &Client,
        spec: &CertificateSigningRequestSpec,
    ) -> Result<Option<String>, kube::Error> {
        if spec.signer_name != judge::SIGNER {
            return Ok(Some(format!("the signer {:?} is not {:?}", spec.signer_name, judge::SIGNER)));
        }
        Ok(match self.verdict(client, spec).await? {
            Verdict::Approve => None,
            Verdict::Deny(why) => Some(why),
            Verdict::Wait => Some("the node is not connected".to_owned()),
            Verdict::Leave => Some("it is no node that asks".to_owned()),
        })
    }

    async fn verdict(
        &self,
        client: &Client,
        spec: &CertificateSigningRequestSpec,
    ) -> Result<Verdict, kube::Error> {
        let known = match judge::user(spec) {
            Some(node) => self.known(client, node).await?,
            None => Known::default(),
        };
        Ok(judge(spec, &known, &self.taken(client).await?))
    }

    /// What is known of the node.
    async fn known(&self, client: &Client, node: &str) -> Result<Known, kube::Error> {
        let seen = self.sessions.address(node);
        let is_shared = seen.is_some_and(|seen| self.sessions.is_shared(node, seen));
        let object = Api::<Node>::all(client.clone()).get_opt(node).await?;
        Ok(Known { seen, is_shared, allowed: Known::allowed(object.as_ref()) })
    }

    /// What no node may have.
    async fn taken(&self, client: &Client) -> Result<Taken, kube::Error> {
        let services = Api::<Service>::all(client.clone()).list(&ListParams::default()).await?;
        let nodes = Api::<Node>::all(client.clone()).list_metadata(&ListParams::default()).await?;
        Ok(Taken::by(&self.cloud, &services.items, nodes.iter().map(ResourceExt::name_any)))
    }
}

/// Runs until `shutdown`.
pub async fn run(client: Client, signer: Signer, shutdown: CancellationToken) {
    Controller::new(Api::<CertificateSigningRequest>::all(client.clone()), watcher::Config::default())
        .run(
            reconcile,
            |_, error, _| {
                warn!(
                    error = error as &dyn std::error::Error,
                    "a certificate request could not be dealt with"
                );
                Action::requeue(AFTER_ERROR)
            },
            Arc::new((client, signer)),
        )
        // not kube's own graceful shutdown: begun before the first list has come, that one never ends
        .take_until(shutdown.cancelled_owned())
        .for_each(|_| async {})
        .await;
}

async fn reconcile(
    request: Arc<CertificateSigningRequest>,
    context: Arc<(Client, Signer)>,
) -> Result<Action, kube::Error> {
    let (client, signer) = &*context;
    let api = Api::<CertificateSigningRequest>::all(client.clone());
    let name = request.name_any();
    if request.spec.signer_name != judge::SIGNER || request.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match Stage::of(&request) {
        Stage::Pending if signer.approves => {
            let condition = match signer.judge.verdict(client, &request.spec).await? {
                Verdict::Approve => approved(),
                Verdict::Deny(why) => {
                    warn!(request = name, why, "a certificate is denied");
                    condition("Denied", "NotTheNodesOwn", &why)
                }
                Verdict::Leave => return Ok(Action::await_change()),
                Verdict::Wait => return Ok(Action::requeue(UNTIL_CONNECTED)),
            };
            let patch = json!({"metadata": {"resourceVersion": request.resource_version()}, "status": {"conditions": [condition]}});
            raced(api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(patch)).await)
        }
        Stage::Approved if signer.signs => {
            let taken = signer.judge.taken(client).await?;
            let status = match sign(&request, signer, &taken) {
                Ok(pem) => {
                    info!(request = name, "a certificate for a node's server is issued");
                    json!({"certificate": ByteString(pem.into_bytes())})
                }
                Err(why) => {
                    let mut conditions = conditions(&request).to_vec();
                    conditions.push(condition("Failed", "SignerValidationFailure", &why));
                    json!({"conditions": conditions})
                }
            };
            let patch =
                json!({"metadata": {"resourceVersion": request.resource_version()}, "status": status});
            raced(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await)
        }
        Stage::Pending | Stage::Approved | Stage::Over => Ok(Action::await_change()),
    }
}

/// How far a request has come.
enum Stage {
    /// Nobody has decided.
    Pending,
    /// It waits for its certificate.
    Approved,
    /// It has it, or will never have it.
    Over,
}

impl Stage {
    fn of(request: &CertificateSigningRequest) -> Self {
        let has = |wanted: &str| conditions(request).iter().any(|condition| condition.type_ == wanted);
        let is_issued = request.status.as_ref().is_some_and(|status| status.certificate.is_some());
        match (has("Approved"), has("Denied") || has("Failed") || is_issued) {
            (_, true) => Self::Over,
            (true, false) => Self::Approved,
            (false, false) => Self::Pending,
        }
    }
}

fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// What is said of a request that is the node's own.
pub(crate) fn approved() -> CertificateSigningRequestCondition {
    condition("Approved", "AutoApproved", "the node's own server")
}

fn condition(type_: &str, reason: &str, message: &str) -> CertificateSigningRequestCondition {
    let now = Some(Time(Timestamp::now()));
    CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: now.clone(),
        last_transition_time: now,
    }
}

/// The certificate, PEM. Also what a person has approved must be for nothing that no node may have, and a node's for that very node.
fn sign(request: &CertificateSigningRequest, signer: &Signer, taken: &Taken) -> Result<String, String> {
    let wanted = readable(&request.spec)?;
    if let Some(never) = taken.of(&wanted) {
        return Err(format!("{never} is the cloud's, a service's or another node's: no node may have it"));
    }
    let asked = request.spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let validity = asked.map_or(LONGEST, Duration::from_secs).clamp(SHORTEST, LONGEST);
    let signed = signer.ca.sign_serving(&wanted, validity, SystemTime::now());
    signed.map(|der| pem_certificate(&der)).map_err(|error| error.to_string())
}

/// Somebody else was faster, or has deleted it: the watch tells.
fn raced<T>(written: Result<T, kube::Error>) -> Result<Action, kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Action::await_change()),
        written => written.map(|_| Action::await_change()),
    }
}

#[cfg(test)]
mod tests;
