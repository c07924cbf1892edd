//! `edge-agent bundle`: one archive for a bug report. The program `cloudsim` uses the archive as well.
//!
//! No secret is in it: values of Secrets, ConfigMaps and environment variables are not read, and each text passes through the
//! [`record::redact::Redactor`], which replaces known secrets and whatever looks like one. A part that fails is a line in `errors.txt`.
//!
//! | part | what |
//! |---|---|
//! | `archive` | a tar.gz file, or stdout |
//! | `time` | the time range of logs. Pure |
//! | `logs` | the log of the agent, from the journal and from files |
//! | `objects` | the objects of the database |
//! | `parts` | all other files of the archive |

mod archive;
mod logs;
mod objects;
mod parts;
mod time;

use std::{io::Write, process::ExitCode};

use self::parts::Sources;
pub use self::{
    archive::{Archive, CompleteArchive, Target},
    logs::{LogReader, add_log_files},
    objects::{mask_object, secret_values},
    time::TimeRange,
};
use crate::{
    cli::Bundle,
    config::{self, Config, Host},
    one_line,
};

/// Writes the archive; what was written is reported on `out`, unless the archive goes to stdout.
///
/// # Errors
/// The archive cannot be written.
pub(crate) fn run(bundle: &Bundle, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    // rustls takes the one provider that is compiled in; a second call changes nothing
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let written = runtime.block_on(write(bundle));
    // a disk that does not respond holds up its thread
    runtime.shutdown_background();
    for line in written?.lines() {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the archive.
async fn write(bundle: &Bundle) -> anyhow::Result<CompleteArchive> {
    let path = bundle.paths.config();
    let (config, failed) = settings(bundle, &path)?;
    let now = clock::now();
    let name = format!(
        "edge-agent-bundle-{}-{}",
        config.node.name,
        now.strftime("%Y%m%dT%H%M%SZ")
    );
    let range = TimeRange::from(&bundle.logs);
    let mut archive = Archive::create(Target::of(bundle.output.as_deref(), &name), &name, now)?;
    archive.fail("configuration", failed);
    Box::pin(parts::add_all(
        &mut archive,
        &Sources {
            bundle,
            path: &path,
            config: &config,
            range,
        },
    ))
    .await;
    Ok(archive.finish()?)
}

/// Returns the configuration, or the default one with the error.
fn settings(bundle: &Bundle, path: &std::path::Path) -> anyhow::Result<(Config, Option<String>)> {
    let error = match config::load(path) {
        Ok((config, _)) => return Ok((config, None)),
        Err(error) => one_line(error).to_string(),
    };
    let host = Host::detect();
    let text = config::relocate(&config::minimal_config(&host), |usual| {
        bundle.paths.in_root(usual)
    })?;
    let (config, _) = config::parse(path, &text, None, &host).map_err(one_line)?;
    Ok((config, Some(error)))
}

#[cfg(test)]
mod tests;
