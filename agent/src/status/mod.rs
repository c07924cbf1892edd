//! `edge-agent status`: the state of a node on one screen, from the socket of the running agent.
//!
//! | part | what |
//! |---|---|
//! | `source` | the state of the running agent |
//! | `history` | since when the cloud is connected |
//! | `pods` | the pods of the node, and why they wait. Pure |
//! | `server`, `client` | HTTP on a Unix socket: `GET /status`, `GET /metrics`, `POST /confirm-upgrade` |
//! | `report` | the state as a document. Pure |
//! | `text` | the document for people. Pure |

mod client;
mod history;
mod pods;
mod report;
mod server;
mod source;
mod text;

use std::{io::Write, path::Path, process::ExitCode};

use anyhow::Context;
use wire::text::printable_lines;

use self::client::confirm_upgrade;
pub(crate) use self::{
    client::{ClientError, request_metrics, request_status},
    report::{DeviceState, MapperState, PodState, StatusReport},
    server::serve,
    source::{Modules, StatusSource},
    text::duration,
};
use crate::{
    cli::{InstallPaths, Status},
    config::{self, Config},
    one_line,
};

/// Prints the state of the running agent.
///
/// # Errors
/// The configuration cannot be read, or no agent answers.
pub(crate) fn run(status: &Status, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let (config, report) = ask(&status.paths, request_status)?;
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

/// Confirms the upgrade that waits for it.
///
/// # Errors
/// The configuration cannot be read, no agent answers, or no upgrade waits.
pub(crate) fn confirm(paths: &InstallPaths, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let (_, job) = ask(paths, confirm_upgrade)?;
    writeln!(out, "upgrade {} confirmed", job?)?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a request to the agent of this installation; returns its configuration as well.
fn ask<T>(
    paths: &InstallPaths,
    request: impl AsyncFnOnce(&Path) -> T,
) -> anyhow::Result<(Config, T)> {
    let (config, _) = config::load(&paths.config()).map_err(one_line)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(request(&config.status.socket));
    Ok((config, answer))
}

fn describe(config: &Config) -> String {
    format!("cannot read the status of node {}", config.node.name)
}

#[cfg(test)]
mod tests;
