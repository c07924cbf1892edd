//! The files of the archive.

use std::{
    fs,
    path::{Path, PathBuf},
};

use edged::runtime_state;
use limits::read_regular_text;
use objectstore::Inspection;
use record::redact::Redactor;
use serde::Serialize;
use serde_json::json;

use super::{
    archive::Archive,
    logs::{LogReader, add_log_files},
    objects::{self, Objects},
    time::TimeRange,
};
use crate::{
    app, check,
    cli::{Bundle, Check, OutputArgs},
    config::Config,
    status::{request_metrics, request_status},
    systemd,
};

/// The largest text file that is read, bytes.
const MAX_TEXT_BYTES: u64 = 4 << 20;
/// Files of the machine, each with its name in the archive.
const MACHINE: [(&str, &str); 8] = [
    ("machine/os-release", "/etc/os-release"),
    ("machine/kernel", "/proc/version"),
    ("machine/meminfo", "/proc/meminfo"),
    ("machine/loadavg", "/proc/loadavg"),
    ("machine/mounts", "/proc/mounts"),
    ("machine/routes", "/proc/net/route"),
    ("machine/resolv.conf", "/etc/resolv.conf"),
    ("machine/hosts", "/etc/hosts"),
];
/// The controllers of cgroup v2, and those of v1.
const CONTROLLERS: [(&str, &str); 2] = [
    (
        "machine/cgroup.controllers",
        "/sys/fs/cgroup/cgroup.controllers",
    ),
    ("machine/cgroups", "/proc/cgroups"),
];
/// The services whose journals are included, each with its name in the archive.
const JOURNALS: [(&str, &str); 2] = [
    ("logs/journal.log", systemd::UNIT_NAME),
    ("logs/containerd.log", "containerd.service"),
];
/// The folder of KubeEdge's logs.
const KUBEEDGE_LOGS: &str = "/var/log/kubeedge";
/// The most log files of that folder.
const MAX_LOGS: usize = 10;
/// The variables with secrets of a proxy.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// What the archive is made from.
pub(super) struct Sources<'a> {
    /// The options of the command.
    pub(super) bundle: &'a Bundle,
    /// The path of the configuration.
    pub(super) path: &'a Path,
    /// The configuration.
    pub(super) config: &'a Config,
    /// The time range of logs.
    pub(super) range: TimeRange,
}

/// Adds all files.
pub(super) async fn add_all(archive: &mut Archive, sources: &Sources<'_>) {
    // the secrets of the database are replaced in all other files as well
    let (objects, failed) = match objects::read(sources.config).await {
        Ok(objects) => (objects, None),
        Err(why) => (Objects::default(), Some(why)),
    };
    let redactor = redactor(sources, &objects);
    let text = |text: Result<String, String>| text.map(|text| redactor.text(&text).into_bytes());
    archive.add("versions.json", document(&versions(), &redactor));
    let yaml = read_regular_text(sources.path, MAX_TEXT_BYTES);
    archive.add(
        "edgecore.yaml",
        text(yaml.map_err(|error| error.to_string())),
    );
    archive.add("check.json", run_checks(sources, &redactor).await);
    add_state(archive, sources, &redactor).await;
    match failed {
        Some(why) => archive.fail("database/objects.jsonl", Some(why)),
        None => archive.add(
            "database/objects.jsonl",
            Ok(objects::to_text(&objects.lines, &redactor)),
        ),
    }
    archive.add("database/check.json", database_health(sources.config).await);
    archive.add("runtime.json", runtime(sources.config, &redactor).await);
    add_logs(archive, sources, &redactor).await;
    let [unified, legacy] = CONTROLLERS;
    let controllers = match Path::new(unified.1).exists() {
        true => unified,
        false => legacy,
    };
    for (name, path) in MACHINE.into_iter().chain([controllers]) {
        let read = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        archive.add(name, text(read));
    }
}

