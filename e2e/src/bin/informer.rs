//! The minimum that an operator in a pod does: it watches the ConfigMaps of its namespace, and lists them again and again.
//!
//! `informer FILE [KUBECONFIG]` writes to FILE what it sees. It finds the API by KUBECONFIG, or as any program in a cluster does.

use std::{fs, path::Path, time::Duration};

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde_json::{Value, json};
use tokio::time::interval;

/// The interval between two lists.
const EVERY: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let file = arguments
        .next()
        .context("usage: informer FILE [KUBECONFIG]")?;
    let mut config = match arguments.next() {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::incluster()?,
    };
    // The API's responses must be seen and not retried.
    config.default_retry = false;
    let maps = Api::<ConfigMap>::default_namespaced(Client::try_from(config)?);
    let (known, writer) = reflector::store();
    let events = watcher(maps.clone(), watcher::Config::default())
        .default_backoff()
        .reflect(writer);
    let follow = events.for_each(|event| async { event.map_or_else(|error| report(&error), drop) });
    let tell = async {
        let mut ticks = interval(EVERY);
        for lists in 1_u64.. {
            ticks.tick().await;
            let listed = match maps.list(&ListParams::default()).await {
                Ok(list) => values(list.items.iter()),
                Err(error) => Value::from(error.to_string()),
            };
            let known = known.state();
            let seen = json!({"lists": lists, "listed": listed, "watched": values(known.iter().map(AsRef::as_ref))});
            write(Path::new(&file), &seen)?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        // cancel-safe: the program ends with either branch.
        () = follow => Ok(()),
        told = tell => told,
    }
}

/// Returns the value `v` of each ConfigMap by name.
fn values<'a>(maps: impl Iterator<Item = &'a ConfigMap>) -> Value {
    let value = |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("v")).cloned();
    maps.filter_map(|map| Some((map.name_any(), Value::from(value(map)?))))
        .collect()
}

/// Replaces the file as a whole, so that a reader never finds half of it.
fn write(file: &Path, seen: &Value) -> anyhow::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, seen.to_string())?;
    Ok(fs::rename(new, file)?)
}

#[allow(clippy::print_stderr)]
fn report(error: &watcher::Error) {
    eprintln!("{error}");
}
