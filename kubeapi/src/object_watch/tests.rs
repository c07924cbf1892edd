//! Tests of [`super`].

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Endpoints, Node, Pod, Secret, Service},
};
use kube::{
    Api as Objects, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use objectstore::MemoryStore;
use serde_json::json;
use testkit::LogBuffer;

use super::*;
use crate::Api;

/// A cache, which stores whatever it is given, with one ConfigMap.
async fn one(data: serde_json::Value) -> Client {
    let api = Api::builder(MemoryStore::new()).build();
    let client = api.client("default");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}, "data": data});
    let maps = untyped_objects(&client);
    maps.create(
        &PostParams::default(),
        &serde_json::from_value(object).unwrap(),
    )
    .await
    .unwrap();
    client
}

fn untyped_objects(client: &Client) -> Objects<DynamicObject> {
    Objects::default_namespaced_with(client.clone(), &ApiResource::erase::<ConfigMap>(&()))
}

async fn set(client: &Client, data: serde_json::Value) {
    let (patch, params) = (json!({"data": data}), PatchParams::default());
    untyped_objects(client)
        .patch("one", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn value(map: &ConfigMap) -> &str {
    &map.data.as_ref().unwrap()["key"]
}

#[tokio::test]
async fn objects_are_listed_and_their_changes_follow() {
    let client = one(json!({"key": "a"})).await;
    let mut events = watch_objects_with_backoff::<ConfigMap>(client.clone(), Config::default());
    assert!(matches!(events.next().await, Some(Ok(Event::Init))));
    let Some(Ok(Event::InitApply(map))) = events.next().await else {
        panic!("not listed")
    };
    assert_eq!((value(&map), map.name_any().as_str()), ("a", "one"));
    assert!(matches!(events.next().await, Some(Ok(Event::InitDone))));
    set(&client, json!({"key": "b"})).await;
    let Some(Ok(Event::Apply(map))) = events.next().await else {
        panic!("no change")
    };
    assert_eq!(value(&map), "b");
    let deleted = untyped_objects(&client)
        .delete("one", &DeleteParams::default())
        .await;
    deleted.unwrap();
    let Some(Ok(Event::Delete(map))) = events.next().await else {
        panic!("no deletion")
    };
    assert_eq!(value(&map), "b");
}

/// The names of the objects of one kind, as the receiver of its events has them, and the lines of the log about `bad`.
struct Kind {
    resource: ApiResource,
    /// A field of the object with a value of a wrong type.
    wrong: serde_json::Value,
}

impl Kind {
    fn of<K: Resource<DynamicType = ()>>(wrong: serde_json::Value) -> Self {
        let resource = ApiResource::erase::<K>(&());
        Self { resource, wrong }
    }

    fn objects(&self, client: &Client) -> Objects<DynamicObject> {
        match self.resource.kind.as_str() {
            "Node" => Objects::all_with(client.clone(), &self.resource),
            _ => Objects::default_namespaced_with(client.clone(), &self.resource),
        }
    }

    async fn create(&self, client: &Client, name: &str, fields: &serde_json::Value) {
        let mut object = json!({"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": {"name": name}});
        let fields = fields.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        let object = serde_json::from_value(object).unwrap();
        self.objects(client)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    async fn patch(&self, client: &Client, name: &str, patch: &serde_json::Value) {
        self.objects(client)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// The patch that removes the wrong field.
    fn repair(&self) -> serde_json::Value {
        let fields = self.wrong.as_object().unwrap().keys();
        fields.map(|field| (field.clone(), json!(null))).collect()
    }
}

/// The next event, as `+name` of a list, `name` of a change, `-name` of a deletion.
async fn next<K: Resource<DynamicType = ()> + DeserializeOwned>(
    events: &mut ObjectWatch<K>,
) -> String {
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    let what = format!("an event of {}", K::kind(&()));
    match testkit::within(&what, events.next()).await {
        Some(Ok(Event::Init)) => "list".into(),
        Some(Ok(Event::InitDone)) => "listed".into(),
        Some(Ok(Event::InitApply(object))) => format!("+{}", name(&object)),
        Some(Ok(Event::Apply(object))) => name(&object),
        Some(Ok(Event::Delete(object))) => format!("-{}", name(&object)),
        _ => panic!("the watch failed or ended"),
    }
}

async fn all<K>(wrong: serde_json::Value)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Send + 'static,
{
    let log = LogBuffer::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone());
    let _logged = tracing::subscriber::set_default(lines.finish());
    let warnings = || log.text().matches("cannot decode object").count();
    let kind = Kind::of::<K>(wrong);
    let client = Api::builder(MemoryStore::new()).build().client("default");
    kind.create(&client, "bad", &kind.wrong).await;
    kind.create(&client, "good", &json!({})).await;
    // without a version: the object is left out, and the others are listed
    let mut events = watch_objects::<K>(client.clone(), Config::default());
    for wanted in ["list", "+good", "listed"] {
        assert_eq!(next(&mut events).await, wanted, "{}", kind.resource.kind);
    }
    assert_eq!(warnings(), 1, "{}", log.text());
    let (line, name) = (log.text(), &kind.resource.kind);
    for part in [
        format!("kind=\"{name}\""),
        "name=\"bad\"".into(),
        "resource_version=".into(),
        "error=".into(),
    ] {
        assert!(line.contains(&part), "{part}: {line}");
    }
    kind.patch(&client, "bad", &kind.repair()).await;
    assert_eq!(next(&mut events).await, "bad");
    // a change to something unreadable is skipped, and deletes nothing; each version is logged
    kind.patch(&client, "bad", &kind.wrong).await;
    kind.patch(&client, "bad", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    kind.patch(
        &client,
        "good",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await;
    assert_eq!(next(&mut events).await, "good");
    assert_eq!(warnings(), 3, "{}", log.text());
    drop(events);

    // the last version stands for it, in a list and when it is deleted
    let unreadable = kind.objects(&client).get("bad").await.unwrap();
    let mut last = json!({"apiVersion": kind.resource.api_version, "kind": kind.resource.kind});
    last["metadata"] = serde_json::to_value(&unreadable.metadata).unwrap();
    let last: K = serde_json::from_value(last).unwrap();
    let mut events = watch_objects::<K>(client.clone(), Config::default())
        .with_last_version(move |_, name| (name == "bad").then(|| last.clone()));
    for wanted in ["list", "+bad", "+good", "listed"] {
        assert_eq!(next(&mut events).await, wanted, "{}", kind.resource.kind);
    }
    kind.objects(&client)
        .delete("bad", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, "-bad");
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_logged_by_name_and_hides_no_other() {
    all::<ConfigMap>(json!({"data": 1})).await;
    all::<Secret>(json!({"data": ["c2VjcmV0"]})).await;
    all::<Service>(json!({"spec": "none"})).await;
    all::<Pod>(json!({"spec": {"containers": 1}})).await;
    all::<Node>(json!({"spec": {"taints": 7}})).await;
    all::<Endpoints>(json!({"subsets": "none"})).await;
    all::<ReplicaSet>(json!({"spec": {"replicas": "two"}})).await;
    all::<Job>(json!({"spec": {"parallelism": "two"}})).await;
    all::<Lease>(json!({"spec": 7})).await;
}

#[tokio::test(start_paused = true)]
async fn everything_is_listed_again_after_the_deletion_of_an_object_that_could_not_be_decoded() {
    let client = one(json!(1)).await;
    let mut events = watch_objects::<ConfigMap>(client.clone(), Config::default());
    for wanted in ["list", "listed"] {
        assert_eq!(next(&mut events).await, wanted);
    }
    untyped_objects(&client)
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    for wanted in ["list", "listed"] {
        assert_eq!(next(&mut events).await, wanted);
    }
}