/// Returns a redactor that knows the secrets of the node.
fn redactor(sources: &Sources<'_>, objects: &Objects) -> Redactor {
    let config = sources.config;
    let mut secrets = objects.secrets.clone();
    secrets.extend(
        config
            .edge_hub
            .token
            .iter()
            .map(|token| token.expose().to_owned()),
    );
    if let Some(bus) = &config.event_bus {
        secrets.extend(
            bus.password
                .iter()
                .map(|password| password.expose().to_owned()),
        );
    }
    for name in PROXIES {
        let proxy = std::env::var(name).unwrap_or_default();
        let user = proxy.rsplit_once('@').map(|(user, _)| user);
        let password = user.and_then(|user| user.rsplit_once(':'));
        secrets.extend(password.map(|(_, password)| password.to_owned()));
    }
    Redactor::new(secrets)
}

fn document(value: &impl Serialize, redactor: &Redactor) -> Result<Vec<u8>, String> {
    let mut value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    redactor.value(&mut value);
    serde_json::to_vec_pretty(&value).map_err(|error| error.to_string())
}

fn versions() -> serde_json::Value {
    json!({
        "edgeAgent": env!("CARGO_PKG_VERSION"),
        "text": wire::version::text(env!("CARGO_PKG_VERSION"), edged::KUBERNETES_VERSION),
        "architecture": std::env::consts::ARCH,
        "time": clock::now().to_string(),
    })
}

async fn run_checks(sources: &Sources<'_>, redactor: &Redactor) -> Result<Vec<u8>, String> {
    let check = Check {
        list: false,
        skip: Vec::new(),
        warnings_as_errors: false,
        output: OutputArgs::default(),
        paths: sources.bundle.paths.clone(),
    };
    let found = Box::pin(check::document(&check)).await;
    document(&found.map_err(|error| format!("{error:#}"))?, redactor)
}

/// Adds what the running agent reports.
async fn add_state(archive: &mut Archive, sources: &Sources<'_>, redactor: &Redactor) {
    let socket = &sources.config.status.socket;
    match request_status(socket).await {
        Ok(status) => {
            archive.add("messages.json", document(&status.messages, redactor));
            archive.add("status.json", document(&status, redactor));
        }
        Err(error) => archive.fail("status.json", Some(error.to_string())),
    }
    let metrics = request_metrics(socket).await;
    let metrics = metrics.map_err(|error| error.to_string());
    archive.add("metrics.txt", metrics.map(|page| page.to_vec()));
}

async fn database_health(config: &Config) -> Result<Vec<u8>, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let seal = app::seal(config).map_err(|error| failed(&error))?;
    let path = app::database(config);
    let mut database = Inspection::open(&path, seal)
        .await
        .map_err(|error| failed(&error))?;
    let health = database.check().await.map_err(|error| failed(&error))?;
    let damaged: Vec<String> = health
        .damaged
        .iter()
        .map(|(key, why)| format!("{key}: {why}"))
        .collect();
    let health = json!({
        "faults": health.faults, "damaged": damaged, "objects": health.objects, "encrypted": health.sealed,
        "locked": health.locked, "revision": health.revision, "bytes": health.bytes, "freeBytes": health.free_bytes,
    });
    serde_json::to_vec_pretty(&health).map_err(|error| error.to_string())
}

async fn runtime(config: &Config, redactor: &Redactor) -> Result<Vec<u8>, String> {
    let channel =
        app::connect(&config.edged.runtime_endpoint).map_err(|error| error.to_string())?;
    let state = runtime_state(channel)
        .await
        .map_err(|error| error.to_string())?;
    document(&state, redactor)
}

async fn add_logs(archive: &mut Archive, sources: &Sources<'_>, redactor: &Redactor) {
    if sources.bundle.paths.is_system_wide() {
        for (name, unit) in JOURNALS {
            let journal = LogReader {
                unit,
                range: sources.range,
            };
            let log = journal.journal().await.map(|log| redactor.bytes(&log));
            archive.add(name, log);
        }
    }
    let mut files = sources.bundle.logs.files.clone();
    files.extend(kubeedge_logs(&sources.bundle.paths.in_root(KUBEEDGE_LOGS)));
    add_log_files(archive, &files, sources.range, redactor);
}

/// Returns the log files in KubeEdge's folder, the newest first.
fn kubeedge_logs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "log")
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let newest = files.into_iter().rev().take(MAX_LOGS);
    newest.map(|(_, path)| path).collect()
}
