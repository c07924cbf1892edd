//! Check `quic`: CloudHub's QUIC servers.

use std::{error::Error, io::ErrorKind};

use futures::future::join_all;
use quinn::{ConnectionError, TransportErrorCode};
use tokio::time::timeout;
use wire::text::with_causes;

use super::{
    cloud::any_of,
    cloud_answer::{SERVER_TIMEOUT, no_answer, read_ca},
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{
    config::{HostPort, Transport},
    edgehub::{self, DialError, unreached_cure},
    tls::{CertificateFault, name_cure},
};

/// The TLS alerts for a certificate of an unknown CA, and for one whose signature is wrong: a CA that was created again has the same name
/// (RFC 8446, section 6.2).
const UNKNOWN_CA: u8 = 48;
const DECRYPT_ERROR: u8 = 51;

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    let hub = &inputs.config.edge_hub;
    if hub.transport != Transport::Quic {
        let why = "modules.edgeHub.quic is disabled";
        return CheckResult::NotApplicable(why.into()).into();
    }
    let ca = match read_ca(&hub.tls.ca) {
        Ok(ca) => ca,
        Err(why) => return CheckResult::Skipped(why).into(),
    };
    let asked = hub.servers.iter().map(|one| server(one, &ca));
    let none = CheckResult::NotApplicable("no server is configured".into());
    any_of(join_all(asked).await, none)
}

async fn server(server: &HostPort, ca: &[u8]) -> CheckResult {
    let checked = timeout(SERVER_TIMEOUT, edgehub::check_quic(server, ca)).await;
    match checked.unwrap_or_else(|_| Err(DialError::Connect(server.to_string(), no_answer()))) {
        Ok(()) => CheckResult::Passed(format!("CloudHub answers at {server} (UDP)")),
        Err(error) => judge(server, &error),
    }
}

/// Returns what is wrong with a server, and its cure.
fn judge(server: &HostPort, error: &DialError) -> CheckResult {
    const SETTING: &str = "modules.edgeHub.quic.server";
    let failed = |what: String, cure: String| {
        CheckResult::bad(
            format!("no QUIC connection to CloudHub at {server}: {what}"),
            cure,
        )
    };
    let closed = || {
        format!(
            "check that CloudHub listens for QUIC (cloudsim up --quic-port), and open UDP port {} of the cloud in firewalls; if the \
             network blocks UDP, use modules.edgeHub.websocket instead",
            server.port
        )
    };
    match error {
        DialError::Connect(_, error) if error.kind() == ErrorKind::NotFound => failed(
            error.to_string(),
            unreached_cure(error, &server.to_string(), SETTING),
        ),
        DialError::Connect(_, error) => failed(error.to_string(), closed()),
        DialError::Certificate(_, CertificateFault::WrongName { name, names }) => failed(
            format!("its certificate is for {names}, not for {name}"),
            name_cure(name),
        ),
        DialError::Certificate(_, fault) => {
            let text = fault.to_string();
            let (what, cure) = text
                .split_once("; ")
                .unwrap_or((&text, "compare the clocks"));
            failed(what.to_owned(), cure.to_owned())
        }
        DialError::Quic(_, error) if is_unknown_issuer(&**error) => failed(
            "its certificate is of another cloud".to_owned(),
            format!(
                "correct {SETTING}; if the cloud was reinstalled, run `edge-agent reset` and join again"
            ),
        ),
        DialError::Quic(_, error) => failed(with_causes(&**error), closed()),
        other => failed(with_causes(other), closed()),
    }
}

/// Reports whether the certificate of the server is not signed by the CA of this node's cloud.
fn is_unknown_issuer(error: &(dyn Error + 'static)) -> bool {
    let unknown = TransportErrorCode::crypto(UNKNOWN_CA);
    let wrong = TransportErrorCode::crypto(DECRYPT_ERROR);
    matches!(
        error.downcast_ref(),
        Some(ConnectionError::TransportError(own)) if own.code == unknown || own.code == wrong
    )
}
