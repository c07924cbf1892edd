//! A machine that was a node, and one that was not.

use std::{collections::BTreeSet, fs, path::PathBuf};

use clap::Parser;

use super::*;
use crate::cli::{Cli, Command};

fn reset(root: &Path, more: &str) -> Reset {
    let line = format!("edge-agent reset --root {} {more}", root.display());
    let cli = Cli::try_parse_from(line.split_whitespace())
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let Some(Command::Reset(reset)) = cli.command else {
        panic!("{line}")
    };
    reset
}

/// Returns every file below a directory.
fn files(below: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path());
        }
    }
    found
}

/// Creates a node's files, and files of others beside them.
fn node(root: &Path) -> BTreeSet<PathBuf> {
    let of_others = [
        "etc/kubeedge/manifests/web.yaml",
        "var/log/pods/notes",
        "var/lib/kubelet/seccomp/p.json",
        "var/lib/kubelet/device-plugins/plugin.sock",
        "var/lib/kubelet/pods/mine/thesis",
    ];
    let own = [
        "etc/kubeedge/ca/rootCA.crt",
        "etc/kubeedge/certs/server.crt",
        "etc/kubeedge/certs/server.key",
        "var/lib/kubeedge/outrigger.db",
        "var/lib/kubeedge/outrigger.db-wal",
        "var/lib/kubeedge/outrigger.db.damaged-20260501T101500.123456Z",
        "var/lib/kubeedge/mqtt.db",
        "var/lib/kubelet/device-plugins/kubelet.sock",
        "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
        "var/lib/kubelet/pod-resources/kubelet.sock",
        // of node jobs
        "var/lib/kubeedge/backup/v0.1.0/outrigger.db",
        "etc/kubeedge/config/edgecore.yaml.before-job",
        "etc/kubeedge/config/edgecore.yaml.job",
        "etc/kubeedge/config/edgecore.yaml.upgrade",
        "var/lib/kubelet/pods/7d0c/volumes/kubernetes.io~secret/s/key",
        "var/log/pods/shop_web_6f1b0f8e-7d1c-4f43-9f0e-2f6a3f1e8f11/main/0.log",
    ];
    for path in own.iter().chain(&of_others) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let config = root.join("etc/kubeedge/config/edgecore.yaml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let text = config::minimal_config(&Host::detect());
    let text = config::relocate(&text, |usual| root.join(usual.trim_start_matches('/'))).unwrap();
    let endpoint = serde_json::json!(format!("unix://{}/none.sock", root.display()));
    let key = "modules.edged.tailoredKubeletConfig.containerRuntimeEndpoint";
    let text = config::fill(&text, key, &endpoint).unwrap();
    let groups = "    tailoredKubeletConfig:\n      cgroupRoot: /outrigger-reset-test\n";
    fs::write(
        config,
        text.replacen("    tailoredKubeletConfig:\n", groups, 1),
    )
    .unwrap();
    of_others.map(|path| root.join(path)).into()
}

fn run_reset(reset: &Reset, answer: &str) -> (anyhow::Result<ExitCode>, String) {
    let mut out = Vec::new();
    let done = run(reset, &mut answer.as_bytes(), &mut out, Terminal::default());
    (done, String::from_utf8(out).unwrap())
}

#[test]
fn files_of_edgecore_are_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    node(directory.path());
    let data = directory.path().join("var/lib/kubeedge");
    fs::remove_file(data.join("outrigger.db")).unwrap();
    fs::write(data.join("edgecore.db"), "").unwrap();
    let before = files(directory.path());
    let (refused, _) = run_reset(&reset(directory.path(), "--force --without-runtime"), "");
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("keadm reset edge")
    );
    assert_eq!(files(directory.path()), before);
}

#[test]
fn the_agents_files_are_removed_and_all_others_stay() {
    let directory = tempfile::tempdir().unwrap();
    let others = node(directory.path());
    let before = files(directory.path());
    // the answer is not yes
    for answer in ["", "n\n", "what\n"] {
        let (refused, _) = run_reset(&reset(directory.path(), ""), answer);
        assert!(format!("{:#}", refused.unwrap_err()).contains("--force"));
    }
    assert_eq!(files(directory.path()), before);
    // containers would be left
    let (refused, said) = run_reset(&reset(directory.path(), ""), "y\n");
    assert!(
        format!("{:#}", refused.unwrap_err()).contains("--without-runtime"),
        "{said}"
    );
    let database = before
        .iter()
        .filter(|path| path.ends_with("outrigger.db"))
        .collect::<Vec<_>>();
    assert!(database[0].exists());
    let (code, said) = run_reset(&reset(directory.path(), "--force --without-runtime"), "");
    assert_eq!(
        format!("{:?}", code.unwrap()),
        format!("{:?}", ExitCode::SUCCESS),
        "{said}"
    );
    assert_eq!(files(directory.path()), others, "{said}");
    for left in [
        "kubectl delete node",
        "cloudsim node reset",
        "--rejoin",
        "etc/kubeedge/manifests",
        "var/log/pods",
    ] {
        assert!(said.contains(left), "{left}: {said}");
    }
    assert!(
        !directory.path().join("var/lib/kubeedge").exists(),
        "an empty folder is left"
    );
    let (code, said) = run_reset(&reset(directory.path(), ""), "");
    assert!(code.is_ok() && said.contains("Nothing to remove"), "{said}");
}

