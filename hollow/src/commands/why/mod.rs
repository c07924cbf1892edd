//! `cloudsim why`: the way of an object from the API to its node and back, and the first step that is missing.

mod device;
mod needs;
mod node;
mod pod;
mod step;
#[cfg(test)]
mod tests;

use std::{fmt::Debug, process::ExitCode};

use agent::cli::Output;
use anyhow::{Context, bail};
use crds::{
    devices::{Device, DeviceModel, DeviceStatus},
    reliablesyncs::ObjectSync,
};
use http::Method;
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        coordination::v1::Lease,
        core::v1::{Event, Node, Pod},
    },
};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::{device::DeviceFacts, node::NodeFacts, pod::PodFacts, step::Chain};
use super::{nearest, nodes, output, print, remote::Remote};
use crate::cli::{Access, ExplainedKind, ExplainedObject};

/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";
/// Most events that are read of one object.
const MAX_EVENTS: u32 = 500;

/// Prints the steps; the code is 1 if one is missing.
pub(super) async fn run(
    access: &Access,
    object: &ExplainedObject,
    namespace: Option<&str>,
    output: Option<Output>,
) -> anyhow::Result<ExitCode> {
    let cloud = Remote::of(access).await?;
    let namespace = namespace.unwrap_or_else(|| cloud.client.default_namespace());
    let now = Timestamp::now();
    let chain = match object.kind {
        ExplainedKind::Pod => pod::chain(&pod_facts(&cloud, namespace, &object.name).await?, now),
        ExplainedKind::Node => {
            let facts = node_facts(&cloud, &object.name).await?;
            node::chain(&facts, now)
        }
        ExplainedKind::Device => {
            let facts = device_facts(&cloud, namespace, &object.name).await?;
            device::chain(&facts, now)
        }
    };
    let name = format!("{}/{}", object.kind.as_str(), object.name);
    show(&chain, &name, output)
}

