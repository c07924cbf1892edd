//! Asks a container runtime for its name, version and state before anything is created with it.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use tokio::time::timeout;

use super::{
    RuntimeChannel, names,
    pressure::image_root,
    runtime::{CallError, Runtime},
};
use crate::settings::CgroupDriver;

/// The name of cloudsim's simulated runtime in its answer to `Version`.
pub const SIMULATED_RUNTIME: &str = "outrigger-sim";

/// How long the runtime may take for all these short calls together.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(10);

/// What a container runtime reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The cgroup driver, if the runtime reports it.
    pub driver: Option<CgroupDriver>,
    /// Why its pod network is not ready, if it is not.
    pub network: Option<String>,
    /// Existing pods, as `namespace/name`.
    pub pods: BTreeSet<String>,
    /// A directory on the disk of images, if the runtime reports one.
    pub images: Option<PathBuf>,
    /// The directories of CNI, if the runtime reports them.
    pub cni: Option<CniDirectories>,
}

/// The directories of CNI that a runtime uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniDirectories {
    /// The directory of configurations.
    pub config: PathBuf,
    /// The directories of plugins.
    pub plugins: Vec<PathBuf>,
}

/// Why a container runtime cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeInfoError {
    /// It does not implement CRI v1.
    #[error("the runtime does not support CRI v1 ({0})")]
    Unimplemented(String),
    /// It does not answer, or answers with an error.
    #[error("{0}")]
    NoAnswer(String),
}

impl From<CallError> for RuntimeInfoError {
    fn from(error: CallError) -> Self {
        let message = error.message();
        if error.is_unimplemented() {
            Self::Unimplemented(message)
        } else {
            Self::NoAnswer(message)
        }
    }
}

/// Asks the runtime behind `channel` for its name, version and state.
pub async fn runtime_info(channel: RuntimeChannel) -> Result<RuntimeInfo, RuntimeInfoError> {
    let late =
        |_| RuntimeInfoError::NoAnswer(format!("no answer within {} s", RUNTIME_TIMEOUT.as_secs()));
    timeout(RUNTIME_TIMEOUT, request_info(Runtime::new(channel, None)))
        .await
        .map_err(late)?
}

async fn request_info(runtime: Runtime) -> Result<RuntimeInfo, RuntimeInfoError> {
    let version = runtime.version().await?;
    let status = runtime.verbose_status().await?;
    let driver = runtime.cgroup_driver().await?;
    let config = status.info.get("config").map_or("", String::as_str);
    let cni = cni_directories(config);
    let conditions = status
        .status
        .into_iter()
        .flat_map(|status| status.conditions);
    let mut broken = conditions.filter(|one| one.r#type == "NetworkReady" && !one.status);
    let network = broken.next().map(|one| one.message);
    let sandboxes = runtime.sandboxes(None).await?.into_iter();
    let pods = sandboxes
        .filter(|one| one.labels.contains_key(names::POD_UID))
        .map(|sandbox| {
            let label = |key| sandbox.labels.get(key).map_or("", String::as_str);
            format!("{}/{}", label(names::POD_NAMESPACE), label(names::POD_NAME))
        });
    let (name, version) = (version.runtime_name, version.runtime_version);
    let images = image_root(&runtime).await;
    Ok(RuntimeInfo {
        name,
        version,
        driver,
        network,
        pods: pods.collect(),
        images,
        cni,
    })
}

/// Returns the directories of CNI from containerd's own configuration.
fn cni_directories(config: &str) -> Option<CniDirectories> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    let cni = config.get("cni")?;
    // containerd 2.1 has a list
    let several = cni.get("binDirs").and_then(serde_json::Value::as_array);
    let plugins = several.into_iter().flatten().chain(cni.get("binDir"));
    let plugins: Vec<PathBuf> = plugins
        .filter_map(serde_json::Value::as_str)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect();
    Some(CniDirectories {
        config: cni.get("confDir")?.as_str()?.into(),
        plugins,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cni_directories_are_read_from_containerds_config() {
        let of = |config: &str| cni_directories(config).map(|cni| (cni.config, cni.plugins));
        let one = of(r#"{"cni": {"confDir": "/a", "binDir": "/b"}}"#);
        assert_eq!(one, Some(("/a".into(), vec!["/b".into()])));
        let two = of(r#"{"cni": {"confDir": "/a", "binDir": "", "binDirs": ["/b", "/c"]}}"#);
        assert_eq!(two, Some(("/a".into(), vec!["/b".into(), "/c".into()])));
        for other in ["", "{}", r#"{"cni": {}}"#, r#"{"cni": []}"#] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
