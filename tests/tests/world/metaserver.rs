//! MetaServer for programs on the node: reads, writes and informers, with the cloud and without.

use std::pin::pin;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        WatchEvent, WatchParams,
    },
    runtime::{
        WatchStreamExt,
        watcher::{self, watcher},
    },
};
use serde_json::{Value, json};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod, secret},
    within,
};

/// What lets all nodes do this, everywhere.
pub(crate) async fn grant(world: &World, rules: Value) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "edge-apps"}, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "edge-apps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edge-apps"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    });
    world.apply(&role).await;
    world.apply(&binding).await;
}

/// Everything on these core resources.
pub(crate) fn all_of(group: &str, resources: &[&str]) -> Value {
    json!([{"apiGroups": [group], "resources": resources, "verbs": ["*"]}])
}

/// A world with one node, connected, that has a MetaServer.
pub(crate) async fn world() -> World {
    let world = World::with(Setup {
        meta_server: true,
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    world
}

/// The URL of the node's MetaServer.
pub(crate) async fn url(world: &World) -> String {
    format!(
        "http://{}",
        world.nodes[0]
            .meta_server()
            .await
            .expect("MetaServer listens")
    )
}

/// An ordinary client of the node's MetaServer.
pub(crate) async fn client(world: &World) -> Client {
    let mut config = Config::new(url(world).await.parse().unwrap());
    // what is refused is told at once, and not tried again for minutes
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other:?}"),
    }
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, json!({"key": value}))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_through_and_read_back() {
    let world = world().await;
    grant(&world, all_of("", &["configmaps"])).await;
    let maps = Api::<ConfigMap>::default_namespaced(client(&world).await);
    let made = maps
        .create(&PostParams::default(), &map("m", "one"))
        .await
        .unwrap();
    assert_eq!(
        world.object("v1", "ConfigMap", "m").get().await["data"]["key"],
        "one"
    );

    // what was read here is what is replaced, as at any API server
    let mut read = maps.get("m").await.unwrap();
    assert_eq!(read.resource_version(), made.resource_version());
    read.data
        .as_mut()
        .unwrap()
        .insert("key".into(), "two".into());
    let replaced = maps
        .replace("m", &PostParams::default(), &read)
        .await
        .unwrap();
    assert_ne!(replaced.resource_version(), read.resource_version());
    let stale = maps
        .replace("m", &PostParams::default(), &read)
        .await
        .unwrap_err();
    assert_eq!(code(&stale), 409);
    assert_eq!(
        world.object("v1", "ConfigMap", "m").get().await["data"]["key"],
        "two"
    );

    let patch = Patch::Merge(json!({"data": {"more": "x"}}));
    let patched = maps
        .patch("m", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap()["more"], "x");
    let applied =
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"applied": "y"}}));
    maps.patch("m", &PatchParams::apply("test").force(), &applied)
        .await
        .unwrap();
    let stored = world.object("v1", "ConfigMap", "m").get().await;
    assert_eq!(
        stored["data"],
        json!({"key": "two", "more": "x", "applied": "y"})
    );

    let tried = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    maps.create(&tried, &map("tried", "x")).await.unwrap();
    assert_eq!(code(&maps.get("tried").await.unwrap_err()), 404);
    assert_eq!(
        code(
            &maps
                .create(&PostParams::default(), &map("m", "again"))
                .await
                .unwrap_err()
        ),
        409
    );

    maps.delete("m", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(&maps.get("m").await.unwrap_err()), 404);
    assert_eq!(world.object("v1", "ConfigMap", "m").find().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn this_nodes_own_is_read_as_it_is_here_with_the_cloud_or_without() {
    let mut world = world().await;
    world.apply(&secret("key", json!({"password": "x"}))).await;
    world.apply(&config_map("seen", json!({"a": "b"}))).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "key"}}]);
    world.run(&manifest).await;
    world.apply(&pod("elsewhere", Some("edge-2"))).await;
    let client = client(&world).await;
    let (pods, nodes) = (
        Api::<Pod>::default_namespaced(client.clone()),
        Api::<Node>::all(client.clone()),
    );
    let (secrets, maps) = (
        Api::<Secret>::default_namespaced(client.clone()),
        Api::<ConfigMap>::default_namespaced(client),
    );

    let names = async || -> Vec<String> {
        let listed = pods.list(&ListParams::default()).await.unwrap();
        listed.items.iter().map(ResourceExt::name_any).collect()
    };
    assert_eq!(names().await, ["web"], "a node sees its own pods");
    assert!(nodes.get("edge-1").await.is_ok() && secrets.get("key").await.is_ok());
    for denied in [
        nodes.get("edge-2").await.map(drop),
        maps.get("seen").await.map(drop),
    ] {
        assert_eq!(code(&denied.unwrap_err()), 403);
    }

    world.stop_cloud().await;
    world.until_connected(0, false).await;
    // the pod restarts meanwhile: nobody but this node knows
    let container = world.running(0).into_values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(&container, 1));
    eventually("the restart is seen", async || {
        let statuses = pods
            .get("web")
            .await
            .unwrap()
            .status
            .unwrap()
            .container_statuses
            .unwrap();
        if statuses[0].restart_count == 1 {
            Ok(())
        } else {
            Err(statuses)
        }
    })
    .await;
    assert_eq!(names().await, ["web"]);
    assert!(nodes.get("edge-1").await.is_ok() && secrets.get("key").await.is_ok());
    assert_eq!(code(&maps.get("never-seen").await.unwrap_err()), 503);
    // of what was never listed nothing is said, and not that there is none
    for never_listed in [
        maps.list(&ListParams::default()).await.map(drop),
        secrets.list(&ListParams::default()).await.map(drop),
    ] {
        let refused = never_listed.unwrap_err();
        assert_eq!(code(&refused), 503);
        assert!(
            refused.to_string().contains("the cloud is not connected"),
            "{refused}"
        );
    }
    let mut informer = pin!(watcher(
        maps.clone(),
        watcher::Config::default().streaming_lists()
    ));
    let told = async {
        loop {
            match informer.next().await.unwrap() {
                Ok(watcher::Event::Init) => {}
                other => return other,
            }
        }
    };
    let told = within("the informer is told", told).await;
    assert!(
        told.as_ref().is_err_and(
            |error| error.to_string().contains("503") || format!("{error:?}").contains("503")
        ),
        "{told:?}"
    );
    for refused in [
        maps.create(&PostParams::default(), &map("new", "x"))
            .await
            .map(drop),
        pods.delete("web", &DeleteParams::default()).await.map(drop),
    ] {
        assert_eq!(code(&refused.unwrap_err()), 503);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reads_its_own_devices_with_the_cloud_or_without() {
    let mut world = world().await;
    let group = "devices.kubeedge.io/v1beta1";
    let model = json!({"apiVersion": group, "kind": "DeviceModel", "metadata": {"name": "lamp", "namespace": "default"},
        "spec": {"properties": [{"name": "power", "type": "STRING", "accessMode": "ReadWrite"}]}});
    world.apply(&model).await;
    for (name, node) in [("here", "edge-1"), ("elsewhere", "edge-2")] {
        let device = json!({"apiVersion": group, "kind": "Device", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "deviceModelRef": {"name": "lamp"}, "protocol": {"protocolName": "gpio"}}});
        world.apply(&device).await;
    }
    let client = client(&world).await;
    let api = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource {
            group: "devices.kubeedge.io".into(),
            version: "v1beta1".into(),
            api_version: group.into(),
            kind: kind.into(),
            plural,
        };
        Api::<DynamicObject>::default_namespaced_with(client.clone(), &resource)
    };
    let (devices, models) = (api("Device"), api("DeviceModel"));
    let names = async |api: &Api<DynamicObject>| -> Vec<String> {
        let listed = api.list(&ListParams::default()).await.unwrap();
        listed.items.iter().map(ResourceExt::name_any).collect()
    };
    for connected in [true, false] {
        if !connected {
            world.stop_cloud().await;
            world.until_connected(0, false).await;
        }
        eventually("the device of this node", async || {
            match (names(&devices).await, names(&models).await) {
                (found, models) if found == ["here"] && models == ["lamp"] => Ok(()),
                found => Err(found),
            }
        })
        .await;
        let device = devices.get("here").await.unwrap();
        assert_eq!(device.data["spec"]["nodeName"], "edge-1");
        let refused = code(&devices.get("elsewhere").await.unwrap_err());
        assert_eq!(refused, if connected { 403 } else { 503 });
        // a watch begins with the device, also without a list before it
        let watch = devices.watch(&WatchParams::default(), "0").await;
        let mut watch = watch.unwrap().boxed();
        assert_eq!(next_name(&mut watch).await, "added here");
        if connected {
            let here = world.object(group, "Device", "here");
            here.merge(json!({"spec": {"protocol": {"protocolName": "spi"}}}))
                .await;
            assert_eq!(next_name(&mut watch).await, "modified here");
        }
    }
}

