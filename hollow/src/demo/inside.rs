//! Checks the environment, the files and the log of the pod's first container, through the API as `kubectl exec` and `kubectl logs`
//! do.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail, ensure};
use clock::Instant;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{AttachParams, LogParams},
};
use tokio::{io::AsyncReadExt, time::timeout};

use super::Steps;
use crate::runtime::SimRuntime;

/// How long one command may take, and how long the node may take to open its tunnel before the first one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between attempts until the node's tunnel is open.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How many bytes of a command's output are read.
const MAX_OUTPUT: u64 = 1024 * 1024;

/// Compares what the container sees with what the API holds: each variable and file that comes from a ConfigMap or Secret.
pub(super) async fn look(steps: &Steps<'_>, pod: &Pod) -> anyhow::Result<Vec<(String, String)>> {
    let expected = Expected::read(&steps.client, pod).await?;
    let container = Inside::of(steps, pod)?;
    let environment = container.exec(&["env"]).await?;
    let mut seen = Vec::new();
    for (variable, value) in &expected.environment {
        ensure!(
            environment
                .lines()
                .any(|line| line == format!("{variable}={value}")),
            "variable {variable} is not as it should be"
        );
    }
    for (path, content) in &expected.files {
        let found = container.exec(&["cat", path]).await?;
        ensure!(
            found == *content,
            "file {path} does not have the expected content"
        );
    }
    seen.push((
        "config as environment".to_owned(),
        format_list(expected.environment.keys()),
    ));
    seen.push((
        "config as files".to_owned(),
        format_list(expected.files.keys()),
    ));
    if let Inside::Api { pods, name } = &container {
        let parameters = LogParams {
            tail_lines: Some(1),
            ..LogParams::default()
        };
        let log = timeout(TIMEOUT, pods.logs(name, &parameters))
            .await
            .context("the log was not received in time")??;
        let line = log.lines().next().context("the pod has logged nothing")?;
        seen.push(("kubectl exec".to_owned(), format!("{name} -- env, cat")));
        seen.push(("kubectl logs".to_owned(), excerpt(line)));
    }
    Ok(seen)
}

/// A container, and how commands are run in it.
enum Inside<'a> {
    /// Through the API, as kubectl does, over a socket: the in-process client cannot upgrade connections.
    Api { pods: Box<Api<Pod>>, name: String },
    /// Directly in its node's runtime.
    Node { runtime: &'a SimRuntime, id: String },
}

impl<'a> Inside<'a> {
    fn of(steps: &Steps<'a>, pod: &Pod) -> anyhow::Result<Self> {
        if let Some(connected) = &steps.connected {
            let pods = Api::namespaced(connected.clone(), &pod.namespace().unwrap_or_default());
            return Ok(Self::Api {
                pods: Box::new(pods),
                name: pod.name_any(),
            });
        }
        let runtime = &steps.node.runtime;
        let ids = runtime.container_ids_of(&pod.uid().unwrap_or_default());
        let id = ids
            .into_iter()
            .next()
            .context("the node's runtime has no container of the pod")?;
        Ok(Self::Node { runtime, id })
    }

    async fn exec(&self, command: &[&str]) -> anyhow::Result<String> {
        let (runtime, id) = match self {
            Self::Api { pods, name } => return exec(pods, name, command).await,
            Self::Node { runtime, id } => (runtime, id),
        };
        let words: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let ended = runtime.exec(id, &words, TIMEOUT).await?;
        ensure!(
            ended.exit_code == 0,
            "{} failed in the container",
            words.join(" ")
        );
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }
}

fn format_list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns as much of a line as a terminal shows.
fn excerpt(line: &str) -> String {
    let mut text: String = line.chars().take(60).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}

/// Returns the output of a command, once the node's tunnel is open.
async fn exec(pods: &Api<Pod>, pod: &str, command: &[&str]) -> anyhow::Result<String> {
    let words = command.join(" ");
    let deadline = Instant::now() + TIMEOUT;
    let mut process = loop {
        match pods
            .exec(
                pod,
                command.iter().copied(),
                &AttachParams::default().stderr(false),
            )
            .await
        {
            Ok(process) => break process,
            Err(error) if Instant::now() > deadline => {
                return Err(error)
                    .with_context(|| format!("{words} could not be started in the container"));
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
        Some(status) => bail!(
            "{words} failed in the container: {}",
            status.message.unwrap_or_default()
        ),
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
        let source = Source {
            client,
            namespace: &namespace,
        };
        let spec = pod.spec.as_ref().context("the pod has no spec")?;
        let container = spec
            .containers
            .first()
            .context("the pod has no container")?;
        let mut expected = Self::default();
        expected.environment(&source, container).await?;
        for mount in container.volume_mounts.iter().flatten() {
            let volume = spec
                .volumes
                .iter()
                .flatten()
                .find(|volume| volume.name == mount.name);
            let data = match volume.map(|volume| (&volume.config_map, &volume.secret)) {
                Some((Some(map), _)) => source.config_map(&map.name).await?,
                Some((_, Some(secret))) => {
                    source
                        .secret(secret.secret_name.as_deref().unwrap_or_default())
                        .await?
                }
                _ => continue,
            };
            expected.files.extend(
                data.into_iter()
                    .map(|(key, value)| (format!("{}/{key}", mount.mount_path), value)),
            );
        }
        ensure!(
            !expected.environment.is_empty() && !expected.files.is_empty(),
            "the pod uses no ConfigMap and no Secret; use one as variables and another one as a volume, as in examples/"
        );
        Ok(expected)
    }

    async fn environment(
        &mut self,
        source: &Source<'_>,
        container: &Container,
    ) -> anyhow::Result<()> {
        for variable in container.env.iter().flatten() {
            let Some(from) = &variable.value_from else {
                continue;
            };
            let (data, key) = match (&from.config_map_key_ref, &from.secret_key_ref) {
                (Some(key), _) => (source.config_map(&key.name).await?, &key.key),
                (_, Some(key)) => (source.secret(&key.name).await?, &key.key),
                _ => continue,
            };
            let value = data
                .get(key)
                .with_context(|| format!("there is no key {key}"))?;
            self.environment
                .insert(variable.name.clone(), value.clone());
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
        let map = Api::<ConfigMap>::namespaced(self.client.clone(), self.namespace)
            .get(name)
            .await?;
        Ok(map.data.unwrap_or_default())
    }

    async fn secret(&self, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let secret = Api::<Secret>::namespaced(self.client.clone(), self.namespace)
            .get(name)
            .await?;
        let data = secret.data.unwrap_or_default().into_iter();
        Ok(data
            .map(|(key, bytes)| (key, String::from_utf8_lossy(&bytes.0).into_owned()))
            .collect())
    }
}
