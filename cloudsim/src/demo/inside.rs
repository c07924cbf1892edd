//! What the pod's first container sees and says: its environment, its files and its log, asked for through the API as `kubectl exec` and
//! `kubectl logs` do.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{AttachParams, LogParams},
};
use tokio::{io::AsyncReadExt, time::timeout};

/// How long one command may take, and the node's tunnel to stand before the first one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between tries before the node's tunnel stands.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of a command's output that are read.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// Compares what the container sees with what the API holds: each variable and file that comes from a ConfigMap or Secret. `connected`
/// is a client over a socket: the in-process one cannot switch protocols.
pub(super) async fn look(
    client: &Client,
    connected: &Client,
    pod: &Pod,
) -> anyhow::Result<Vec<(String, String)>> {
    let pods = Api::<Pod>::namespaced(connected.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let expected = Expected::read(client, pod).await?;
    let environment = exec(&pods, &name, &["env"]).await?;
    let mut seen = Vec::new();
    for (variable, value) in &expected.environment {
        ensure!(
            environment.lines().any(|line| line == format!("{variable}={value}")),
            "variable {variable} is not as it should be"
        );
    }
    for (path, content) in &expected.files {
        let found = exec(&pods, &name, &["cat", path]).await?;
        ensure!(found == *content, "file {path} is not as it should be");
    }
    let log = timeout(TIMEOUT, pods.logs(&name, &LogParams { tail_lines: Some(1), ..LogParams::default() }))
        .await
        .context("the log did not come in time")??;
    let line = log.lines().next().context("the pod has logged nothing")?;
    seen.push(("config as environment".to_owned(), listed(expected.environment.keys())));
    seen.push(("config as files".to_owned(), listed(expected.files.keys())));
    seen.push(("kubectl exec".to_owned(), format!("{name} -- env, cat")));
    seen.push(("kubectl logs".to_owned(), excerpt(line)));
    Ok(seen)
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// As much of a line as a terminal shows.
fn excerpt(line: &str) -> String {
    let mut text: String = line.chars().take(60).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}

/// The output of a command, once the node's tunnel stands.
async fn exec(pods: &Api<Pod>, pod: &str, command: &[&str]) -> anyhow::Result<String> {
    let words = command.join(" ");
    let deadline = Instant::now() + TIMEOUT;
    let mut process = loop {
        match pods.exec(pod, command.iter().copied(), &AttachParams::default().stderr(false)).await {
            Ok(process) => break process,
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("{words} could not be started in the container"));
            }
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    let status = process.take_status().context("the command has no status")?;
    let ended = async {
        let mut output = String::new();
        if let Some(stdout) = process.stdout() {
            stdout.take(MAX_OUTPUT).read_to_string(&mut output).await?;
        }
        anyhow::Ok((output, status.await))
    };
    let (output, status) = timeout(TIMEOUT, ended)
        .await
        .with_context(|| format!("{words} did not end within {TIMEOUT:?}"))??;
    match status {
        Some(status) if status.status.as_deref() == Some("Success") => Ok(output),
        Some(status) => bail!("{words} failed in the container: {}", status.message.unwrap_or_default()),
        None => bail!("{words} ended without a status"),
    }
}

#[derive(Default)]
struct Expected {
    environment: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
}

impl Expected {
    async fn read(client: &Client, pod: &Pod) -> anyhow::Result<Self> {
        let namespace = pod.namespace().unwrap_or_default();
        let source = Source { client, namespace: &namespace };
        let spec = pod.spec.as_ref().context("the pod has no spec")?;
        let container = spec.containers.first().context("the pod has no container")?;
        let mut expected = Self::default();
        expected.environment(&source, container).await?;
        for mount in container.volume_mounts.iter().flatten() {
            let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name);
            let data = match volume.map(|volume| (&volume.config_map, &volume.secret)) {
                Some((Some(map), _)) => source.config_map(&map.name).await?,
                Some((_, Some(secret))) => {
                    source.secret(secret.secret_name.as_deref().unwrap_or_default()).await?
                }
                _ => continue,
            };
            expected
                .files
                .extend(data.into_iter().map(|(key, value)| (format!("{}/{key}", mount.mount_path), value)));
        }
        ensure!(
            !expected.environment.is_empty() && !expected.files.is_empty(),
            "the pod uses no ConfigMap and no Secret"
        );
        Ok(expected)
    }

    async fn environment(&mut self, source: &Source<'_>, container: &Container) -> anyhow::Result<()> {
        for variable in container.env.iter().flatten() {
            let Some(from) = &variable.value_from else { continue };
            let (data, key) = match (&from.config_map_key_ref, &from.secret_key_ref) {
                (Some(key), _) => (source.config_map(&key.name).await?, &key.key),
                (_, Some(key)) => (source.secret(&key.name).await?, &key.key),
                _ => continue,
            };
            let value = data.get(key).with_context(|| format!("there is no key {key}"))?;
            self.environment.insert(variable.name.clone(), value.clone());
        }
        Ok(())
    }
}

struct Source<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl Source<'_> {
    async fn config_map(&self, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let map = Api::<ConfigMap>::namespaced(self.client.clone(), self.namespace).get(name).await?;
        Ok(map.data.unwrap_or_default())
    }

    async fn secret(&self, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let secret = Api::<Secret>::namespaced(self.client.clone(), self.namespace).get(name).await?;
        let data = secret.data.unwrap_or_default().into_iter();
        Ok(data.map(|(key, bytes)| (key, String::from_utf8_lossy(&bytes.0).into_owned())).collect())
    }
}
