//! Explains why a pod, a node or a device waits: its steps from the API to its node and back, and the first one that is missing. Used by
//! `cloudsim why` and by the page, with the permissions of the user who asks.

mod device;
mod needs;
mod node;
mod pod;
mod step;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crds::{
    devices::{Device, DeviceModel, DeviceStatus},
    reliablesyncs::ObjectSync,
};
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        coordination::v1::Lease,
        core::v1::{Event, Node, Pod},
    },
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::step::{Chain, Finding, Step, StepState};
use self::{device::DeviceFacts, node::NodeFacts, pod::PodFacts};
use crate::{controllers::REJECTION_EVENTS, sessions::CountedSessions};

/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";
/// Most events that are read of one object.
const MAX_EVENTS: u32 = 500;

/// A kind whose objects are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainedKind {
    /// A pod.
    Pod,
    /// A node.
    Node,
    /// A device.
    Device,
}

impl ExplainedKind {
    /// Returns the kind as in `KIND/NAME`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Node => "node",
            Self::Device => "device",
        }
    }
}

/// What the hub knows and the API does not.
#[derive(Debug)]
pub struct HubFacts {
    /// The sessions of nodes.
    pub sessions: CountedSessions,
    /// The answer to `GET /cloudsim/v1/faults`; null if it is unknown.
    pub faults: Value,
}

/// An object cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// There is no such object.
    #[error("there is no {kind} {name} in the namespace {namespace}{near}")]
    NotFound {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The nearest name, in parentheses.
        near: String,
    },
    /// The API refused a request or did not answer.
    #[error("cannot read {what}")]
    Api {
        /// What was requested.
        what: &'static str,
        /// The cause.
        source: kube::Error,
    },
}

impl WhyError {
    /// Returns an adapter of errors of requests for `what`.
    fn of(what: &'static str) -> impl Fn(kube::Error) -> Self {
        move |source| Self::Api { what, source }
    }
}

/// Returns the steps of an object, read with this client.
///
/// # Errors
/// There is no such pod or device, or a request failed. An unknown node is a missing step.
pub async fn explain(
    client: &Client,
    hub: &HubFacts,
    kind: ExplainedKind,
    (namespace, name): (&str, &str),
) -> Result<Chain, WhyError> {
    if is_store_full(client).await {
        let mut chain = Chain::default();
        chain.step("cloud", store_full);
        return Ok(chain);
    }
    let (reader, now) = (Reader { client, hub }, clock::now());
    Ok(match kind {
        ExplainedKind::Pod => pod::chain(&reader.pod_facts(namespace, name).await?, now),
        ExplainedKind::Node => node::chain(&reader.node_facts(name).await?, now),
        ExplainedKind::Device => device::chain(&reader.device_facts(namespace, name).await?, now),
    })
}

/// Reports whether the API server stores nothing, by its health check. Those of clusters have no such check.
async fn is_store_full(client: &Client) -> bool {
    let request = http::Request::get("/readyz/store").body(Vec::new());
    let Ok(request) = request else {
        return false;
    };
    let answer = client.request_text(request).await;
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 500)
}

fn store_full() -> Finding {
    step::missing(
        "the cloud cannot store objects; its disk is probably full",
        "free space on the disk of its data directory (of the packaged service: /var/lib/cloudsim); its log names the cause \
         (journalctl -u cloudsim)",
    )
}

/// Reads what is known of objects.
struct Reader<'a> {
    client: &'a Client,
    hub: &'a HubFacts,
}

