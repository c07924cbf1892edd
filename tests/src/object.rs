//! One object of an API as JSON: to read, to change, and to wait for.

use std::pin::pin;

use futures::StreamExt;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    runtime::watcher::{self, Event},
};
use serde_json::Value;

use testkit::WAIT_TIMEOUT;

/// A reference to an object.
#[derive(Clone, Debug)]
pub struct Object {
    api: Api<DynamicObject>,
    name: String,
}

impl Object {
    /// Returns a reference to the object called `name`; `namespace` is `None` for cluster-scoped kinds.
    pub fn new(
        client: &Client,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        Self {
            api,
            name: name.to_owned(),
        }
    }

    /// Returns a reference to the object of a manifest.
    pub fn of(client: &Client, manifest: &Value) -> Self {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
        let (version, kind) = (
            text("/apiVersion").expect("apiVersion"),
            text("/kind").expect("kind"),
        );
        Self::new(
            client,
            version,
            kind,
            text("/metadata/namespace"),
            text("/metadata/name").expect("metadata.name"),
        )
    }

    /// Applies a manifest, as `kubectl apply --server-side` does.
    pub async fn apply(&self, manifest: &Value) -> Value {
        let parameters = PatchParams::apply("world").force();
        json(
            self.api
                .patch(&self.name, &parameters, &Patch::Apply(manifest))
                .await
                .expect("apply"),
        )
    }

    /// Returns the object, if it exists.
    pub async fn find(&self) -> Option<Value> {
        self.api.get_opt(&self.name).await.expect("get").map(json)
    }

    /// Returns the object, which must exist.
    pub async fn get(&self) -> Value {
        self.find()
            .await
            .unwrap_or_else(|| panic!("there is no {}", self.name))
    }

    /// Merges a patch into the object.
    pub async fn merge(&self, patch: Value) -> Value {
        json(
            self.api
                .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .expect("patch"),
        )
    }

    /// Merges a patch into the object's status.
    pub async fn merge_status(&self, status: Value) -> Value {
        let patch = Patch::Merge(serde_json::json!({"status": status}));
        json(
            self.api
                .patch_status(&self.name, &PatchParams::default(), &patch)
                .await
                .expect("patch of the status"),
        )
    }

    /// Deletes the object, with its own grace period or the given one.
    pub async fn delete(&self, grace: Option<u32>) {
        let parameters = DeleteParams {
            grace_period_seconds: grace,
            ..DeleteParams::default()
        };
        self.api
            .delete(&self.name, &parameters)
            .await
            .expect("delete");
    }

    /// Waits until the object is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.state(what, |state| state.is_some_and(&wanted))
            .await
            .expect("an object is wanted")
    }

    /// Waits until the object is gone.
    pub async fn until_gone(&self) {
        self.state("gone", |state| state.is_none()).await;
    }

    /// Waits until its state, `None` if it is absent, is as wanted.
    pub async fn state(
        &self,
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = pin!(watcher::watcher(self.api.clone(), config));
        let (mut last, mut complete) = (None, false);
        let found = async {
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => (last, complete) = (None, false),
                    Ok(Event::InitApply(object)) => last = Some(json(object)),
                    Ok(Event::InitDone) => complete = true,
                    Ok(Event::Apply(object)) => last = Some(json(object)),
                    Ok(Event::Delete(_)) => last = None,
                    // The watcher starts again.
                    Err(_) => {}
                }
                if complete && wanted(last.as_ref()) {
                    return;
                }
            }
        };
        if tokio::time::timeout(WAIT_TIMEOUT, found).await.is_err() {
            let seen = last.map_or("nothing".to_owned(), |value| format!("{value:#}"));
            panic!(
                "{} was not {what} within {WAIT_TIMEOUT:?}; last seen: {seen}",
                self.name
            );
        }
        last
    }
}

fn json(mut object: DynamicObject) -> Value {
    // These are irrelevant here, and most of what a failed test would show.
    object.metadata.managed_fields = None;
    serde_json::to_value(object).expect("an object is JSON")
}
