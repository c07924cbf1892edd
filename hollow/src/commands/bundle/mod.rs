//! `cloudsim bundle`: one archive for a bug report, without secrets. A part that fails is a line in `errors.txt`.

use std::{path::PathBuf, time::Duration};

use agent::bundle::{
    Archive, LogReader, Target, TimeRange, add_log_files, mask_object, secret_values,
};
use http::Request;
use kube::Client;
use limits::read_regular_file;
use record::redact::Redactor;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use wire::text::with_causes;

use super::{
    choice::{choose, matching},
    nodes, packaged_service, print_line,
    remote::Remote,
    running::{Records, RunningCloud},
};
use crate::cli::{Bundle, Cli};

/// How long a request to the API may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The most objects of a kind.
const MAX_OBJECTS: u32 = 5000;
/// The largest command line of a process that is read, bytes.
const MAX_ARGUMENTS: u64 = 1024 * 1024;
/// The kinds of objects, each with the path of its list.
const KINDS: [(&str, &str); 26] = [
    ("secrets", "/api/v1/secrets"),
    ("configmaps", "/api/v1/configmaps"),
    ("nodes", "/api/v1/nodes"),
    ("pods", "/api/v1/pods"),
    ("events", "/api/v1/events"),
    ("namespaces", "/api/v1/namespaces"),
    ("services", "/api/v1/services"),
    ("serviceaccounts", "/api/v1/serviceaccounts"),
    ("persistentvolumes", "/api/v1/persistentvolumes"),
    ("persistentvolumeclaims", "/api/v1/persistentvolumeclaims"),
    ("leases", "/apis/coordination.k8s.io/v1/leases"),
    ("deployments", "/apis/apps/v1/deployments"),
    ("replicasets", "/apis/apps/v1/replicasets"),
    ("daemonsets", "/apis/apps/v1/daemonsets"),
    ("statefulsets", "/apis/apps/v1/statefulsets"),
    ("jobs", "/apis/batch/v1/jobs"),
    ("cronjobs", "/apis/batch/v1/cronjobs"),
    ("endpointslices", "/apis/discovery.k8s.io/v1/endpointslices"),
    (
        "certificatesigningrequests",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    ),
    ("devices", "/apis/devices.kubeedge.io/v1beta1/devices"),
    (
        "devicemodels",
        "/apis/devices.kubeedge.io/v1beta1/devicemodels",
    ),
    (
        "devicestatuses",
        "/apis/devices.kubeedge.io/v1beta1/devicestatuses",
    ),
    ("rules", "/apis/rules.kubeedge.io/v1/rules"),
    ("ruleendpoints", "/apis/rules.kubeedge.io/v1/ruleendpoints"),
    (
        "objectsyncs",
        "/apis/reliablesyncs.kubeedge.io/v1alpha1/objectsyncs",
    ),
    (
        "clusterobjectsyncs",
        "/apis/reliablesyncs.kubeedge.io/v1alpha1/clusterobjectsyncs",
    ),
];
/// The kinds whose values are not shown.
const PAYLOADS: [&str; 2] = ["secrets", "configmaps"];
/// The kind whose values are secrets.
const SECRETS: &str = "secrets";

/// Writes the archive.
pub(super) async fn run(options: &Bundle, records: &Records) -> anyhow::Result<()> {
    let now = clock::now();
    let clouds = matching(&options.access, records.list_with_service()?);
    let name = clouds.first().map_or("cloud", RunningCloud::name);
    let name: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let name = format!("cloudsim-bundle-{name}-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let remote = match choose(options.access.clone(), records) {
        Ok(access) => Remote::of(&access).await,
        Err(error) => Err(error),
    };
    let remote = match remote {
        // without a cloud there is nothing to report
        Err(error)
            if clouds.is_empty()
                && options.logs.files.is_empty()
                && packaged_service::fault().await.is_none() =>
        {
            return Err(error);
        }
        other => other,
    };
    let mut archive = Archive::create(Target::of(options.output.as_deref(), &name), &name, now)?;
    let redactor = match remote {
        Ok(cloud) => add_cloud(&mut archive, &cloud).await,
        Err(error) => {
            archive.fail("objects", Some(with_causes(error.as_ref())));
            Redactor::default()
        }
    };
    let versions = json!({
        "text": Cli::version(), "architecture": std::env::consts::ARCH, "time": now.to_string(),
    });
    archive.add("versions.json", document(&versions, &redactor));
    add_processes(&mut archive, options, &clouds, &redactor).await;
    for line in archive.finish()?.lines() {
        print_line(&line);
    }
    Ok(())
}

