//! One watch of a node: a message for each change, beginning with all existing objects.

use std::{pin::pin, sync::Arc, time::Duration};

use clock::HashMap;
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, TypeMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tracing::debug;
use wire::{Change, Downstream, ResourcePath, Source, application::Target};

use super::request::Call;
use crate::{
    controllers::edge::topology::{Filtered, Topology},
    delivery::{Delivery, DeliveryKey, Reply},
};

/// How long changes of node groups are collected before what they concern is sent.
const REGROUPING_TIME: Duration = Duration::from_millis(500);
/// How long the API may take to report which kinds it serves.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends changes until the receiver is closed.
pub(super) async fn run(
    client: Client,
    call: Call,
    (node, topology): (String, Topology),
    replies: mpsc::Sender<Box<Reply>>,
) {
    let config = watcher::Config {
        label_selector: Some(call.option_text("labelSelector")).filter(|text| !text.is_empty()),
        field_selector: Some(call.option_text("fieldSelector")).filter(|text| !text.is_empty()),
        ..watcher::Config::default()
    };
    let types = types(&client, &call.target).await;
    let api = api(client, &call.target);
    let mut events = pin!(watcher::watcher(api.clone(), config.clone()).default_backoff());
    let filter = Filtered::of(&call.target);
    let mut regrouped = topology.subscribe();
    if filter.is_some() {
        topology.wait_listed().await;
    }
    let mut told = WatchedObjects {
        target: call.target,
        types,
        known: HashMap::default(),
        listed: None,
        filter,
        node,
        topology,
    };
    loop {
        // cancel-safe: each returns at once what it has, and nothing otherwise
        let changes = clock::select! {
            event = events.next() => match event {
                None => return,
                Some(Ok(event)) => told.changes(event),
                Some(Err(error)) => {
                    debug!(error = &error as &dyn std::error::Error, target = %told.target, "failed to watch for a node; retrying");
                    continue;
                }
            },
            Ok(()) = regrouped.changed(), if filter.is_some() => {
                // several nodes change their groups at the same time
                sleep(REGROUPING_TIME).await;
                regrouped.mark_unchanged();
                match told.filtered_again(&api, &config).await {
                    Ok(changes) => changes,
                    Err(error) => {
                        debug!(error = &error as &dyn std::error::Error, target = %told.target, "failed to list for a node; retrying");
                        regrouped.mark_changed();
                        continue;
                    }
                }
            }
        };
        for change in changes {
            if replies
                .send(Box::new(Reply::Acknowledged(change)))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

fn api_version(target: &Target) -> String {
    match target.group.as_str() {
        "" => target.version.clone(),
        group => format!("{group}/{}", target.version),
    }
}

/// Returns the kind of the watched objects: those of a list have none, and nodes find it in the path of a message. `None` if the API
/// does not serve it now; the watch then fails, too.
async fn types(client: &Client, target: &Target) -> Option<TypeMeta> {
    let api_version = api_version(target);
    let asked = async {
        match target.group.as_str() {
            "" => client.list_core_api_resources(&target.version).await,
            _ => client.list_api_group_resources(&api_version).await,
        }
    };
    let served = timeout(DISCOVERY_TIMEOUT, asked).await.ok()?.ok()?;
    let found = served
        .resources
        .into_iter()
        .find(|resource| resource.name == target.plural)?;
    Some(TypeMeta {
        api_version,
        kind: found.kind,
    })
}

fn api(client: Client, target: &Target) -> Api<DynamicObject> {
    let Target {
        group,
        version,
        plural,
        namespace,
        ..
    } = target;
    let resource = ApiResource {
        group: group.clone(),
        version: version.clone(),
        api_version: api_version(target),
        // only written objects have this field
        kind: String::new(),
        plural: plural.clone(),
    };
    match namespace.as_str() {
        "" => Api::all_with(client, &resource),
        namespace => Api::namespaced_with(client, namespace, &resource),
    }
}

/// The objects that the node knows from one watch.
struct WatchedObjects {
    target: Target,
    /// The kind of the objects, if it is known.
    types: Option<TypeMeta>,
    /// What identifies each existing object, by UID, and the revision that was sent.
    known: HashMap<String, (Value, u64)>,
    /// During a list: the UIDs seen so far.
    listed: Option<Vec<String>>,
    /// How the objects are filtered, if they are, for the node.
    filter: Option<Filtered>,
    node: String,
    topology: Topology,
}

impl WatchedObjects {
    fn changes(&mut self, event: Event<DynamicObject>) -> Vec<Delivery> {
        match event {
            Event::Init => {
                self.listed = Some(Vec::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.extend(object.uid());
                }
                self.put(object).into_iter().collect()
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: Vec<String> = self
                    .known
                    .keys()
                    .filter(|uid| !listed.contains(uid))
                    .cloned()
                    .collect();
                gone.iter()
                    .filter_map(|uid| {
                        let (stub, _) = self.known.remove(uid)?;
                        Some(self.delete(uid, stub))
                    })
                    .collect()
            }
            Event::Apply(object) => self.put(object).into_iter().collect(),
            Event::Delete(object) => {
                let uid = object.uid().unwrap_or_default();
                self.known.remove(&uid);
                vec![self.delete(&uid, serde_json::to_value(&object).unwrap_or_default())]
            }
        }
    }

    fn put(&mut self, mut object: DynamicObject) -> Option<Delivery> {
        let uid = object.uid()?;
        if kind(&object).is_empty() {
            object.types.clone_from(&self.types);
        }
        let (kind, namespace, name) = (
            kind(&object),
            object.namespace().unwrap_or_default(),
            object.name_any(),
        );
        let stub = json!({"kind": kind, "apiVersion": object.types.as_ref().map(|types| &types.api_version),
            "metadata": {"name": name, "namespace": namespace, "uid": uid}});
        let mut object = serde_json::to_value(object).ok()?;
        if let Some(filter) = self.filter {
            self.topology.apply(&self.node, filter, &mut object);
        }
        let revision = object.pointer("/metadata/resourceVersion")?.as_str()?;
        let (text, revision) = (revision.to_owned(), revision.parse().ok()?);
        let change = match self.known.insert(uid.clone(), (stub, revision)) {
            Some(_) => Change::Update,
            None => Change::Insert,
        };
        let message = message(change, &kind, &namespace, &name, object);
        Some(Delivery {
            key: self.key(&uid),
            object: None,
            revision: Some(revision),
            message: Arc::new(message.at_revision(&text)),
        })
    }

    /// Returns the objects that the node has to receive again because a group of nodes or a topology has changed: those whose revision
    /// follows from that.
    async fn filtered_again(
        &mut self,
        api: &Api<DynamicObject>,
        config: &watcher::Config,
    ) -> Result<Vec<Delivery>, kube::Error> {
        let mut parameters = ListParams {
            label_selector: config.label_selector.clone(),
            field_selector: config.field_selector.clone(),
            ..ListParams::default()
        };
        if self.filter == Some(Filtered::Slices) {
            let Some(filtered) = self.topology.slice_selector() else {
                return Ok(Vec::new());
            };
            let own = parameters.label_selector.iter().cloned();
            let both: Vec<String> = own.chain([filtered]).collect();
            parameters.label_selector = Some(both.join(","));
        }
        let mut changes = Vec::new();
        for object in api.list(&parameters).await? {
            let uid = object.uid().unwrap_or_default();
            let before = self.known.get(&uid).map(|(_, revision)| *revision);
            let change = self.put(object);
            changes.extend(change.filter(|change| change.revision > before));
        }
        Ok(changes)
    }

    fn delete(&self, uid: &str, last: Value) -> Delivery {
        let text = |pointer: &str| {
            last.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (kind, namespace, name) = (
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name"),
        );
        let message = message(Change::Delete, &kind, &namespace, &name, last);
        Delivery {
            key: self.key(uid),
            object: None,
            revision: None,
            message: Arc::new(message),
        }
    }

    /// Returns the delivery key: the same object in several watches is sent once.
    fn key(&self, uid: &str) -> DeliveryKey {
        DeliveryKey::Watched(format!(
            "{}.{}/{uid}",
            self.target.plural, self.target.group
        ))
    }
}

fn kind(object: &DynamicObject) -> String {
    object
        .types
        .as_ref()
        .map(|types| types.kind.clone())
        .unwrap_or_default()
}

fn message(
    change: Change,
    kind: &str,
    namespace: &str,
    name: &str,
    object: Value,
) -> wire::Message {
    let path = ResourcePath::object(namespace, &kind.to_lowercase().into(), name);
    let body = Downstream::Object {
        origin: Source::DynamicController,
        change,
        path,
        object,
    };
    body.into_message(clock::unix_millis())
}
