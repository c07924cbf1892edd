//! Checks `approve` and `sign` on the signer of a certificate request, besides the right to write the request.
//!
//! Source: Kubernetes' admission plugins `CertificateApproval` and `CertificateSigning`.

use serde_json::Value;

use super::roles;
use crate::Server;
use kubeapi::access::{attributes::Attributes, rules};
use kubeapi::{
    object::text_or_empty,
    registry::Builtin,
    request::{call::Call, subresource::Subresource},
    status::StatusError,
};

const GROUP: &str = "certificates.k8s.io";

/// Refuses an update from `old` to `new` for which the caller lacks `approve` or `sign`.
pub(crate) async fn check(
    api: &Server,
    call: &Call,
    old: &Value,
    new: &Value,
) -> Result<(), StatusError> {
    let Some(caller) = call.caller.as_ref().filter(|caller| !caller.is_master()) else {
        return Ok(());
    };
    if !call.target.kind.is(Builtin::CertificateSigningRequest) {
        return Ok(());
    }
    let verb = match call.target.part {
        Some(Subresource::Approval) => "approve",
        Some(Subresource::Status) if old.get("status") != new.get("status") => "sign",
        _ => return Ok(()),
    };
    let signer = text_or_empty(old, "/spec/signerName");
    let of_domain = signer
        .split_once('/')
        .map(|(domain, _)| format!("{domain}/*"));
    let held = roles::grants(api, caller, "").await?;
    let may = |name: &str| {
        let wanted = Attributes {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            resource: "signers".to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        held.iter()
            .any(|grant| grant.rules.iter().any(|rule| rules::allows(rule, &wanted)))
    };
    if may(signer) || of_domain.is_some_and(|all| may(&all)) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(StatusError::forbidden(
        &call.target.kind,
        text_or_empty(old, "/metadata/name"),
        &why,
    ))
}