/// Adds what the API has; returns a redactor that knows its Secrets.
async fn add_cloud(archive: &mut Archive, cloud: &Remote) -> Redactor {
    let mut lists = Vec::new();
    let mut secrets = Vec::new();
    // without an API, each request would wait for its deadline
    match get(&cloud.client, "/version").await {
        Ok(version) => archive.add("api-version.json", Ok(version.into_bytes())),
        Err(why) => {
            archive.fail("objects, metrics and sessions", Some(why));
            return Redactor::default();
        }
    }
    for (kind, path) in KINDS {
        let list = get(&cloud.client, &format!("{path}?limit={MAX_OBJECTS}")).await;
        let list = list.and_then(|text| {
            serde_json::from_str::<Value>(&text).map_err(|error| error.to_string())
        });
        match list {
            Ok(mut list) => {
                let items = list.get_mut("items").and_then(Value::as_array_mut);
                for item in items.into_iter().flatten() {
                    if kind == SECRETS {
                        secrets.extend(secret_values(item));
                    }
                    mask_object(item, PAYLOADS.contains(&kind));
                }
                lists.push((kind, list));
            }
            Err(why) => archive.fail(&format!("objects/{kind}.json"), Some(why)),
        }
    }
    let redactor = Redactor::new(secrets);
    for (kind, list) in lists {
        archive.add(&format!("objects/{kind}.json"), document(&list, &redactor));
    }
    let metrics = get(&cloud.client, "/metrics").await;
    archive.add(
        "metrics.txt",
        metrics.map(|text| redactor.text(&text).into_bytes()),
    );
    match timeout(REQUEST_TIMEOUT, nodes::sessions(cloud)).await {
        Ok(Ok(found)) => archive.add("sessions.json", document(&found.sessions, &redactor)),
        Ok(Err(error)) => archive.fail("sessions.json", Some(with_causes(error.as_ref()))),
        Err(_) => archive.fail("sessions.json", Some("no answer in time".to_owned())),
    }
    redactor
}

async fn get(client: &Client, path: &str) -> Result<String, String> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    match timeout(REQUEST_TIMEOUT, client.request_text(request)).await {
        Ok(text) => text.map_err(|error| with_causes(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())),
    }
}

fn document(value: &impl Serialize, redactor: &Redactor) -> Result<Vec<u8>, String> {
    let mut value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    redactor.value(&mut value);
    serde_json::to_vec_pretty(&value).map_err(|error| error.to_string())
}

/// Adds options and logs of the clouds that run on this machine.
async fn add_processes(
    archive: &mut Archive,
    options: &Bundle,
    clouds: &[RunningCloud],
    redactor: &Redactor,
) {
    let processes: Vec<Value> = clouds
        .iter()
        .map(|cloud| {
            json!({
                "name": cloud.name(), "api": cloud.api, "pid": cloud.process.pid, "since": cloud.since,
                "dataDir": cloud.data_dir, "arguments": arguments(cloud.process.pid, redactor),
            })
        })
        .collect();
    archive.add("processes.json", document(&processes, redactor));
    let logs = clouds.iter().filter_map(|cloud| cloud.log.clone());
    let logs: Vec<PathBuf> = logs.chain(options.logs.files.iter().cloned()).collect();
    let range = TimeRange::from(&options.logs);
    if logs.is_empty() {
        let unit = packaged_service::UNIT;
        let journal = LogReader { unit, range }.journal().await;
        let journal = journal.map(|log| redactor.bytes(&log)).map_err(|why| {
            format!(
                "no cloud in the background has a log file, and {why}; name one with --log-file"
            )
        });
        archive.add(&format!("logs/{unit}"), journal);
    }
    add_log_files(archive, &logs, range, redactor);
}

/// Returns the arguments of a process; empty if it has ended.
fn arguments(pid: i32, redactor: &Redactor) -> Vec<String> {
    let path = format!("/proc/{pid}/cmdline");
    let line = read_regular_file(path.as_ref(), MAX_ARGUMENTS).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    let all: Vec<&str> = line.split_terminator('\0').collect();
    redactor.arguments(&all)
}

#[cfg(test)]
mod tests;
