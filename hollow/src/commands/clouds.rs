//! `cloudsim status`, `down` and `kubeconfig`: the clouds that this user runs on this machine.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::ListParams,
    config::{Kubeconfig, NamedContext},
};
use kubeapi::LenientObject;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{
    choice::{self, matching},
    connect, environment,
    listing::{Column, Listing, Row, Rows, show},
    nodes::is_ready,
    output::{print_line, warn},
    packaged_service,
    running::{Records, RunningCloud},
    screen::Screen,
    table::age,
};
use crate::cli::{Access, ListArgs};

/// Timeout of a request to a cloud.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// What else `down` offers if there are several clouds.
const ALL: &str = ", or stop all with --all";

/// Text of an empty list.
const NONE: &str = "no cloud is running; start one with `cloudsim up`";

const COLUMNS: [Column; 9] = [
    Column::new("NAME"),
    Column::new("STATUS"),
    Column::new("NODES"),
    Column::new("API"),
    Column::new("PID"),
    Column::age("AGE"),
    Column::wide("DATA"),
    Column::wide("KUBECONFIG"),
    Column::wide("LOG"),
];

/// Lists the running clouds; without any, the exit code is 1.
pub(super) async fn status(
    access: &Access,
    list: &ListArgs,
    records: &Records,
) -> anyhow::Result<ExitCode> {
    let is_none = choose_clouds(access, records)?.is_empty();
    if is_none && let Some(fault) = packaged_service::fault().await {
        warn(&fault);
    }
    show(list, async || {
        listing(&choose_clouds(access, records)?).await
    })
    .await?;
    Ok(match is_none {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Returns the clouds that the options name; without options, all.
fn choose_clouds(access: &Access, records: &Records) -> anyhow::Result<Vec<RunningCloud>> {
    Ok(matching(access, records.list_with_service()?))
}

async fn listing(clouds: &[RunningCloud]) -> anyhow::Result<Listing> {
    let asked = clouds.iter().map(|cloud| async move {
        let asked = timeout(ANSWER_TIMEOUT, nodes(cloud)).await;
        (cloud, asked.unwrap_or(Health::Silent))
    });
    let now = clock::now();
    let rows: Vec<Row> = futures::future::join_all(asked)
        .await
        .into_iter()
        .map(|(cloud, health)| row(cloud, health, now))
        .collect();
    Ok(Listing {
        document: json!({"clouds": rows.iter().map(|row| &row.document).collect::<Vec<_>>()}),
        tables: vec![Rows {
            columns: &COLUMNS,
            rows,
            if_empty: NONE,
        }],
        notes: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Health of a cloud, as its API shows it.
enum Health {
    /// Its API answers, with this number of Ready nodes and of all.
    Nodes(usize, usize),
    /// Its API is that of a cluster, which is not asked.
    Cluster,
    /// There is no answer.
    Silent,
}

async fn nodes(cloud: &RunningCloud) -> Health {
    let Some(kubeconfig) = &cloud.kubeconfig else {
        return Health::Cluster;
    };
    let access = Access {
        kubeconfig: Some(kubeconfig.clone()),
        context: cloud.context.clone(),
    };
    let Ok(client) = connect::connect(&access).await else {
        return Health::Silent;
    };
    let nodes = Api::<LenientObject<Node>>::all(client);
    match nodes.list(&ListParams::default()).await {
        Ok(nodes) => Health::Nodes(
            (nodes.iter().filter_map(|node| node.as_decoded().ok()))
                .filter(|node| is_ready(node))
                .count(),
            nodes.items.len(),
        ),
        Err(_) => Health::Silent,
    }
}

fn row(cloud: &RunningCloud, health: Health, now: Timestamp) -> Row {
    let (status, nodes) = match health {
        Health::Nodes(ready, all) => ("Ready", format!("{ready}/{all}")),
        Health::Cluster => ("Running", "-".to_owned()),
        Health::Silent => ("NotResponding", "-".to_owned()),
    };
    let status = if cloud.is_starting {
        "Starting"
    } else {
        status
    };
    let path = |path: &Option<PathBuf>, missing: &str| {
        path.as_ref()
            .map_or_else(|| missing.to_owned(), |path| path.display().to_string())
    };
    let pid = cloud.process.pid;
    Row {
        name: format!("cloud/{}", cloud.name()),
        id: pid.to_string(),
        document: json!({
            "name": cloud.context, "status": status, "api": cloud.api, "pid": pid, "since": cloud.since,
            "readyNodes": match health { Health::Nodes(ready, _) => Some(ready), _ => None },
            "nodes": match health { Health::Nodes(_, all) => Some(all), _ => None },
            "dataDir": cloud.data_dir, "kubeconfig": cloud.kubeconfig, "log": cloud.log,
        }),
        cells: vec![
            cloud.name().to_owned(),
            status.to_owned(),
            nodes,
            cloud.api.clone().unwrap_or_else(|| "-".to_owned()),
            pid.to_string(),
            age(cloud.since, now),
            path(&cloud.data_dir, "in memory"),
            path(&cloud.kubeconfig, "-"),
            path(&cloud.log, "terminal"),
        ],
    }
}

/// Stops a cloud, or all.
pub(super) async fn down(
    access: &Access,
    is_all: bool,
    records: &Records,
) -> anyhow::Result<ExitCode> {
    let running = records.list()?;
    let other = running.first().map(|cloud| cloud.name().to_owned());
    let mut clouds = matching(access, running);
    if let (true, Some(other)) = (clouds.is_empty(), other) {
        bail!(
            "no running cloud has this kubeconfig and context, but {other} runs; `cloudsim status` lists all"
        );
    }
    if !is_all {
        let variable = environment::split_paths(std::env::var_os("KUBECONFIG"));
        clouds = choose_one(access, &variable, clouds)?.into_iter().collect();
    }
    if clouds.is_empty() {
        print_line("no cloud is running; nothing to stop");
    }
    for cloud in clouds {
        let begun = Instant::now();
        let (name, pid) = (cloud.name(), cloud.process.pid);
        let stopping = || format!("stopping {name}");
        Screen::of_stdout()
            .wait(stopping, cloud.process.stop())
            .await?;
        let kept = match &cloud.data_dir {
            Some(directory) => format!("; its data is in {}", directory.display()),
            None => String::new(),
        };
        print_line(&format!(
            "{name} (process {pid}) stopped after {:.1} s{kept}",
            begun.elapsed().as_secs_f64()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the only cloud, or that of the files of `$KUBECONFIG` or of the current directory. `$KUBECONFIG` without options never means a
/// cloud with another kubeconfig, as what it names may be gone.
fn choose_one(
    access: &Access,
    variable: &[PathBuf],
    clouds: Vec<RunningCloud>,
) -> anyhow::Result<Option<RunningCloud>> {
    if access.kubeconfig.is_some() || access.context.is_some() {
        return choice::only(clouds, ALL);
    }
    let here = choice::in_files(&clouds, variable);
    if let (true, [cloud]) = (clouds.len() > 1, here.as_slice()) {
        return Ok(Some(cloud.clone()));
    }
    let elsewhere = |cloud: &RunningCloud| cloud.kubeconfig.is_some() && here.is_empty();
    if !variable.is_empty()
        && let [cloud] = clouds.as_slice()
        && elsewhere(cloud)
    {
        bail!(
            "$KUBECONFIG names no running cloud, but {name} runs; stop it with `cloudsim down --context {name}`",
            name = cloud.name()
        );
    }
    choice::only(clouds, ALL)
}

/// Prints a kubeconfig for one cloud alone, with its credentials.
pub(super) fn kubeconfig(access: Access, records: &Records) -> anyhow::Result<ExitCode> {
    let access = choice::choose(access, records)?;
    let read = match connect::read(&access) {
        Ok(read) => read,
        Err(_) if access.kubeconfig.is_none() => {
            let is_in_cluster = |cloud: &RunningCloud| cloud.kubeconfig.is_none();
            if records.list()?.iter().any(is_in_cluster) {
                bail!(
                    "a cloud in cluster mode has no kubeconfig of its own; use that of the cluster"
                );
            }
            bail!(NONE)
        }
        Err(error) => {
            let cure = "name another file with --kubeconfig";
            return Err(connect::unread(error, cure));
        }
    };
    let file = connect::file(&access);
    let minimal = minimal(read, access.context.as_deref())
        .with_context(|| format!("cannot use {}", file.display()))?;
    // without block scalars: credentials stay in one line
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    print_line(serde_saphyr::to_string_with_options(&minimal, options)?.trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Returns a kubeconfig with one context, its cluster and its user.
fn minimal(read: Kubeconfig, context: Option<&str>) -> anyhow::Result<Kubeconfig> {
    let wanted = context
        .map(str::to_owned)
        .or_else(|| read.current_context.clone())
        .filter(|name| !name.is_empty());
    let names: Vec<String> = (read.contexts.iter())
        .map(|context| context.name.clone())
        .collect();
    let cure = format!("choose one with --context: {}", names.join(", "));
    let wanted = wanted.with_context(|| format!("there is no current context; {cure}"))?;
    let context: NamedContext = (read.contexts.into_iter())
        .find(|context| context.name == wanted)
        .with_context(|| format!("there is no context {wanted:?}; {cure}"))?;
    let used = context.context.clone().unwrap_or_default();
    let cluster = read.clusters.into_iter();
    let cluster = cluster.filter(|cluster| cluster.name == used.cluster);
    let user = read.auth_infos.into_iter();
    let user = user.filter(|user| Some(&user.name) == used.user.as_ref());
    Ok(Kubeconfig {
        clusters: cluster.collect(),
        auth_infos: user.collect(),
        contexts: vec![context],
        current_context: Some(wanted),
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        ..Kubeconfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{
        process::Process,
        running::tests::{cloud, records},
    };

    fn access(kubeconfig: Option<&str>, context: Option<&str>) -> Access {
        Access {
            kubeconfig: kubeconfig.map(PathBuf::from),
            context: context.map(str::to_owned),
        }
    }

    #[test]
    fn one_of_several_clouds_must_be_chosen() {
        let own = Process::of(std::process::id()).unwrap();
        let two = || vec![cloud(own.clone(), "blue"), cloud(own.clone(), "green")];
        let none = access(None, None);
        assert!(choose_one(&none, &[], Vec::new()).unwrap().is_none());
        let one = || vec![cloud(own.clone(), "blue")];
        let [here, gone] = ["/nowhere/kubeconfig", "/gone"].map(|file| [PathBuf::from(file)]);
        for (access, variable) in [
            (&none, &[][..]),
            (&none, &here),
            (&access(None, Some("blue")), &gone),
        ] {
            let first = choose_one(access, variable, one()).unwrap();
            assert_eq!(first.unwrap().name(), "blue");
        }
        let refused = choose_one(&none, &gone, one()).unwrap_err().to_string();
        assert!(refused.contains("down --context blue"), "{refused}");
        let in_cluster = RunningCloud {
            kubeconfig: None,
            ..cloud(own.clone(), "kind")
        };
        let found = choose_one(&none, &gone, vec![in_cluster]).unwrap();
        assert_eq!(found.unwrap().name(), "kind");
        let named = access(Some("/nowhere/kubeconfig"), None);
        let refused = choose_one(&named, &[], two()).unwrap_err();
        let refused = refused.to_string();
        for part in ["2 clouds", "blue", "green", "--context", "--all"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }

    #[tokio::test]
    async fn options_select_clouds_by_file_and_context() {
        let directory = tempfile::tempdir().unwrap();
        let records = records(directory.path());
        let own = Process::of(std::process::id()).unwrap();
        let _added = records.add(cloud(own, "blue")).await.unwrap();
        for (file, context, count) in [
            (None, None, 1),
            (None, Some("blue"), 1),
            (None, Some("green"), 0),
            (Some("/nowhere/kubeconfig"), None, 1),
            (Some("/nowhere/other"), Some("blue"), 0),
        ] {
            let found = choose_clouds(&access(file, context), &records).unwrap();
            assert_eq!(found.len(), count, "{file:?} {context:?}");
        }
    }

    #[test]
    fn printed_kubeconfig_has_one_context_and_nothing_of_others() {
        let named = |name: &str| {
            format!(
                "- {{name: {name}, cluster: {{server: 'https://{name}'}}, user: {{token: of-{name}}}, \
                 context: {{cluster: {name}, user: {name}}}}}\n"
            )
        };
        let both = named("blue") + &named("green");
        let text =
            format!("current-context: blue\nclusters:\n{both}contexts:\n{both}users:\n{both}");
        let read = || serde_saphyr::from_str::<Kubeconfig>(&text).unwrap();
        for (context, name, other) in [(None, "blue", "green"), (Some("green"), "green", "blue")] {
            let printed = serde_saphyr::to_string(&minimal(read(), context).unwrap()).unwrap();
            assert!(
                printed.contains(&format!("https://{name}"))
                    && printed.contains(&format!("of-{name}"))
                    && printed.contains(&format!("current-context: {name}")),
                "{printed}"
            );
            assert!(!printed.contains(other), "{printed}");
        }
        let refused = minimal(read(), Some("red")).unwrap_err().to_string();
        assert!(
            refused.contains("red") && refused.contains("blue, green"),
            "{refused}"
        );
    }
}
