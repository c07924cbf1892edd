//! Reads the cloud's API over one connection. kubectl is what people use and what tests drive the cloud with; checking a condition
//! again and again with it would use half a processor for its starts alone.

use std::{fmt, path::Path, time::Duration};

use anyhow::{Context, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::runtime;

/// How long a connection, and each response, may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client for blocking reads with the rights of a kubeconfig. It connects when it is used, and again when the connection is lost.
pub struct Api {
    // Dropped before the runtime that drives it.
    client: Client,
    runtime: runtime::Runtime,
}

impl Api {
    /// Returns a client of the cluster that this kubeconfig names.
    pub fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
        // This fails if another client of this process was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            let read = Kubeconfig::read_from(kubeconfig)?;
            let mut config =
                Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
            (config.connect_timeout, config.read_timeout) = (Some(TIMEOUT), Some(TIMEOUT));
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self { client, runtime })
    }

    /// Returns the object at this path and query of the API, or `None` for a 404.
    pub fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let request = http::Request::get(path).body(Vec::new())?;
        match self.runtime.block_on(self.client.request(request)) {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the items of the list at this path and query of the API.
    pub fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut listed = self
            .get(path)?
            .with_context(|| format!("{path} is not there"))?;
        match listed.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => bail!("{path} is no list: {listed}"),
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Api").finish_non_exhaustive()
    }
}
