//! Certificate requests of nodes' servers: approved or denied, signed, and deleted when they are old.
//!
//! In: CertificateSigningRequests for the signer `kubernetes.io/kubelet-serving`, which MetaServer uses. Out: their conditions and
//! certificates. Requests for other signers are ignored.
//!
//! Source: Kubernetes' controllers `csrsigning` and `csrcleaner`; the approver of CloudCore.

mod approval;
mod approver;
mod cleaner;
mod conditions;

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::{Action, Controller};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use kubeapi::LenientObject;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::enroll::{Ca, pem_certificate};

pub(crate) use self::conditions::approved_condition;
use self::{
    approval::{Decision, ReservedNames, SIGNER, readable},
    conditions::{condition, conditions},
};
pub use self::{approver::Approver, cleaner::run as clean};
use super::{panics::catch_panics, requeue::after_failure};

/// The longest validity of a certificate; that of nodes' client certificates.
const MAX_VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The shortest validity; Kubernetes'.
const MIN_VALIDITY: Duration = Duration::from_secs(600);
/// How often a request is checked whose node is not connected.
const CONNECTED_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The configuration of the controller.
#[derive(Clone, Debug)]
pub struct Signer {
    /// Whether requests are approved and denied.
    pub approves: bool,
    /// Whether approved requests are signed.
    pub signs: bool,
    /// The CA.
    pub ca: Arc<Ca>,
    /// Decides which requests are approved.
    pub approver: Approver,
}

/// Runs until `shutdown`.
pub async fn run(client: Client, signer: Signer, shutdown: CancellationToken) {
    Controller::new(
        Api::<LenientObject<CertificateSigningRequest>>::all(client.clone()),
        watcher::Config::default(),
    )
    .run(
        catch_panics("csrsigning", reconcile),
        |_, error| after_failure("handle a certificate request", error),
        Arc::new((client, signer)),
        shutdown,
    )
    .await;
}

async fn reconcile(
    request: Arc<LenientObject<CertificateSigningRequest>>,
    context: Arc<(Client, Signer)>,
) -> Result<Action, kube::Error> {
    let Some(request) = request.decoded_or_logged() else {
        return Ok(Action::await_change());
    };
    let (client, signer) = &*context;
    let api = Api::<CertificateSigningRequest>::all(client.clone());
    let name = request.name_any();
    if request.spec.signer_name != SIGNER || request.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match RequestPhase::of(request) {
        RequestPhase::Pending if signer.approves => {
            let condition = match signer.approver.decide(client, &request.spec).await? {
                Decision::Approve => approved_condition(),
                Decision::Deny(why) => {
                    warn!(request = name, reason = why, "certificate request denied");
                    condition("Denied", "NotTheNodesOwn", &why)
                }
                Decision::Leave => return Ok(Action::await_change()),
                Decision::Wait => return Ok(Action::requeue(CONNECTED_POLL_INTERVAL)),
            };
            let patch = json!({"metadata": {"resourceVersion": request.resource_version()}, "status": {"conditions": [condition]}});
            ignore_conflict(
                api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await,
            )
        }
        RequestPhase::Approved if signer.signs => {
            let reserved = signer.approver.reserved_names(client).await?;
            let status = match sign(request, signer, &reserved) {
                Ok(pem) => {
                    info!(request = name, "serving certificate of a node issued");
                    json!({"certificate": ByteString(pem.into_bytes())})
                }
                Err(why) => {
                    let mut conditions = conditions(request).to_vec();
                    conditions.push(condition("Failed", "SignerValidationFailure", &why));
                    json!({"conditions": conditions})
                }
            };
            let patch = json!({"metadata": {"resourceVersion": request.resource_version()}, "status": status});
            ignore_conflict(
                api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await,
            )
        }
        RequestPhase::Pending | RequestPhase::Approved | RequestPhase::Finished => {
            Ok(Action::await_change())
        }
    }
}

/// The phase of a request.
enum RequestPhase {
    /// Not decided yet.
    Pending,
    /// Approved, and not signed yet.
    Approved,
    /// Signed, denied or failed.
    Finished,
}

impl RequestPhase {
    fn of(request: &CertificateSigningRequest) -> Self {
        let has = |wanted: &str| {
            conditions(request)
                .iter()
                .any(|condition| condition.type_ == wanted)
        };
        let is_issued = request
            .status
            .as_ref()
            .is_some_and(|status| status.certificate.is_some());
        match (has("Approved"), has("Denied") || has("Failed") || is_issued) {
            (_, true) => Self::Finished,
            (true, false) => Self::Approved,
            (false, false) => Self::Pending,
        }
    }
}

/// Signs a certificate; returns it as PEM. Even an approved request may contain no reserved name, and a node's only that node's own
/// names.
fn sign(
    request: &CertificateSigningRequest,
    signer: &Signer,
    reserved: &ReservedNames,
) -> Result<String, String> {
    let wanted = readable(&request.spec)?;
    if let Some(never) = reserved.find(&wanted) {
        return Err(format!(
            "{never} belongs to the cloud, a service or another node; request other names"
        ));
    }
    let asked = request
        .spec
        .expiration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let validity = asked
        .map_or(MAX_VALIDITY, Duration::from_secs)
        .clamp(MIN_VALIDITY, MAX_VALIDITY);
    let signed = signer
        .ca
        .sign_serving(&wanted, validity, clock::system_now());
    signed
        .map(|der| pem_certificate(&der))
        .map_err(|error| error.to_string())
}

/// On a conflict or after a deletion, the watch leads here again.
fn ignore_conflict<T>(written: Result<T, kube::Error>) -> Result<Action, kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            Ok(Action::await_change())
        }
        written => written.map(|_| Action::await_change()),
    }
}

#[cfg(test)]
mod tests;
