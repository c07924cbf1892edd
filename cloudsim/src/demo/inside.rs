//! What the pod's first container sees: its environment and files, asked through the runtime as `kubectl exec` would.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};
use kube::{Api, Client, ResourceExt};
use wire::cri::{ExecSyncRequest, runtime_service_client::RuntimeServiceClient};

use crate::runtime::SimRuntime;

/// Seconds that one command may take.
const PATIENCE: i64 = 10;

/// Compares what the container sees with what the API holds: each variable and file that comes from a ConfigMap or Secret.
pub(super) async fn look(
    client: &Client,
    runtime: &SimRuntime,
    pod: &Pod,
) -> anyhow::Result<Vec<(String, String)>> {
    let uid = pod.uid().context("the pod has no UID")?;
    let container =
        runtime.container_ids_of(&uid).pop().context("the runtime has no container of the pod")?;
    let expected = Expected::read(client, pod).await?;
    let environment = exec(runtime, &container, &["env"]).await?;
    let mut seen = Vec::new();
    for (name, value) in &expected.environment {
        ensure!(
            environment.lines().any(|line| line == format!("{name}={value}")),
            "variable {name} is not as it should be"
        );
    }
    for (path, content) in &expected.files {
        let found = exec(runtime, &container, &["cat", path]).await?;
        ensure!(found == *content, "file {path} is not as it should be");
    }
    seen.push(("config as environment".to_owned(), listed(expected.environment.keys())));
    seen.push(("config as files".to_owned(), listed(expected.files.keys())));
    Ok(seen)
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

async fn exec(runtime: &SimRuntime, container: &str, command: &[&str]) -> anyhow::Result<String> {
    let request = ExecSyncRequest {
        container_id: container.to_owned(),
        cmd: command.iter().map(|&word| word.to_owned()).collect(),
        timeout: PATIENCE,
    };
    let answer = RuntimeServiceClient::new(runtime.channel()).exec_sync(request).await?.into_inner();
    if answer.exit_code != 0 {
        bail!("{} failed in the container: {}", command.join(" "), String::from_utf8_lossy(&answer.stderr));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
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
