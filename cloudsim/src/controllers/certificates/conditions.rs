//! The conditions of certificate requests.

use k8s_openapi::{
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Returns the conditions of a request.
pub(super) fn conditions(
    request: &CertificateSigningRequest,
) -> &[CertificateSigningRequestCondition] {
    request
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

/// Returns the condition `Approved`.
pub(crate) fn approved_condition() -> CertificateSigningRequestCondition {
    condition(
        "Approved",
        "AutoApproved",
        "Auto approving the serving certificate of the node",
    )
}

/// Returns a condition that holds from now on.
pub(super) fn condition(
    type_: &str,
    reason: &str,
    message: &str,
) -> CertificateSigningRequestCondition {
    let now = Some(Time(clock::now()));
    CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: now.clone(),
        last_transition_time: now,
    }
}
