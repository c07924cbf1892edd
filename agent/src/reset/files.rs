//! The files of an agent.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    app,
    config::{Config, DatabaseKeys},
    metamanager::loopback_files,
    taskmanager,
};

/// The suffixes of files beside a database: SQLite's own, temporary files, and databases that were set aside.
const DATABASE_SUFFIXES: [&str; 6] = [
    "-wal",
    "-shm",
    "-journal",
    ".initialized",
    ".reserve",
    ".damaged-",
];
/// The path of the cloud's CA if no other is configured.
const DEFAULT_CA: &str = "kubeedge/ca/rootCA.crt";
/// The file name of DMI's socket.
const DMI_SOCKET: &str = "dmi.sock";
/// The file with the token that `keadm join` leaves beside the configuration.
const BOOTSTRAP_FILE: &str = "bootstrap-edgecore.conf";

/// Returns the paths below `root` of all files of an agent with this configuration, whether they exist or not, without those of pods.
/// A configuration may name files of the machine's own agent, which stay.
pub(super) fn all(config: &Config, path: &Path, root: &Path) -> Vec<PathBuf> {
    let mut all = configured_files(config, path);
    all.retain(|file| file == path || file.starts_with(root));
    all
}

fn configured_files(config: &Config, path: &Path) -> Vec<PathBuf> {
    let tls = &config.edge_hub.tls;
    let mut all = vec![path.to_owned(), tls.cert.clone(), tls.key.clone()];
    // a CA in another place belongs to the company, and others use it as well
    all.extend(Some(tls.ca.clone()).filter(|ca| ca.ends_with(DEFAULT_CA)));
    all.extend(bootstrap(path).filter(|path| path.exists()));
    for database in app::databases(config) {
        all.extend(beside(&database));
        all.push(database);
    }
    all.extend(taskmanager::files(path, &app::database(config)));
    if let Some(server) = &config.meta_manager.meta_server {
        all.extend([server.tls.cert.clone(), server.tls.key.clone()]);
        all.extend(app::requested_files(&tls.cert));
        all.extend(app::in_cluster_files(&tls.cert));
        all.extend(
            config
                .database
                .parent()
                .into_iter()
                .flat_map(loopback_files),
        );
    }
    all.extend(edged::device_files(&config.edged.root_dir));
    all.push(app::mesh_record(config));
    all.push(config.status.socket.clone());
    if let Some(devices) = &config.device_twin {
        all.push(devices.dmi_socket_dir.join(DMI_SOCKET));
    }
    all.sort();
    all.dedup();
    all
}

fn bootstrap(config: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = config.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join(BOOTSTRAP_FILE))
}

/// Returns the files whose names begin with the database's.
fn beside(database: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (
        database.parent(),
        database.file_name().and_then(|name| name.to_str()),
    ) else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_beside = |entry: &fs::DirEntry| {
        let entry = entry.file_name();
        entry
            .to_str()
            .and_then(|entry| entry.strip_prefix(name))
            .is_some_and(|rest| {
                DATABASE_SUFFIXES
                    .iter()
                    .any(|ending| rest.starts_with(ending))
            })
    };
    entries
        .filter(is_beside)
        .map(|entry| entry.path())
        .collect()
}

/// Removes the files, the configuration last; returns those that could not be removed, with the reasons.
pub(super) fn remove(config: &Config, path: &Path, root: &Path) -> Vec<String> {
    let all = all(config, path, root)
        .into_iter()
        .filter(|one| one != path)
        .chain([path.to_owned()]);
    let failed = all.filter_map(|one| match fs::remove_file(&one) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Some(format!("{}: {error}", one.display()))
        }
        _ => None,
    });
    failed.collect()
}

/// Removes empty folders up to `root`, which stays if it is the machine's own.
pub(super) fn remove_empty_folders(config: &Config, path: &Path, root: &Path) {
    let mut all = all(config, path, root);
    let folders = [
        config.edged.root_dir.clone(),
        config.edged.pod_logs_dir.clone(),
        app::volumes_directory(config),
    ];
    all.extend(folders.map(|folder| folder.join("-")));
    for file in all {
        for folder in file
            .ancestors()
            .skip(1)
            .filter(|folder| folder.starts_with(root) && *folder != Path::new("/"))
        {
            // a folder that is a mount or not empty stays, and so do its parents
            if fs::remove_dir(folder).is_err() && folder.exists() {
                break;
            }
        }
    }
}

/// Returns what to type next. After the purge of a package, this program no longer exists.
pub(super) fn next_steps(config: &Config, is_purge: bool) -> Vec<String> {
    let name = &config.node.name;
    let mut steps = vec![format!(
        "delete the Node in the cloud: `kubectl delete node {name}`"
    )];
    if !is_purge {
        steps.push(format!(
            "or join again as {name}: `cloudsim node reset {name}` in the cloud, then `edge-agent join … --rejoin` here"
        ));
    }
    steps
}

/// Returns what stays on purpose.
pub(super) fn remaining_items(config: &Config, path: &Path, root: &Path) -> Vec<String> {
    let name = &config.node.name;
    let mut all = vec![
        format!("the Node {name} in the cloud"),
        "images in the container runtime".to_owned(),
    ];
    let mut keep = |path: &Path, what: &str| {
        let is_empty =
            path.is_dir() && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if path.exists() && !is_empty {
            all.push(format!("{} ({what})", path.display()));
        }
    };
    if let Some(manifests) = &config.edged.static_pod_path {
        keep(manifests, "manifests of static pods");
    }
    if let Some(DatabaseKeys::File(file)) = &config.database_keys {
        keep(file, "the database's key");
    }
    keep(&config.database, "EdgeCore's database");
    keep(&config.edge_hub.tls.ca, "a CA that others may use");
    keep(
        &app::volumes_directory(config),
        "PersistentVolumes: data of your pods",
    );
    keep(&config.edged.root_dir, "contains files of other programs");
    keep(
        &config.edged.pod_logs_dir,
        "contains files of other programs",
    );
    let others = configured_files(config, path);
    let others = others.iter().filter(|file| *file != path);
    for file in others.filter(|file| !file.starts_with(root)) {
        keep(file, "not below --root");
    }
    if let Ok(program) = std::env::current_exe() {
        keep(&program, "this program");
    }
    all
}
