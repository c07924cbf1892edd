//! Check `cloud`: the cloud's HTTPS servers, which issue certificates; before joining, the join token too.

use std::io::ErrorKind;

use wire::text::with_causes;

use super::{
    cloud_answer::{CloudAnswer, read_ca},
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{edgehub::EnrollError, tls::name_cure};

/// The settings with an address of the cloud.
const ADDRESS_KEYS: [&str; 4] = [
    "modules.edgeHub.httpServer",
    "modules.edgeHub.websocket.server",
    "modules.edgeHub.quic.server",
    "modules.edgeStream.server",
];

/// Reports whether an error of a connection means that no machine has the address.
pub(crate) fn is_address_unreachable(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

/// Returns the cure if no machine has the address of the cloud: it may have moved.
pub(crate) fn other_address_cure() -> String {
    format!(
        "check that the cloud runs and the route to it; if it has another address now, correct {} in edgecore.yaml and restart the agent",
        ADDRESS_KEYS.join(", ")
    )
}

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    if let Some(join) = inputs.join {
        return inputs.token_answer(join).await.0.clone().into();
    }
    if let Err(why) = read_ca(&inputs.config.edge_hub.tls.ca) {
        return CheckResult::Skipped(format!("needs certificate: {why}")).into();
    }
    let answers = inputs.cloud_answers().await;
    let none = CheckResult::NotApplicable("no HTTPS server is configured".into());
    any_of(answers.iter().map(judge).collect(), none)
}

/// Combines the results of several servers of which the agent uses the first that works: the others only warn.
pub(crate) fn any_of(parts: Vec<CheckResult>, none: CheckResult) -> Finding {
    let works = |part: &CheckResult| matches!(part, CheckResult::Passed(_));
    let has_working = parts.iter().any(works);
    let soften = |part| match part {
        CheckResult::Failed { what, cure } if has_working => CheckResult::Warning { what, cure },
        part => part,
    };
    Finding::combine(parts.into_iter().map(soften).collect(), none)
}

fn judge(answer: &CloudAnswer) -> CheckResult {
    let server = &answer.server;
    match &answer.answer {
        Ok(found) => match &found.verified {
            Ok(()) => CheckResult::Passed(format!(
                "https://{server} responds with a certificate of this cloud"
            )),
            Err(error @ EnrollError::OtherName { host, .. }) => {
                CheckResult::bad(error.what(), name_cure(host))
            }
            Err(error) => CheckResult::bad(
                with_causes(error),
                "if the cloud was reinstalled, run `edge-agent reset` and join again; if the check clock fails, set the clock first",
            ),
        },
        Err(why) => CheckResult::bad(
            format!("https://{server} is not reached: {why}"),
            if why.starts_with("cannot resolve") {
                "check the name in modules.edgeHub.httpServer and this machine's DNS (/etc/resolv.conf)".to_owned()
            } else if why.contains("unreachable") {
                other_address_cure()
            } else {
                format!(
                    "check that the cloud runs and is reachable from other machines (cloudsim up --address 0.0.0.0), that firewalls \
                     allow TCP port {}, and that modules.edgeHub.httpServer names it; without it, certificates are not renewed",
                    server.port
                )
            },
        ),
    }
}
