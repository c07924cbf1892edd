//! Removes everything that a test has created.

use std::time::Duration;

use anyhow::Context;
use crds::devices::{Device, DeviceModel};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::{Api, Client, Resource, api::DeleteParams, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

/// How long an object may take to disappear: a pod is ended by its node.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How often it is checked whether an object is gone.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Deletes the objects of the test, while its node still runs, and waits until they are gone.
pub(super) async fn objects(
    client: &Client,
    name: &str,
    namespace: &str,
    progress: &dyn Fn(&str),
) -> anyhow::Result<()> {
    delete(of::<Pod>(client, namespace), name).await?;
    delete(of::<Device>(client, namespace), name).await?;
    delete(of::<DeviceModel>(client, namespace), name).await?;
    delete(of::<ConfigMap>(client, namespace), name).await?;
    delete(of::<Secret>(client, namespace), name).await?;
    progress("the pod, the device and what they used are gone");
    Ok(())
}

/// Deletes the node once nothing reports it any more.
pub(super) async fn node(
    client: &Client,
    name: &str,
    progress: &dyn Fn(&str),
) -> anyhow::Result<()> {
    delete(Api::<Node>::all(client.clone()), name).await?;
    progress(&format!("node {name} is gone"));
    Ok(())
}

fn of<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(client.clone(), namespace)
}

async fn delete<K>(api: Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let what = api.resource_url().to_owned();
    let gone = async {
        loop {
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => return anyhow::Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => sleep(POLL_INTERVAL).await,
            }
        }
    };
    let gone = timeout(GONE_WITHIN, gone).await;
    gone.with_context(|| format!("{what}/{name} was not deleted within {GONE_WITHIN:?}"))?
        .with_context(|| format!("{what}/{name} cannot be deleted"))
}
