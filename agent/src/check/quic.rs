//! Check `quic`: CloudHub's QUIC servers.

use futures::future::join_all;
use tokio::time::timeout;
use wire::text::with_causes;

use super::{
    cloud::any_of,
    cloud_answer::{SERVER_TIMEOUT, read_ca},
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{
    config::{HostPort, Transport},
    edgehub,
};

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
    let why = match timeout(SERVER_TIMEOUT, edgehub::check_quic(server, ca)).await {
        Ok(Ok(())) => return CheckResult::Passed(format!("CloudHub answers at {server} (UDP)")),
        Ok(Err(error)) => with_causes(&error),
        Err(_) => format!(
            "no answer of {server} within {} s",
            SERVER_TIMEOUT.as_secs()
        ),
    };
    CheckResult::bad(
        why,
        format!(
            "open UDP port {} of the cloud in firewalls; if the network blocks UDP, use modules.edgeHub.websocket instead",
            server.port
        ),
    )
}