/// Returns the next change of a watch: its type and the name of the object.
async fn next_name(
    watch: &mut (impl Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Unpin),
) -> String {
    match within("a change", watch.next()).await.unwrap().unwrap() {
        WatchEvent::Added(object) => format!("added {}", object.name_any()),
        WatchEvent::Modified(object) => format!("modified {}", object.name_any()),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_once_is_read_again_without_the_cloud_and_by_a_new_agent() {
    let mut world = world().await;
    grant(&world, all_of("", &["configmaps"])).await;
    for name in ["one", "two"] {
        world.apply(&config_map(name, json!({"key": name}))).await;
    }
    let maps = Api::<ConfigMap>::default_namespaced(client(&world).await);
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert!(listed.items.iter().any(|map| map.name_any() == "two"));
    let none = ListParams::default().labels("nobody=has");
    assert!(maps.list(&none).await.unwrap().items.is_empty());
    world.stop_cloud().await;
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(client(&world).await);
    assert_eq!(maps.get("two").await.unwrap().data.unwrap()["key"], "two");
    let held = maps.list(&ListParams::default()).await.unwrap();
    let names = |list: &kube::core::ObjectList<ConfigMap>| {
        list.items
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&held), names(&listed));
    assert!(
        maps.list(&none).await.unwrap().items.is_empty(),
        "an empty list that the cloud gave is one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_stays_right_while_the_cloud_goes_and_comes() {
    let mut world = world().await;
    grant(&world, all_of("", &["configmaps"])).await;
    world.apply(&config_map("stays", json!({"v": "1"}))).await;
    world.apply(&config_map("goes", json!({"v": "1"}))).await;
    let maps = Api::<ConfigMap>::default_namespaced(client(&world).await);
    let (reader, writer) = kube::runtime::reflector::store();
    let mut events = pin!(
        watcher(maps, watcher::Config::default())
            .default_backoff()
            .reflect(writer)
    );
    let seen = || -> Value {
        let pairs = reader
            .state()
            .into_iter()
            .filter(|map| map.name_any() != "kube-root-ca.crt");
        pairs
            .map(|map| (map.name_any(), json!(map.data.as_ref().unwrap()["v"])))
            .collect()
    };
    let mut until = async |wanted: Value| {
        let reached = async {
            while seen() != wanted {
                let _ = events.next().await.unwrap();
            }
        };
        within(&format!("the informer sees {wanted}"), reached).await;
    };
    until(json!({"stays": "1", "goes": "1"})).await;
    world.apply(&config_map("stays", json!({"v": "2"}))).await;
    world.apply(&config_map("comes", json!({"v": "1"}))).await;
    until(json!({"stays": "2", "goes": "1", "comes": "1"})).await;
    world.object("v1", "ConfigMap", "comes").delete(None).await;
    until(json!({"stays": "2", "goes": "1"})).await;

    world.stop_cloud().await;
    world.until_connected(0, false).await;
    world.start_cloud().await;
    world.object("v1", "ConfigMap", "goes").delete(None).await;
    world.apply(&config_map("stays", json!({"v": "3"}))).await;
    world.apply(&config_map("late", json!({"v": "1"}))).await;
    until(json!({"stays": "3", "late": "1"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_lists_are_whole() {
    let world = world().await;
    grant(&world, all_of("", &["configmaps"])).await;
    let names: Vec<String> = (0..230).map(|number| format!("m-{number:03}")).collect();
    for name in &names {
        world.apply(&config_map(name, json!({"v": "1"}))).await;
    }
    let maps = Api::<ConfigMap>::default_namespaced(client(&world).await);
    let events = watcher(maps, watcher::Config::default().streaming_lists());
    let mut events = pin!(events);
    let mut listed = Vec::new();
    let whole = async {
        loop {
            match events.next().await.unwrap().unwrap() {
                watcher::Event::InitApply(map) => listed.push(map.name_any()),
                watcher::Event::InitDone => return,
                _ => {}
            }
        }
    };
    within("the end of the list", whole).await;
    listed.retain(|name| name.starts_with("m-"));
    listed.sort();
    assert_eq!(listed, names);
}
