//! Check `hub`: CloudHub's WebSocket servers.

use futures::future::join_all;
use tokio::time::timeout;

use super::{
    cloud::any_of,
    cloud_answer::{SERVER_TIMEOUT, no_answer, read_ca},
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{
    app,
    config::{HostPort, Transport},
    edgehub::{self, HubCheckError, unreached_cure},
    tls::name_cure,
};

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    if let Some(join) = inputs.join {
        let (_, ca) = inputs.token_answer(join).await;
        return server(inputs, &join.cloud, ca.as_deref()).await.into();
    }
    let hub = &inputs.config.edge_hub;
    if hub.transport != Transport::WebSocket {
        let why = "modules.edgeHub.websocket is disabled";
        return CheckResult::NotApplicable(why.into()).into();
    }
    let ca = read_ca(&hub.tls.ca).ok();
    let asked = hub
        .servers
        .iter()
        .map(|one| server(inputs, one, ca.as_deref()));
    let none = CheckResult::NotApplicable("no server is configured".into());
    any_of(join_all(asked).await, none)
}

/// Checks a server. Without the CA, because the HTTPS server was not reached, only that something listens.
pub(crate) async fn server(
    inputs: &Inputs<'_>,
    server: &HostPort,
    ca: Option<&[u8]>,
) -> CheckResult {
    let config = match app::hub_config(inputs.config) {
        Ok(config) => edgehub::Config {
            servers: vec![server.clone()],
            ..config
        },
        Err(error) => {
            return CheckResult::bad(error.to_string(), "correct HTTPS_PROXY in the environment");
        }
    };
    let asked = async {
        match ca {
            Some(ca) => edgehub::check_hub(&config, ca).await,
            None => match edgehub::connect_tcp(server, &config.proxy).await {
                Ok(_) => Ok(()),
                Err(error) => Err(HubCheckError::Unreachable(server.clone(), error)),
            },
        }
    };
    let is_joining = inputs.join.is_some();
    let failed = match timeout(SERVER_TIMEOUT, asked).await {
        Ok(Ok(())) if ca.is_some() => {
            return CheckResult::Passed(format!("CloudHub answers at {server}"));
        }
        Ok(Ok(())) => return CheckResult::Remark(format!("a server listens at {server}")),
        Ok(Err(error @ HubCheckError::WrongTime(_))) => {
            let cure = "correct the clock of this machine if the check clock says so; otherwise restart the cloud, which renews its \
                        certificate (`cloudsim faults restore` if it was started with a fault)";
            return CheckResult::bad(error.to_string(), cure);
        }
        Ok(Err(error @ HubCheckError::OtherName { .. })) => {
            let cure = match is_joining {
                true => "use one of these names in --cloud, or add this name to the cloud (cloudsim up --name)".to_owned(),
                false => name_cure(&server.host),
            };
            return CheckResult::bad(error.to_string(), cure);
        }
        Ok(Err(error @ (HubCheckError::OtherService(..) | HubCheckError::OtherServer(..)))) => {
            let cure = match is_joining {
                true => {
                    "use the port of CloudHub's WebSocket server, for example --cloud HOST:10000"
                }
                false => {
                    "set modules.edgeHub.websocket.server to CloudHub's WebSocket server (port 10000); if the cloud was reinstalled, \
                     run `edge-agent reset` and join again; if a proxy or firewall opens TLS connections, exempt this server"
                }
            };
            return CheckResult::bad(error.to_string(), cure);
        }
        Ok(Err(HubCheckError::Unreachable(_, error))) => error,
        Err(_) => no_answer(),
    };
    let setting = match is_joining {
        true => "--cloud HOST:PORT",
        false => "modules.edgeHub.websocket.server",
    };
    let cure = format!(
        "{}; if CloudHub has another port (cloudsim up --ws-port), set it there",
        unreached_cure(&failed, &server.to_string(), setting)
    );
    CheckResult::bad(format!("cannot reach CloudHub at {server}: {failed}"), cure)
}
