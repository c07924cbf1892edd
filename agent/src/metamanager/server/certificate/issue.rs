//! Requests a certificate from the cloud: a CertificateSigningRequest, polled until it is answered.

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wire::{
    Answer, Change, Down, Downstream, ResourceType, Upstream,
    enroll::{CertError, Csr, pem_certificate_request},
    lane::needs_ack,
};

use crate::edgehub::{EdgeHub, Unreachable};

/// The signer of the certificate.
const SIGNER_NAME: &str = "kubernetes.io/kubelet-serving";
/// The namespace that EdgeCore sends with these objects, which have none.
const NAMESPACE: &str = "default";
/// How long the cloud may take to answer.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(10);
/// The wait before the second poll; each further wait is twice the one before.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// How long a request may wait for its approval before another one is made; the kubelet's.
const PENDING_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Why no certificate was issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum IssueError {
    /// The cloud is not connected, or does not answer.
    #[error("cannot reach the cloud")]
    Unreachable(#[from] Unreachable),
    /// The cloud refuses the request.
    #[error("the cloud refuses the certificate request: {0}")]
    Refused(String),
    /// Nobody has approved it.
    #[error(
        "certificate request {0} was not approved within {PENDING_TIMEOUT:?}; run kubectl get csr, then kubectl certificate approve {0}"
    )]
    Pending(String),
    /// The certificate cannot be used.
    #[error("cannot use the certificate from the cloud: {0}")]
    Unusable(String),
    /// The files cannot be written.
    #[error("cannot write {path} or its key; check owner and free space of the directory")]
    Files {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The key cannot be generated.
    #[error("cannot create a key")]
    Key(#[from] CertError),
}

/// Requests a certificate for these addresses. Returns it as PEM with its new key, SEC1 DER.
pub(super) async fn request(
    hub: &EdgeHub,
    node: &str,
    addresses: &[IpAddr],
) -> Result<(Vec<u8>, Vec<u8>), IssueError> {
    let csr = Csr::for_server(node, addresses)?;
    let name = format!("csr-{}", clock::uuid().simple());
    let kind = ResourceType::CertificateSigningRequest;
    let insert = Upstream::put(
        Change::Insert,
        NAMESPACE,
        &kind,
        &name,
        csr_object(&name, csr.der()),
    );
    request_object(hub, insert).await?;
    let (end, mut wait) = (Instant::now() + PENDING_TIMEOUT, FIRST_RETRY_DELAY);
    loop {
        sleep(wait).await;
        wait = (wait * 2).min(MAX_RETRY_DELAY);
        let answered = match request_object(hub, Upstream::query(NAMESPACE, &kind, &name)).await {
            // the request is stored in the cloud, and polled again when the connection is back
            Err(IssueError::Unreachable(_)) => CsrState::Pending,
            answer => csr_state(&answer?)?,
        };
        match answered {
            CsrState::Issued(pem) => return Ok((pem, csr.key_sec1_der())),
            CsrState::Refused(why) => return Err(IssueError::Refused(why)),
            CsrState::Pending if Instant::now() > end => return Err(IssueError::Pending(name)),
            CsrState::Pending => {}
        }
    }
}

fn csr_object(name: &str, csr: &[u8]) -> Value {
    json!({
        "kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1", "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(pem_certificate_request(csr)), "signerName": SIGNER_NAME,
            "usages": ["digital signature", "server auth"],
        },
    })
}

/// The state of a CertificateSigningRequest.
#[derive(Debug, PartialEq, Eq)]
enum CsrState {
    Pending,
    /// The request was denied, or cannot be signed.
    Refused(String),
    /// The certificate, PEM.
    Issued(Vec<u8>),
}

/// Reads the state from a CertificateSigningRequest.
fn csr_state(request: &Value) -> Result<CsrState, IssueError> {
    let mut conditions = request
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let is_refusal =
        |condition: &&Value| matches!(condition["type"].as_str(), Some("Denied" | "Failed"));
    if let Some(refusal) = conditions.find(is_refusal) {
        let text = |key: &str| refusal[key].as_str().unwrap_or_default().to_owned();
        return Ok(CsrState::Refused(format!(
            "{} ({})",
            text("message"),
            text("reason")
        )));
    }
    match request
        .pointer("/status/certificate")
        .and_then(Value::as_str)
    {
        None | Some("") => Ok(CsrState::Pending),
        Some(text) => STANDARD
            .decode(text)
            .map(CsrState::Issued)
            .map_err(|error| IssueError::Unusable(error.to_string())),
    }
}

/// Returns the object that the cloud answers with.
async fn request_object(hub: &EdgeHub, question: Upstream) -> Result<Value, IssueError> {
    let message = hub
        .request(question.into_message(clock::unix_millis()), CLOUD_TIMEOUT)
        .await?;
    if needs_ack(&message) {
        hub.send(message.acknowledgement(clock::unix_millis()))
            .await?;
    }
    let refused = |status: Value| {
        IssueError::Refused(status["message"].as_str().unwrap_or_default().to_owned())
    };
    match Down::from(message).body {
        Downstream::Answer {
            answer: Answer::Found(object),
            ..
        } => Ok(object),
        Downstream::Answer {
            answer: Answer::Response(response),
            ..
        } => response.into_result().map_err(refused),
        Downstream::Answer {
            answer: Answer::Failed(status),
            ..
        } => Err(refused(status)),
        _ => Err(IssueError::Refused(
            "its answer is of another kind than the request".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_certificate_request_is_read() {
        let with = |status: Value| csr_state(&json!({"status": status})).ok();
        assert_eq!(with(json!({})), Some(CsrState::Pending));
        assert_eq!(
            with(json!({"conditions": [{"type": "Approved"}]})),
            Some(CsrState::Pending)
        );
        assert_eq!(
            with(json!({"conditions": [{"type": "Approved"}], "certificate": "QUI="})),
            Some(CsrState::Issued(b"AB".to_vec()))
        );
        assert_eq!(
            with(json!({"conditions": [{"type": "Denied", "reason": "No", "message": "never"}]})),
            Some(CsrState::Refused("never (No)".into()))
        );
        assert_eq!(with(json!({"certificate": "***"})), None);
    }
}
