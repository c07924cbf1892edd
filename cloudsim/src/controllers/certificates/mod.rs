//! Certificate requests of nodes' servers: approved or denied, signed, and deleted when nobody needs them any more.
//!
//! In: CertificateSigningRequests for the signer `kubernetes.io/kubelet-serving`, which is what MetaServer asks for. Out: their
//! conditions and certificates. Requests for other signers are left to whoever serves those.
//!
//! Source: Kubernetes' controllers `csrsigning` and `csrcleaner`; the approver of CloudCore.

mod approval;
mod approver;
mod cleaner;
mod conditions;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::enroll::{Ca, pem_certificate};

pub(crate) use self::conditions::approved;
use self::{
    approval::{Decision, ReservedNames, SIGNER, readable},
    conditions::{condition, conditions},
};
pub use self::{approver::Approver, cleaner::run as clean};

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
    /// Decides which requests are approved.
    pub approver: Approver,
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
    if request.spec.signer_name != SIGNER || request.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match Stage::of(&request) {
        Stage::Pending if signer.approves => {
            let condition = match signer.approver.decide(client, &request.spec).await? {
                Decision::Approve => approved(),
                Decision::Deny(why) => {
                    warn!(request = name, why, "a certificate is denied");
                    condition("Denied", "NotTheNodesOwn", &why)
                }
                Decision::Leave => return Ok(Action::await_change()),
                Decision::Wait => return Ok(Action::requeue(UNTIL_CONNECTED)),
            };
            let patch = json!({"metadata": {"resourceVersion": request.resource_version()}, "status": {"conditions": [condition]}});
            raced(api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(patch)).await)
        }
        Stage::Approved if signer.signs => {
            let reserved = signer.approver.reserved_names(client).await?;
            let status = match sign(&request, signer, &reserved) {
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

/// The certificate, PEM. Also what a person has approved must be for nothing that no node may have, and a node's for that very node.
fn sign(
    request: &CertificateSigningRequest,
    signer: &Signer,
    reserved: &ReservedNames,
) -> Result<String, String> {
    let wanted = readable(&request.spec)?;
    if let Some(never) = reserved.find(&wanted) {
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
