//! `edge-agent status`: the state of a node on one screen, from the socket of the running agent.
//!
//! | part | what |
//! |---|---|
//! | `source` | the state of the running agent |
//! | `history` | since when the cloud is connected |
//! | `pods` | the pods of the node, and why they wait. Pure |
//! | `objects` | the API of pods, the node and devices, and operations, for root |
//! | `server`, `client` | HTTP on a Unix socket: `GET /status`, `GET /metrics`; for root the API of this node's objects |
//! | `report` | the state as a document. Pure |
//! | `text` | the document for people. Pure |

mod client;
mod history;
mod objects;
mod pods;
mod report;
mod server;
mod source;
mod text;

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use wire::text::printable_lines;

pub(crate) use self::{
    client::{ClientError, connect, request_metrics, request_status},
    objects::Objects,
    report::{DeviceState, MapperState, PodState, StatusReport},
    server::serve,
    source::{Modules, StatusSource},
    text::duration,
};
use crate::{
    cli::Status,
    config::{self, Config},
    one_line,
};

/// Prints the state of the running agent.
///
/// # Errors
/// The configuration cannot be read, or no agent answers.
pub(crate) fn run(status: &Status, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let (config, _) = config::load(&status.paths.config()).map_err(one_line)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(request_status(&config.status.socket));
    let report = report.with_context(|| describe(&config))?;
    let text = match status.output.format {
        Some(output) => output.document(&report)?,
        // parts of it come from the cloud
        None => printable_lines(&report.to_string()),
    };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn describe(config: &Config) -> String {
    format!("cannot read the status of node {}", config.node.name)
}

#[cfg(test)]
mod tests;
