//! Check `database`: the database is intact and can be written.

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use objectstore::{Health, Inspection, RESERVE_SUFFIX};
use wire::text::{count, with_causes};

use super::{
    disk_speed::write_cure,
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::app;

/// How the agent's health check of its database begins.
const STORAGE: &str = "storage ";
/// What to do if the agent cannot store objects.
const SPACE: &str = "free space on the file system of the database, or repair the disk; the agent then continues by itself";
/// How the name of a damaged database continues after the name of the database.
const DAMAGED: &str = ".damaged-";
/// The most faults that are named.
const MAX_NAMED: usize = 3;

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    let path = app::database(inputs.config);
    if !path.exists() {
        let what = format!(
            "{} does not exist: the agent has not run yet",
            path.display()
        );
        return CheckResult::Remark(what).into();
    }
    let seal = match app::seal(inputs.config) {
        Ok(seal) => seal,
        Err(error) => {
            let cure = "correct database.keyFile or database.keyring in edgecore.yaml";
            return CheckResult::bad(with_causes(&error), cure).into();
        }
    };
    let health = async { Inspection::open(&path, seal).await?.check().await };
    let mut parts = vec![match health.await {
        Ok(health) => judge(&path, &health),
        Err(error) => CheckResult::bad(
            with_causes(&error),
            "run this command as root; a file that is no database is renamed by the agent at its next start",
        ),
    }];
    // the agent reports errors of its own writes
    if let Ok(status) = inputs.agent_status().await {
        let failed = status.unhealthy.iter();
        let failed = failed.filter(|check| check.starts_with(STORAGE));
        parts.extend(failed.map(|check| CheckResult::bad(check, SPACE)));
    }
    parts.extend(damaged_copies(&path));
    if inputs.agent().is_some() {
        parts.extend(used_reserve(&path));
    } else {
        parts.push(judge_write(
            &path,
            OpenOptions::new().append(true).open(&path).map(drop),
        ));
    }
    let none = CheckResult::NotApplicable("no database".into());
    Finding::combine(parts, none)
}

fn judge(path: &Path, health: &Health) -> CheckResult {
    let place = path.display();
    if health.locked > 0 {
        return CheckResult::bad(
            format!(
                "{place}: {} of {} encrypted objects cannot be decrypted",
                health.locked, health.sealed
            ),
            "name the key file or keyring with their key in database.keyFile or database.keyring",
        );
    }
    if !health.faults.is_empty() {
        let some: Vec<&str> = health
            .faults
            .iter()
            .take(MAX_NAMED)
            .map(String::as_str)
            .collect();
        return CheckResult::bad(
            format!("{place} is damaged: {}", some.join("; ")),
            "restart the agent with the cloud connected: it renames the file and gets the objects from the cloud again",
        );
    }
    if !health.damaged.is_empty() {
        return CheckResult::warning(
            format!("{place}: {} damaged", count(health.damaged.len(), "object")),
            "the agent requests these objects from the cloud again; `edge-agent db check` lists them",
        );
    }
    let objects = count(health.objects, "object");
    CheckResult::Passed(format!("{place}: {objects}, {} KiB", health.bytes >> 10))
}

/// Returns the failure of a full disk: the store has used its reserve, and accepts only deletions until it has written it again.
fn used_reserve(path: &Path) -> Option<CheckResult> {
    let reserve = with_suffix(path, RESERVE_SUFFIX);
    (!reserve.exists()).then(|| {
        let what = format!(
            "the disk of {} is full: the reserve for deletions is in use, and new objects are not stored",
            path.display()
        );
        CheckResult::bad(what, SPACE)
    })
}

/// Reports damaged databases that the agent has renamed.
fn damaged_copies(path: &Path) -> Option<CheckResult> {
    let begin = with_suffix(path, DAMAGED);
    let begin = begin.file_name()?.to_str()?.to_owned();
    let names = path.parent()?.read_dir().ok()?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let latest = names.filter(|name| name.starts_with(&begin)).max()?;
    Some(CheckResult::Remark(format!(
        "an earlier database was damaged and renamed to {latest}; check the disk (`dmesg`), and delete the file if you do not need it"
    )))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn judge_write(path: &Path, opened: io::Result<()>) -> CheckResult {
    match opened {
        Ok(()) => CheckResult::Passed("writable".to_owned()),
        Err(error) => CheckResult::bad(
            format!("cannot write {}: {error}", path.display()),
            write_cure(&error),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use objectstore::{SqliteOptions, SqliteStore, Store, StoreLock};
    use testkit::eventually;

    use super::*;
    use crate::{
        check::{Machine, tests::node_config},
        cli::{InstallPaths, Stage},
        config::Host,
    };

    #[tokio::test]
    async fn damaged_database_is_an_error_and_a_locked_one_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let config = node_config(&directory, "");
        let database = app::database(&config);
        let (machine, host) = (Machine::unknown(), Host::detect());
        let paths = InstallPaths {
            config: None,
            root: directory.path().into(),
        };
        let check = async || {
            let path = paths.config();
            let inputs = Inputs::new(Stage::Node, &paths, &path, &config, &machine, &host);
            super::check(&inputs).await.result
        };
        assert!(matches!(check().await, CheckResult::Remark(_)));
        fs::create_dir_all(database.parent().unwrap()).unwrap();
        let options = SqliteOptions {
            reserve: 4096,
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open_with(&database, options).await.unwrap();
        store.check().await.unwrap();
        let running = StoreLock::take(&database).unwrap();
        let found = check().await;
        assert!(matches!(found, CheckResult::Passed(_)), "{found:?}");
        drop(running);
        drop(store);
        let found = check().await;
        assert!(matches!(found, CheckResult::Passed(_)), "{found:?}");
        // all pages but the first are overwritten, as soon as the store has written its last page
        eventually("damage is found", async || {
            for suffix in ["-wal", "-shm"] {
                let _ = fs::remove_file(database.with_extension(format!("db{suffix}")));
            }
            let mut bytes = fs::read(&database).unwrap();
            bytes[4096..].fill(0xa5);
            fs::write(&database, &bytes).unwrap();
            match check().await {
                CheckResult::Failed { .. } => Ok(()),
                other => Err(other),
            }
        })
        .await;
        let renamed = with_suffix(&database, ".damaged-20260131T120000.0Z");
        fs::write(renamed, "").unwrap();
        let found = damaged_copies(&database).unwrap();
        assert!(found.texts().0.contains("damaged-20260131"), "{found:?}");
        assert_eq!(used_reserve(&database), None);
        fs::remove_file(with_suffix(&database, RESERVE_SUFFIX)).unwrap();
        let full = used_reserve(&database).unwrap();
        assert!(full.texts().0.contains("is full"), "{full:?}");
        fs::write(&database, "no database").unwrap();
        let found = check().await;
        assert!(matches!(found, CheckResult::Failed { .. }), "{found:?}");
    }
}