impl Reader<'_> {
    async fn pod_facts(&self, namespace: &str, name: &str) -> Result<PodFacts, WhyError> {
        let pod: Pod = self.get_named("the pod", namespace, name).await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let uid = pod.uid().unwrap_or_default();
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let events = list(
            &events,
            &format!("involvedObject.uid={uid}"),
            "the pod's events",
        )
        .await?;
        let (node, sync) = self.node_and_sync(namespace, node, &uid).await?;
        let needs = needs::missing(self.client, &pod).await;
        Ok(PodFacts {
            needs: needs.map_err(WhyError::of("what the pod needs"))?,
            pod,
            node,
            sync,
            events,
        })
    }

    async fn device_facts(&self, namespace: &str, name: &str) -> Result<DeviceFacts, WhyError> {
        let device: Device = self.get_named("the device", namespace, name).await?;
        let model = match &device.spec.device_model_ref {
            Some(model) if !model.name.is_empty() => {
                let models = Api::<DeviceModel>::namespaced(self.client.clone(), namespace);
                let found = models.get_opt(&model.name).await;
                found.map_err(WhyError::of("the device model"))?
            }
            _ => None,
        };
        let node = device.spec.node_name.clone();
        let uid = device.uid().unwrap_or_default();
        let (node, sync) = self.node_and_sync(namespace, node, &uid).await?;
        let statuses = Api::<DeviceStatus>::namespaced(self.client.clone(), namespace);
        let status = statuses.get_opt(name).await;
        Ok(DeviceFacts {
            status: status.map_err(WhyError::of("the device status"))?,
            device,
            model,
            node,
            sync,
        })
    }

    async fn node_facts(&self, name: &str) -> Result<NodeFacts, WhyError> {
        let api = Api::<Node>::all(self.client.clone());
        let node = api.get_opt(name).await.map_err(WhyError::of("the node"))?;
        let leases = Api::<Lease>::namespaced(self.client.clone(), LEASES);
        let lease = leases.get_opt(name).await;
        let mut facts = NodeFacts {
            name: name.to_owned(),
            lease: lease.map_err(WhyError::of("the node's lease"))?,
            rejection: self.rejection(name).await?,
            fault: blocking_fault(&self.hub.faults, name),
            ..NodeFacts::default()
        };
        if node.is_none() {
            facts.others = names(&api).await?;
        }
        facts.node = node;
        facts.set_sessions(&self.hub.sessions);
        Ok(facts)
    }

    /// Returns the time and the message of the newest event about a rejected connection of the node.
    async fn rejection(&self, node: &str) -> Result<Option<(Timestamp, String)>, WhyError> {
        let of_node = format!("involvedObject.kind=Node,involvedObject.name={node}");
        let events = Api::<Event>::all(self.client.clone());
        let events = list(&events, &of_node, "the node's events").await?;
        let rejections = events.into_iter().filter_map(|event| {
            let reason = event.reason.as_deref().unwrap_or_default();
            if !REJECTION_EVENTS.contains(&reason) {
                return None;
            }
            Some((event_time(&event)?, event.message?))
        });
        Ok(rejections.max())
    }

    /// Returns the node that an object names, if any, and the revision of the object that it has acknowledged.
    async fn node_and_sync(
        &self,
        namespace: &str,
        node: Option<String>,
        uid: &str,
    ) -> Result<(Option<NodeFacts>, Option<ObjectSync>), WhyError> {
        let Some(node) = node.filter(|node| !node.is_empty()) else {
            return Ok((None, None));
        };
        let syncs = Api::<ObjectSync>::namespaced(self.client.clone(), namespace);
        let found = syncs.get_opt(&format!("{node}.{uid}")).await;
        let sync = found.map_err(WhyError::of("what the node has acknowledged"))?;
        Ok((Some(self.node_facts(&node).await?), sync))
    }

    /// Returns the object.
    ///
    /// # Errors
    /// It does not exist; the error has the nearest name.
    async fn get_named<K>(
        &self,
        what: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<K, WhyError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.map_err(WhyError::of(what))?;
        if let Some(found) = found {
            return Ok(found);
        }
        let others = names(&api).await?;
        Err(WhyError::NotFound {
            kind: K::kind(&()).to_lowercase(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            near: wire::did_you_mean(name, others.iter().map(String::as_str)),
        })
    }
}

/// Returns when an event last happened.
fn event_time(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or_else(|| event.event_time.as_ref().map(|time| time.0))
}

/// Returns how long ago something was, in one unit.
fn age(since: Timestamp, now: Timestamp) -> String {
    wire::text::age(now.duration_since(since).as_secs())
}

/// Returns the fault of the cloud that keeps a node away. Only a cloud in standalone mode has faults.
fn blocking_fault(active: &Value, node: &str) -> Option<String> {
    let faults = active["faults"].as_array()?;
    let of = |target: &str| -> Vec<&Value> {
        let meant = faults.iter().filter(|fault| fault["target"] == target);
        meant.collect()
    };
    let own = of(node);
    let faults = if own.is_empty() { of("all") } else { own };
    faults.into_iter().rev().find_map(|fault| {
        ["link", "schedule"].into_iter().find_map(|name| {
            let value = fault.get(name).filter(|value| *value != "up")?;
            let text = value.as_str().unwrap_or("periods without a link");
            Some(format!("{name}: {text}"))
        })
    })
}

async fn list(api: &Api<Event>, fields: &str, what: &'static str) -> Result<Vec<Event>, WhyError> {
    let meant = ListParams::default().fields(fields).limit(MAX_EVENTS);
    Ok(api.list(&meant).await.map_err(WhyError::of(what))?.items)
}

async fn names<K>(api: &Api<K>) -> Result<Vec<String>, WhyError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let listed = api.list_metadata(&ListParams::default()).await;
    let listed = listed.map_err(WhyError::of("the names of others"))?;
    Ok(listed.iter().map(ResourceExt::name_any).collect())
}
