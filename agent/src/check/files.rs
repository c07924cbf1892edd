//! Check `files`: only the owner can read keys, tokens and passwords.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::config::{Config, DatabaseKeys};

/// The permissions of group and others.
const NOT_OWNER: u32 = 0o077;

pub(crate) fn check(inputs: &Inputs<'_>) -> Finding {
    let files = secret_files(inputs.config, inputs.path);
    let parts = files
        .into_iter()
        .filter_map(|(path, content)| judge(path, content, fs::metadata(path)))
        .collect();
    Finding::combine(
        parts,
        CheckResult::Passed("no file with a secret yet".into()),
    )
}

/// Returns the files with secrets, each with what it contains.
fn secret_files<'a>(config: &'a Config, path: &'a Path) -> Vec<(&'a Path, &'static str)> {
    let mut all = vec![(config.edge_hub.tls.key.as_path(), "the node's private key")];
    if config.edge_hub.token.is_some() {
        all.push((path, "the join token"));
    }
    if let Some(bus) = &config.event_bus {
        if bus.password.is_some() {
            all.push((path, "the password of the MQTT broker"));
        }
        if let Some(tls) = &bus.tls {
            all.push((&tls.key, "the private key for MQTT"));
        }
    }
    if let Some(DatabaseKeys::File(file)) = &config.database_keys {
        all.push((file, "the keys of the database"));
    }
    if let Some(server) = &config.meta_manager.meta_server {
        all.push((&server.tls.key, "MetaServer's private key"));
    }
    all
}

/// Judges a file; `None` if it does not exist.
fn judge(path: &Path, content: &str, found: io::Result<Metadata>) -> Option<CheckResult> {
    let path = path.display();
    match found {
        Ok(file) if file.permissions().mode() & NOT_OWNER == 0 => Some(CheckResult::Passed(
            format!("only its owner can read {path}"),
        )),
        Ok(file) => Some(CheckResult::warning(
            format!(
                "{path} has mode {:o}: other users can read {content}",
                file.permissions().mode() & 0o777
            ),
            format!("chmod 600 {path}"),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(CheckResult::Remark(format!(
            "cannot read the mode of {path}: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::tests::node_config, config::Secret};

    #[test]
    fn secrets_that_others_can_read_are_reported_with_the_command() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = node_config(&directory, "");
        let path = directory.path().join("edgecore.yaml");
        let files = |config: &Config| -> Vec<String> {
            let files = secret_files(config, &path);
            files
                .iter()
                .map(|(path, _)| path.display().to_string())
                .collect()
        };
        assert_eq!(files(&config).len(), 1);
        config.edge_hub.token = Some(Secret::new("t"));
        config.event_bus.as_mut().unwrap().password = Some(Secret::new("p"));
        config.database_keys = Some(DatabaseKeys::File("/keys".into()));
        assert_eq!(files(&config).len(), 4);
        assert!(judge(&path, "the join token", fs::metadata(&path)).is_none());
        fs::write(&path, "").unwrap();
        for (mode, is_good) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o644, false),
            (0o602, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let found = judge(&path, "the join token", fs::metadata(&path)).unwrap();
            assert_eq!(
                matches!(found, CheckResult::Passed(_)),
                is_good,
                "{found:?}"
            );
            let cure = found.texts().1.unwrap_or_default();
            assert!(
                is_good || cure == format!("chmod 600 {}", path.display()),
                "{cure}"
            );
        }
    }
}