#[test]
fn long_steps_are_reported_before_they_begin() {
    let begun = |pods, seconds| {
        describe_progress(EndProgress::Begun {
            pods,
            grace: Duration::from_secs(seconds),
        })
    };
    let said = begun(3, 30).unwrap();
    assert!(
        said.contains("3 pods") && said.contains("up to 30 s"),
        "{said}"
    );
    assert!(begun(1, 5).unwrap().contains("1 pod (up to 5 s)"));
    assert_eq!(begun(1, 0).unwrap(), "Killing 1 pod …");
    assert_eq!(begun(0, 0), None);
    let removing = describe_progress(EndProgress::Removing { removed: 1, of: 3 });
    assert_eq!(removing.unwrap(), "  1 of 3 pods removed");
    let waiting = describe_progress(EndProgress::Waiting { stopped: 2, of: 5 });
    assert_eq!(waiting.unwrap(), "  2 of 5 containers stopped");
}

/// A volume that cannot be removed: the files that name it stay as well, until it can.
#[test]
fn an_incomplete_reset_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let others = node(directory.path());
    let pods = directory.path().join("var/lib/kubelet/pods");
    let (nothing, read_only) = (
        None::<&str>,
        nix::mount::MsFlags::MS_RDONLY | nix::mount::MsFlags::MS_REMOUNT,
    );
    nix::mount::mount(
        Some(&pods),
        &pods,
        nothing,
        nix::mount::MsFlags::MS_BIND,
        nothing,
    )
    .unwrap();
    nix::mount::mount(
        nothing,
        &pods,
        nothing,
        read_only | nix::mount::MsFlags::MS_BIND,
        nothing,
    )
    .unwrap();
    let first = run_reset(&reset(directory.path(), "--force --without-runtime"), "");
    let config = directory
        .path()
        .join("etc/kubeedge/config/edgecore.yaml")
        .exists();
    nix::mount::umount2(&pods, nix::mount::MntFlags::MNT_DETACH).unwrap();
    let (code, said) = first;
    assert_eq!(
        format!("{:?}", code.unwrap()),
        format!("{:?}", ExitCode::FAILURE),
        "{said}"
    );
    assert!(
        said.contains("Read-only file system") && said.contains("7d0c") && config,
        "{said}"
    );
    let (code, said) = run_reset(&reset(directory.path(), "--force --without-runtime"), "");
    assert_eq!(
        format!("{:?}", code.unwrap()),
        format!("{:?}", ExitCode::SUCCESS),
        "{said}"
    );
    assert_eq!(files(directory.path()), others, "{said}");
}

#[test]
fn a_reset_process_is_distinguished_from_an_agent() {
    for (line, expected) in [
        (&b"edge-agent\0reset\0--force\0"[..], true),
        (b"/usr/bin/edge-agent\0--config\0a\0reset\0", true),
        (b"edge-agent\0--config\0reset.yaml\0", false),
        (b"reset\0", false),
        (b"", false),
    ] {
        assert_eq!(is_reset_line(line), expected, "{line:?}");
    }
}

#[test]
fn node_of_another_program_is_not_reset() {
    let running = |names: &[&str]| -> Vec<(String, u32)> {
        names.iter().map(|name| ((*name).to_owned(), 7)).collect()
    };
    for (names, is_kubelet_allowed, expected) in [
        (&[][..], false, Ok(false)),
        (&["kubelet"], true, Ok(true)),
        (&["kubelet"], false, Err("CHECK_EDGECORE_ENVIRONMENT=false")),
        (&["edgecore"], false, Err("keadm reset edge")),
        (
            &["kubelet", "edgecore"],
            true,
            Err("edgecore is running (process 7)"),
        ),
    ] {
        let found = refuse_other_node(&running(names), is_kubelet_allowed);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{names:?}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
                assert!(error.to_string().contains("nothing was changed"), "{error}");
            }
            (found, _) => panic!("{names:?}: {found:?}"),
        }
    }
}

/// A runtime that accepts connections and never answers is not called without need.
#[test]
fn reset_without_runtime_does_not_call_it() {
    let directory = tempfile::tempdir().unwrap();
    let others = node(directory.path());
    let _silent = std::os::unix::net::UnixListener::bind(directory.path().join("none.sock"));
    let begun = clock::Instant::now();
    let (code, said) = run_reset(&reset(directory.path(), "--force --without-runtime"), "");
    assert!(code.is_ok() && said.contains("--without-runtime"), "{said}");
    assert!(begun.elapsed() < LIST_TIMEOUT, "{:?}", begun.elapsed());
    fs::remove_file(directory.path().join("none.sock")).unwrap();
    assert_eq!(files(directory.path()), others, "{said}");
}

#[test]
fn files_outside_of_the_root_stay() {
    let (directory, machine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = directory.path();
    node(root);
    let certificate = machine.path().join("server.crt");
    fs::write(&certificate, "").unwrap();
    let config = root.join("etc/kubeedge/config/edgecore.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let path = serde_json::json!(certificate);
    let text = config::fill(&text, "modules.edgeHub.tlsCertFile", &path).unwrap();
    fs::write(&config, text).unwrap();
    let (code, said) = run_reset(&reset(root, "--force --without-runtime"), "");
    assert!(code.is_ok() && certificate.exists(), "{said}");
    let kept = format!("{} (not below --root)", certificate.display());
    assert!(said.contains(&kept), "{said}");
    assert!(!config.exists());
}
