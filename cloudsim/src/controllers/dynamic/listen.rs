//! One watch of a node: a message for each change, beginning with all existing objects.

use std::{collections::HashMap, pin::pin, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, TypeMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tracing::debug;
use wire::{Change, Downstream, ResourcePath, Source, application::Target};

use super::request::Call;
use crate::{
    clock::now_ms,
    delivery::{Delivery, DeliveryKey, Reply},
};

/// How long the API may take to report which kinds it serves.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends changes until the receiver is closed.
pub(super) async fn run(client: Client, call: Call, replies: mpsc::Sender<Reply>) {
    let config = watcher::Config {
        label_selector: Some(call.option_text("labelSelector")).filter(|text| !text.is_empty()),
        field_selector: Some(call.option_text("fieldSelector")).filter(|text| !text.is_empty()),
        ..watcher::Config::default()
    };
    let types = types(&client, &call.target).await;
    let api = api(client, &call.target);
    let mut events = pin!(watcher::watcher(api, config).default_backoff());
    let mut told = WatchedObjects {
        target: call.target,
        types,
        known: HashMap::new(),
        listed: None,
    };
    while let Some(event) = events.next().await {
        let changes = match event {
            Ok(event) => told.changes(event),
            Err(error) => {
                debug!(error = &error as &dyn std::error::Error, target = %told.target, "failed to watch for a node; retrying");
                continue;
            }
        };
        for change in changes {
            if replies.send(Reply::Acknowledged(change)).await.is_err() {
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
    /// The last message about each existing object, by UID.
    known: HashMap<String, Value>,
    /// During a list: the UIDs seen so far.
    listed: Option<Vec<String>>,
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
                    .filter_map(|uid| self.known.remove(uid).map(|stub| self.delete(uid, stub)))
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
        let change = if self.known.insert(uid.clone(), stub).is_some() {
            Change::Update
        } else {
            Change::Insert
        };
        let revision = object.resource_version()?;
        let message = message(
            change,
            &kind,
            &namespace,
            &name,
            serde_json::to_value(object).ok()?,
        );
        Some(Delivery {
            key: self.key(&uid),
            object: None,
            revision: Some(revision.parse().ok()?),
            message: message.at_revision(&revision),
        })
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
            message,
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
    body.into_message(now_ms())
}
