//! Check `cloud`: the cloud's HTTPS servers, which issue certificates; before joining, the join token too.

use super::{
    cloud_answer::{CloudAnswer, read_ca},
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{
    edgehub::{EnrollError, unreached_cure},
    tls::name_cure,
};

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
            Err(error @ EnrollError::WrongTime { .. }) => CheckResult::bad(
                error.what(),
                "if the check clock fails, set the clock of this machine; otherwise restart the cloud, which renews its certificate",
            ),
            Err(error) => CheckResult::bad(
                error.what(),
                "if the cloud was reinstalled, run `edge-agent reset` and join again; if a proxy or firewall opens TLS connections, exempt \
                 this server",
            ),
        },
        Err(error) => CheckResult::bad(
            format!("cannot reach the HTTPS server at {server}: {error}"),
            format!(
                "{}; without it, certificates are not renewed",
                unreached_cure(error, &server.to_string(), "modules.edgeHub.httpServer")
            ),
        ),
    }
}
