//! Check `streams`: the cloud's stream server.

use std::io;

use tokio::time::timeout;

use super::{
    cloud_answer::{SERVER_TIMEOUT, no_answer, read_ca},
    inputs::Inputs,
    machine::STREAM_PORT,
    report::CheckResult,
};
use crate::{
    app,
    cli::Join,
    config::HostPort,
    edgehub::{self, HubCheckError, unreached_cure},
    tls::name_cure,
};

pub(crate) async fn check(inputs: &Inputs<'_>) -> CheckResult {
    if let Some(join) = inputs.join {
        return before_join(inputs, join);
    }
    let Some(stream) = &inputs.config.edge_stream else {
        let why = "modules.edgeStream is disabled: logs, exec and port-forward do not work";
        return CheckResult::NotApplicable(why.into());
    };
    let server = &stream.endpoint.server;
    let ca = match read_ca(&stream.tls.ca) {
        Ok(ca) => ca,
        Err(why) => return CheckResult::Skipped(why),
    };
    let hub = match app::hub_config(inputs.config) {
        Ok(hub) => hub,
        Err(error) => return CheckResult::Skipped(error.to_string()),
    };
    match timeout(SERVER_TIMEOUT, edgehub::check_tls(&hub, server, &ca)).await {
        Ok(Ok(())) => CheckResult::Passed(format!("the stream server answers at {server}")),
        Ok(Err(HubCheckError::Unreachable(_, error))) => unreached_result(server, &error),
        Ok(Err(error @ HubCheckError::OtherName { .. })) => {
            CheckResult::bad(error.to_string(), name_cure(&server.host))
        }
        Ok(Err(error)) => CheckResult::bad(
            error.to_string(),
            "correct what the checks clock and hub report; until then, logs, exec and port-forward do not work",
        ),
        Err(_) => unreached_result(server, &no_answer()),
    }
}

fn unreached_result(server: &HostPort, error: &io::Error) -> CheckResult {
    let cure = unreached_cure(error, &server.to_string(), "modules.edgeStream.server");
    CheckResult::bad(
        format!("cannot reach the stream server at {server}: {error}"),
        format!("{cure}; until then, logs, exec and port-forward do not work"),
    )
}

fn before_join(inputs: &Inputs<'_>, join: &Join) -> CheckResult {
    let server = |port| HostPort {
        port,
        ..join.cloud.clone()
    };
    match inputs.machine.tunnel_port {
        Some(port) => {
            CheckResult::Passed(format!("logs, exec and port-forward use {}", server(port)))
        }
        None => CheckResult::Remark(format!(
            "no stream server at {}: logs, exec and port-forward will not work; if the cloud's stream server has another \
             port, use --tunnel-port",
            server(STREAM_PORT)
        )),
    }
}
