//! Runs one probe.

use std::time::Duration;

use super::{grpc, http, outcome::Outcome, target::ProbeTarget};
use crate::runtime::Runtime;

/// Maximum length of a command's output in a message, in bytes.
const MAX_OUTPUT: usize = 10 * 1024;

/// Runs the probe of the container `id`, for at most `timeout`.
pub(super) async fn check(
    runtime: &Runtime,
    id: &str,
    target: &ProbeTarget,
    timeout: Duration,
) -> Outcome {
    let network = runtime.network();
    let checked = async {
        match target {
            ProbeTarget::Exec(command) => exec(runtime, id, command, timeout).await,
            ProbeTarget::HttpGet(page) => http::probe(&**network, page).await,
            ProbeTarget::TcpSocket(address) => match http::connect(&**network, address).await {
                Ok(_) => Outcome::Success,
                Err(why) => Outcome::Failure(why),
            },
            ProbeTarget::Grpc(address, service) => {
                grpc::probe(network, address, service, timeout).await
            }
        }
    };
    let limit = match target {
        // The runtime limits a command's time itself and answers a little later.
        ProbeTarget::Exec(_) => timeout.saturating_add(timeout),
        ProbeTarget::HttpGet(_) | ProbeTarget::TcpSocket(_) | ProbeTarget::Grpc(..) => timeout,
    };
    tokio::time::timeout(limit, checked).await.unwrap_or_else(|_| {
        Outcome::Failure(match target {
            ProbeTarget::HttpGet(page) => format!(
                "Get {:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                page.url()
            ),
            ProbeTarget::TcpSocket(address) => format!("dial tcp {address}: i/o timeout"),
            ProbeTarget::Grpc(..) => format!("timeout: health rpc did not complete within {timeout:?}"),
            ProbeTarget::Exec(_) => format!("timed out after {timeout:?}"),
        })
    })
}

async fn exec(runtime: &Runtime, id: &str, command: &[String], timeout: Duration) -> Outcome {
    match runtime.exec(id, command, timeout).await {
        Ok(answer) if answer.exit_code == 0 => Outcome::Success,
        Ok(answer) => Outcome::Failure(output(&answer.stdout, &answer.stderr)),
        Err(error) if error.is_timeout() => {
            let command = command.join(" ");
            Outcome::Failure(format!(
                "command timed out: {command:?} timed out after {timeout:?}"
            ))
        }
        Err(error) => Outcome::Error(error.message()),
    }
}

fn output(stdout: &[u8], stderr: &[u8]) -> String {
    let all: Vec<u8> = stdout
        .iter()
        .chain(stderr)
        .take(MAX_OUTPUT)
        .copied()
        .collect();
    String::from_utf8_lossy(&all).into_owned()
}