fn show(chain: &Chain, object: &str, format: Option<Output>) -> anyhow::Result<ExitCode> {
    match format {
        Some(format) => print(format, &chain.document(object))?,
        None => {
            for line in chain.lines(object) {
                output::print_line(&line);
            }
        }
    }
    Ok(match chain.missing() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

async fn pod_facts(cloud: &Remote, namespace: &str, name: &str) -> anyhow::Result<PodFacts> {
    let pod: Pod = get_named(cloud, namespace, name).await?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let events = Api::<Event>::namespaced(cloud.client.clone(), namespace);
    let uid = pod.uid().unwrap_or_default();
    let of_pod = ListParams::default()
        .fields(&format!("involvedObject.uid={uid}"))
        .limit(MAX_EVENTS);
    let events = events.list(&of_pod).await;
    let events = events.context("cannot list the pod's events")?.items;
    let (node, sync) = node_and_sync(cloud, namespace, node, &uid).await?;
    let needs = needs::missing(&cloud.client, &pod).await?;
    Ok(PodFacts {
        pod,
        node,
        sync,
        events,
        needs,
    })
}

async fn device_facts(cloud: &Remote, namespace: &str, name: &str) -> anyhow::Result<DeviceFacts> {
    let device: Device = get_named(cloud, namespace, name).await?;
    let client = &cloud.client;
    let model = match &device.spec.device_model_ref {
        Some(model) if !model.name.is_empty() => {
            let models = Api::<DeviceModel>::namespaced(client.clone(), namespace);
            models.get_opt(&model.name).await?
        }
        _ => None,
    };
    let node = device.spec.node_name.clone();
    let uid = device.uid().unwrap_or_default();
    let (node, sync) = node_and_sync(cloud, namespace, node, &uid).await?;
    let statuses = Api::<DeviceStatus>::namespaced(client.clone(), namespace);
    let status = statuses.get_opt(name).await?;
    Ok(DeviceFacts {
        device,
        model,
        node,
        sync,
        status,
    })
}

async fn node_facts(cloud: &Remote, name: &str) -> anyhow::Result<NodeFacts> {
    let api = Api::<Node>::all(cloud.client.clone());
    let node = api.get_opt(name).await.context("cannot read the node")?;
    let leases = Api::<Lease>::namespaced(cloud.client.clone(), LEASES);
    let mut facts = NodeFacts {
        name: name.to_owned(),
        lease: leases.get_opt(name).await?,
        ..NodeFacts::default()
    };
    if node.is_none() {
        facts.others = names(&api).await?;
    }
    facts.node = node;
    facts.rejection = rejection(cloud, name).await?;
    facts.fault = fault(cloud, name).await;
    facts.set_sessions(nodes::sessions(cloud).await?);
    Ok(facts)
}

/// Returns the time and the message of the newest event about a rejected connection of the node.
async fn rejection(cloud: &Remote, node: &str) -> anyhow::Result<Option<(Timestamp, String)>> {
    let of_node = ListParams::default()
        .fields(&format!(
            "involvedObject.kind=Node,involvedObject.name={node}"
        ))
        .limit(MAX_EVENTS);
    let events = Api::<Event>::all(cloud.client.clone()).list(&of_node).await;
    let events = events.context("cannot list the node's events")?.items;
    let rejections = events.into_iter().filter_map(|event| {
        let reason = event.reason.as_deref().unwrap_or_default();
        if !cloudsim::REJECTION_EVENTS.contains(&reason) {
            return None;
        }
        Some((event_time(&event)?, event.message?))
    });
    Ok(rejections.max())
}

/// Returns when an event last happened.
fn event_time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or_else(|| event.event_time.as_ref().map(|time| time.0))
}

/// Returns the fault of the cloud that keeps a node away. Only a cloud in standalone mode has faults.
async fn fault(cloud: &Remote, node: &str) -> Option<String> {
    let active: Value = cloud.ask(Method::GET, "faults", &()).await.ok()?;
    let conditions = Some(&active["nodes"][node]).filter(|found| found.is_object());
    let conditions = conditions.unwrap_or(&active["all"]).as_object()?;
    ["link", "schedule"].into_iter().find_map(|name| {
        let value = conditions.get(name).filter(|value| *value != "up")?;
        Some(format!(
            "{name}: {}",
            value.as_str().unwrap_or("periods without a link")
        ))
    })
}

/// Returns the node that an object names, if any, and the revision of the object that it has acknowledged.
async fn node_and_sync(
    cloud: &Remote,
    namespace: &str,
    node: Option<String>,
    uid: &str,
) -> anyhow::Result<(Option<NodeFacts>, Option<ObjectSync>)> {
    let Some(node) = node.filter(|node| !node.is_empty()) else {
        return Ok((None, None));
    };
    let syncs = Api::<ObjectSync>::namespaced(cloud.client.clone(), namespace);
    let found = syncs.get_opt(&format!("{node}.{uid}")).await;
    let sync = found.context("cannot read what the node has acknowledged")?;
    Ok((Some(node_facts(cloud, &node).await?), sync))
}

/// Returns the object.
///
/// # Errors
/// It does not exist; the error has the nearest name.
async fn get_named<K>(cloud: &Remote, namespace: &str, name: &str) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(cloud.client.clone(), namespace);
    let kind = K::kind(&()).to_lowercase();
    let found = api.get_opt(name).await;
    if let Some(found) = found.with_context(|| format!("cannot read {kind} {namespace}/{name}"))? {
        return Ok(found);
    }
    let near = nearest(name, names(&api).await?.iter().map(String::as_str));
    bail!(
        "there is no {kind} {name} in the namespace {namespace}{near}; choose another namespace with --namespace"
    )
}

async fn names<K>(api: &Api<K>) -> anyhow::Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let listed = api.list_metadata(&ListParams::default()).await?;
    Ok(listed.iter().map(ResourceExt::name_any).collect())
}
