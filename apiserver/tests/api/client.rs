//! `kube`'s own machinery over the client in process.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    core::v1::{ConfigMap, ObjectReference},
    events::v1::Event as StoredEvent,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt,
        controller::{Action, Controller},
        events::{Event as RecordedEvent, EventType, Recorder, Reporter},
        finalizer::{Event, finalizer},
        reflector::{self, ObjectRef},
        wait::{await_condition, conditions},
        watcher,
    },
};
use serde_json::json;
use testkit::within;

use super::world::World;

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn maps() -> Api<ConfigMap> {
    Api::default_namespaced(World::new().await.api.client("default"))
}

#[tokio::test]
async fn clients_do_what_clients_do() {
    let maps = maps().await;
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    let applied = maps
        .patch("a", &PatchParams::apply("test"), &Patch::Apply(&apply))
        .await
        .unwrap();
    assert_eq!(applied.data.unwrap()["k"], "v");
    let mut found = maps.get("a").await.unwrap();
    found.labels_mut().insert("x".into(), "y".into());
    maps.replace("a", &PostParams::default(), &found)
        .await
        .unwrap();
    let stale = maps
        .replace("a", &PostParams::default(), &found)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));
    assert_eq!(
        maps.list(&ListParams::default().labels("x=y"))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(maps.get_opt("absent").await.unwrap(), None);
    assert_eq!(
        maps.list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let missing = maps.get("a").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.is_not_found()));
}

#[tokio::test]
async fn watchers_follow() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let maps = maps().await;
        maps.create(&PostParams::default(), &map("a"))
            .await
            .unwrap();
        let mut changes = pin!(watcher(maps.clone(), config).applied_objects());
        let next = async |changes: &mut std::pin::Pin<&mut _>| {
            within("a change", TryStreamExt::try_next(changes))
                .await
                .unwrap()
        };
        assert_eq!(
            next(&mut changes)
                .await
                .map(|map: ConfigMap| map.name_any()),
            Some("a".to_owned())
        );
        maps.create(&PostParams::default(), &map("b"))
            .await
            .unwrap();
        assert_eq!(
            next(&mut changes)
                .await
                .map(|map: ConfigMap| map.name_any()),
            Some("b".to_owned())
        );
    }
}

#[tokio::test]
async fn waits_end() {
    let maps = maps().await;
    let made = maps
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    let uid = made.uid().unwrap();
    let gone = await_condition(maps.clone(), "a", conditions::is_deleted(&uid));
    let delete = async { maps.delete("a", &DeleteParams::default()).await.unwrap() };
    let (gone, _) = futures::join!(within("the deletion", gone), delete);
    gone.unwrap();
}

#[tokio::test]
async fn controllers_reconcile() {
    let maps = maps().await;
    let context = Arc::new(maps.clone());
    let reconcile = async |map: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>| {
        let mark = json!({"metadata": {"labels": {"seen": "yes"}}});
        maps.patch_metadata(
            &map.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&mark),
        )
        .await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let controller = Controller::new(maps.clone(), watcher::Config::default());
    let running = controller.run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_secs(1)),
        context,
    );
    let running = tokio::spawn(running.for_each(|_| async {}));
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name))
            .await
            .unwrap();
        let seen =
            |map: Option<&ConfigMap>| map.is_some_and(|map| map.labels().contains_key("seen"));
        within(
            "the controller's mark",
            await_condition(maps.clone(), name, seen),
        )
        .await
        .unwrap();
    }
    running.abort();
}

#[tokio::test]
async fn finalizers_hold_until_they_have_cleaned_up() {
    let maps = maps().await;
    const OURS: &str = "example.com/held";
    let step = async |map: ConfigMap| {
        finalizer(&maps, OURS, Arc::new(map), async |event| {
            let (which, map) = match event {
                Event::Apply(map) => ("apply", map),
                Event::Cleanup(map) => ("cleanup", map),
            };
            let note = json!({"metadata": {"annotations": {"last": which}}});
            maps.patch_metadata(
                &map.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&note),
            )
            .await?;
            Ok::<_, kube::Error>(Action::await_change())
        })
        .await
        .unwrap();
    };
    step(
        maps.create(&PostParams::default(), &map("a"))
            .await
            .unwrap(),
    )
    .await;
    let held = maps.get("a").await.unwrap();
    assert_eq!(
        (held.finalizers(), held.annotations().len()),
        (&[OURS.to_owned()][..], 0)
    );
    step(held).await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let ending = maps.get("a").await.unwrap();
    assert!(ending.metadata.deletion_timestamp.is_some());
    assert_eq!(ending.annotations()["last"], "apply");
    step(ending).await;
    assert_eq!(maps.get_opt("a").await.unwrap(), None);
}

#[tokio::test]
async fn reflectors_hold_what_is_there() {
    let maps = maps().await;
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    let (store, writer) = reflector::store();
    let mut changes = pin!(
        watcher(maps.clone(), watcher::Config::default())
            .reflect(writer)
            .touched_objects()
    );
    let mut next = async || within("a change", changes.try_next()).await.unwrap();
    next().await;
    // the first list is in the store once what comes after it is seen
    maps.create(&PostParams::default(), &map("b"))
        .await
        .unwrap();
    next().await;
    assert!(store.get(&ObjectRef::new("a").within("default")).is_some());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    next().await;
    assert!(store.get(&ObjectRef::new("a").within("default")).is_none());
}

#[tokio::test]
async fn recorders_count_what_comes_again() {
    let client = World::new().await.api.client("default");
    let reporter = Reporter {
        controller: "test".into(),
        instance: Some("one".into()),
    };
    let recorder = Recorder::new(client.clone(), reporter);
    let about = ObjectReference {
        kind: Some("ConfigMap".into()),
        name: Some("a".into()),
        namespace: Some("default".into()),
        uid: Some("1".into()),
        ..ObjectReference::default()
    };
    let told = RecordedEvent {
        type_: EventType::Warning,
        reason: "Odd".into(),
        note: Some("this is odd".into()),
        action: "Look".into(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder.publish(&told, &about).await.unwrap();
    }
    let events: Api<StoredEvent> = Api::default_namespaced(client);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].reason.as_deref(), Some("Odd"));
    assert_eq!(events[0].series.as_ref().unwrap().count, 2);
}
