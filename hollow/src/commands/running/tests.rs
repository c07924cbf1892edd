//! Tests of records.

use std::os::unix::fs::PermissionsExt;

use nix::{sys::stat::Mode, unistd::mkfifo};
use testkit::within;

use super::*;

pub(in crate::commands) fn records(directory: &Path) -> Records {
    Records {
        directory: directory.join("cloudsim"),
    }
}

pub(in crate::commands) fn cloud(process: Process, context: &str) -> RunningCloud {
    RunningCloud {
        process,
        since: Timestamp::UNIX_EPOCH,
        is_starting: false,
        api: Some("https://127.0.0.1:6443".to_owned()),
        kubeconfig: Some(PathBuf::from("/nowhere/kubeconfig")),
        context: Some(context.to_owned()),
        data_dir: None,
        log: None,
    }
}

fn own() -> Process {
    Process::own().unwrap()
}

/// Returns a process that is not this one: its parent.
fn other() -> Process {
    Process::of(std::os::unix::process::parent_id()).unwrap()
}

#[tokio::test]
async fn records_are_private_and_end_with_their_cloud() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(directory.path());
    assert!(records.list().unwrap().is_empty());
    let starting = RunningCloud {
        is_starting: true,
        api: None,
        ..cloud(own(), "cloudsim")
    };
    let mut added = records.add(starting.clone()).await.unwrap();
    assert_eq!(records.list().unwrap(), [starting]);
    let ready = cloud(own(), "cloudsim");
    added
        .set_ready(ready.api.clone().unwrap(), ready.kubeconfig.clone())
        .unwrap();
    assert_eq!(records.list().unwrap(), [ready]);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(
        (mode(&records.directory), mode(&added.path)),
        (0o700, 0o600)
    );
    drop(added);
    assert!(records.list().unwrap().is_empty());
}

#[tokio::test]
async fn what_ended_clouds_and_others_have_left_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(directory.path());
    let own = own();
    for stale in [
        Process {
            started: own.started + 1,
            ..own.clone()
        },
        Process {
            boot: "another".to_owned(),
            ..own.clone()
        },
        Process {
            pid: i32::MAX,
            ..own.clone()
        },
    ] {
        std::mem::forget(records.add(cloud(stale, "old")).await.unwrap());
    }
    let path = |name: &str| records.directory.join(name);
    fs::write(path("1.json"), "{").unwrap();
    mkfifo(&path("2.json"), Mode::S_IRWXU).unwrap();
    fs::write(path("3.json"), vec![b' '; 100_000]).unwrap();
    fs::write(path(&format!("{}.log", i32::MAX)), "old").unwrap();
    fs::write(path("x.log"), "old").unwrap();
    let listed = within("the list", async { records.list() }).await;
    assert!(listed.unwrap().is_empty());
    assert_eq!(fs::read_dir(&records.directory).unwrap().count(), 0);
}

#[tokio::test]
async fn log_is_kept_while_its_cloud_runs_or_is_being_started() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(directory.path());
    let starter = records
        .directory()
        .unwrap()
        .join(format!("{}.log", own().pid));
    let log = records.directory.join(format!("{}.log", i32::MAX));
    for path in [&starter, &log] {
        fs::write(path, "").unwrap();
    }
    let starting = RunningCloud {
        is_starting: true,
        log: Some(log.clone()),
        ..cloud(own(), "cloudsim")
    };
    let failed = records.add(starting.clone()).await.unwrap();
    records.list().unwrap();
    assert!(starter.exists() && log.exists());
    // the process that waits shows the log of a failed start
    drop(failed);
    assert!(log.exists());
    let mut ready = records.add(starting).await.unwrap();
    ready.set_ready("https://a".to_owned(), None).unwrap();
    drop(ready);
    assert!(!log.exists());
}

#[tokio::test]
async fn log_of_a_crashed_cloud_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(directory.path());
    let ended = Process {
        started: own().started + 1,
        ..own()
    };
    let beside = records.directory().unwrap().join("4711.log");
    let own_log = directory.path().join("cloudsim.log");
    for log in [&beside, &own_log] {
        fs::write(log, "panicked").unwrap();
        let crashed = RunningCloud {
            log: Some(log.clone()),
            ..cloud(ended.clone(), "cloudsim")
        };
        std::mem::forget(records.add(crashed).await.unwrap());
        for _ in 0..2 {
            assert!(records.list().unwrap().is_empty());
        }
    }
    assert!(!beside.exists());
    let kept = records.directory.join(CRASHED_LOG);
    for log in [kept, own_log] {
        assert_eq!(fs::read_to_string(log).unwrap(), "panicked");
    }
}

#[tokio::test]
async fn entries_of_a_kubeconfig_belong_to_one_cloud() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(directory.path());
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    let of = |process, file: PathBuf, context: &str| RunningCloud {
        kubeconfig: Some(file),
        is_starting: true,
        ..cloud(process, context)
    };
    let file = directory.path().join("kubeconfig");
    let _first = records.add(of(other(), file.clone(), "a")).await.unwrap();
    for (rival, is_refused) in [
        (of(own(), file.clone(), "a"), true),
        (of(own(), link.join("kubeconfig"), "a"), true),
        (of(own(), file.clone(), "b"), false),
        (of(own(), directory.path().join("other"), "a"), false),
        (
            RunningCloud {
                kubeconfig: None,
                ..cloud(own(), "a")
            },
            false,
        ),
    ] {
        let added = records.add(rival.clone()).await;
        assert_eq!(added.is_err(), is_refused, "{rival:?}");
        let Err(refused) = added else { continue };
        let refused = refused.to_string();
        let pid = format!("process {} runs", other().pid);
        for part in [
            &pid,
            "context a",
            "cloudsim down",
            "--context",
            "--kubeconfig",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
}

#[test]
fn directory_of_others_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(directory.path());
    fs::create_dir(&records.directory).unwrap();
    for mode in [0o755, 0o770] {
        fs::set_permissions(&records.directory, fs::Permissions::from_mode(mode)).unwrap();
        let refused = records.list().unwrap_err().to_string();
        assert!(refused.contains("XDG_RUNTIME_DIR"), "{refused}");
    }
    fs::remove_dir(&records.directory).unwrap();
    std::os::unix::fs::symlink(directory.path(), &records.directory).unwrap();
    assert!(records.directory().is_err());
    fs::remove_file(&records.directory).unwrap();
    // as root, a directory without permissions can be read
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let records = super::tests::records(&file);
    let refused = format!("{:#}", records.list().unwrap_err());
    assert!(
        refused.contains("file/cloudsim") && refused.contains("XDG_RUNTIME_DIR"),
        "{refused}"
    );
}
