//! Devices of plugins in pods: what containers get, who uses which device, and what restarts change.

mod plugin;

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, ensure};
use e2e::{containerd::RealRig, until};
use serde_json::{Value, json};
use wire::pod_resources::{
    AllocatableResourcesRequest, ListPodResourcesRequest,
    pod_resources_lister_client::PodResourcesListerClient,
};

use self::plugin::{Plugin, channel, device};
use crate::case::{apply, leaves_nothing, pod};

const RESOURCE: &str = "example.com/sim";

fn kubelet(rig: &RealRig) -> PathBuf {
    rig.directory.path().join("node/kubelet")
}

/// Waits until the Node reports these numbers of devices.
fn wait_counts(rig: &RealRig, capacity: &str, allocatable: &str) -> anyhow::Result<()> {
    until("devices of the node", || {
        let node = rig.cloud.node()?.context("no node")?;
        let status = &node["status"];
        let found = (
            &status["capacity"][RESOURCE],
            &status["allocatable"][RESOURCE],
        );
        ensure!(
            found == (&json!(capacity), &json!(allocatable)),
            "{found:?}"
        );
        Ok(())
    })
}

/// A pod that uses devices.
fn user(name: &str, count: u32) -> Value {
    pod(
        name,
        &json!({"containers": [{
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"],
            "env": [{"name": "OWN", "value": "the pod's"}],
            "resources": {"limits": {RESOURCE: count.to_string()}},
        }]}),
    )
}

/// Returns the ids of the devices that the pod's container sees, after checking that all its ways agree.
fn devices_inside(rig: &RealRig, name: &str) -> anyhow::Result<String> {
    rig.wait_ready(name)?;
    let ids = rig.inside(name, "echo $SIM_DEVICES")?;
    let ids = ids.trim().to_owned();
    for id in ids.split(',') {
        let read = rig.inside(
            name,
            &format!("test -c /dev/sim-{id} && head -c 5 /dev/sim-{id} | wc -c"),
        )?;
        ensure!(read.trim() == "5", "{name}, {id}: {read}");
    }
    let mounted = rig.inside(name, "cat /sim/ids")?;
    ensure!(mounted.replace(' ', ",") == ids, "{mounted}, not {ids}");
    let own = rig.inside(name, "echo $OWN")?;
    ensure!(own.trim() == "the pod's", "{own}");
    let written = rig.inside(name, "echo x > /sim/ids 2>&1 || echo refused")?;
    ensure!(written.contains("refused"), "{written}");
    Ok(ids)
}

/// Returns the devices by pod, as monitoring agents read them.
fn listed_devices(rig: &RealRig) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let socket = kubelet(rig).join("pod-resources/kubelet.sock");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut client = PodResourcesListerClient::new(channel(socket));
        let listed = client.list(ListPodResourcesRequest {}).await?.into_inner();
        let all = client
            .get_allocatable_resources(AllocatableResourcesRequest {})
            .await?
            .into_inner();
        let mut devices = BTreeMap::new();
        let ids = all.devices.into_iter().flat_map(|one| one.device_ids);
        devices.insert(String::new(), ids.collect());
        for pod in listed.pod_resources {
            let used = pod.containers.into_iter().flat_map(|one| one.devices);
            let used: Vec<_> = used.flat_map(|one| one.device_ids).collect();
            if !used.is_empty() {
                devices.insert(pod.name, used);
            }
        }
        Ok(devices)
    })
}

fn wait_rejected(rig: &RealRig, name: &str, message: &str) -> anyhow::Result<()> {
    let failed = rig.wait_phase(name, "Failed")?;
    let status = &failed["status"];
    ensure!(
        status["reason"] == "UnexpectedAdmissionError"
            && status["message"]
                == format!(
                    "Pod was rejected: Allocate failed due to {message}, which is unexpected"
                ),
        "{status}"
    );
    Ok(())
}

#[test]
fn pods_get_devices_of_a_plugin_and_share_none() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let (a, b, c) = (
        device("a", "Healthy"),
        device("b", "Healthy"),
        device("c", "Unhealthy"),
    );
    let plugin = Plugin::start(
        &kubelet(&rig),
        RESOURCE,
        vec![a.clone(), b.clone(), c.clone()],
    )?;
    wait_counts(&rig, "3", "2")?;
    apply(&rig, &[user("one", 1)])?;
    let first = devices_inside(&rig, "one")?;
    ensure!(first == "b", "the plugin prefers the last one: {first}");
    apply(&rig, &[user("two", 1)])?;
    ensure!(devices_inside(&rig, "two")? == "a", "the other one");
    ensure!(
        plugin.prepared.lock().is_ok_and(|all| *all == ["b", "a"]),
        "{:?}",
        plugin.prepared
    );
    let expected = |pairs: &[(&str, &[&str])]| {
        pairs
            .iter()
            .map(|(pod, ids)| ((*pod).into(), ids.iter().map(|id| (*id).into()).collect()))
            .collect::<BTreeMap<String, Vec<String>>>()
    };
    let listed = listed_devices(&rig)?;
    ensure!(
        listed == expected(&[("", &["a", "b"]), ("one", &["b"]), ("two", &["a"])]),
        "{listed:?}"
    );
    apply(&rig, &[user("three", 1)])?;
    let unavailable = format!("requested number of devices unavailable for {RESOURCE}.");
    wait_rejected(
        &rig,
        "three",
        &format!("{unavailable} Requested: 1, Available: 0"),
    )?;
    // an unhealthy device that recovers is used; what uses one that becomes unhealthy goes on
    plugin.set(vec![
        a.clone(),
        device("b", "Unhealthy"),
        device("c", "Healthy"),
    ]);
    wait_counts(&rig, "3", "2")?;
    until("device c", || {
        let listed = listed_devices(&rig)?;
        ensure!(
            listed.get("").is_some_and(|ids| ids == &["a", "c"]),
            "{listed:?}"
        );
        Ok(())
    })?;
    apply(&rig, &[user("four", 1)])?;
    ensure!(
        devices_inside(&rig, "four")? == "c",
        "the one that recovered"
    );
    // freed devices are used again
    rig.cloud.kubectl.run(&["delete", "pod", "two", "four"])?;
    apply(&rig, &[user("five", 2)])?;
    ensure!(
        devices_inside(&rig, "five")? == "a,c",
        "both that were freed"
    );
    ensure!(devices_inside(&rig, "one")? == "b", "it goes on");
    drop(plugin);
    wait_counts(&rig, "3", "0")?;
    apply(&rig, &[user("six", 1)])?;
    let unhealthy =
        format!("no healthy devices present; cannot allocate unhealthy devices {RESOURCE}");
    wait_rejected(&rig, "six", &unhealthy)?;
    leaves_nothing(&rig)
}

#[test]
fn devices_stay_with_their_pods_when_agent_and_plugin_restart() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let all = || ["a", "b", "c"].map(|id| device(id, "Healthy")).to_vec();
    let plugin = Plugin::start(&kubelet(&rig), RESOURCE, all())?;
    wait_counts(&rig, "3", "3")?;
    let init = json!({"initContainers": [{
        "name": "init", "image": e2e::containerd::IMAGE,
        "command": ["sh", "-c", "test $SIM_DEVICES = b,c"],
        "resources": {"limits": {RESOURCE: "2"}},
    }]});
    let mut first = user("one", 1);
    first["spec"]["initContainers"] = init["initContainers"].clone();
    apply(&rig, &[first])?;
    let ids = devices_inside(&rig, "one")?;
    ensure!(ids == "b", "one of its init container: {ids}");
    let container = RealRig::container_id(&rig.pod("one")?.context("no pod")?, "main")?;
    rig.node.process.kill()?;
    drop(plugin);
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")?;
    wait_counts(&rig, "0", "0")?;
    // while its plugin is away, a new pod waits
    apply(&rig, &[user("two", 1)])?;
    until("an event", || {
        let events = rig.cloud.events("two", "WaitingForDevicePlugin")?;
        let text = format!("the device plugin of {RESOURCE} has not registered yet");
        ensure!(events == [text], "{events:?}");
        Ok(())
    })?;
    let plugin = Plugin::start(&kubelet(&rig), RESOURCE, all())?;
    wait_counts(&rig, "3", "3")?;
    let other = devices_inside(&rig, "two")?;
    ensure!(other == "a", "the only one that no pod uses: {other}");
    let now = RealRig::container_id(&rig.pod("one")?.context("no pod")?, "main")?;
    ensure!(now == container, "the container was restarted");
    ensure!(devices_inside(&rig, "one")? == ids, "another device");
    // the plugin is replaced while it runs
    let next = Plugin::start(&kubelet(&rig), RESOURCE, all())?;
    drop(plugin);
    rig.containerd.raw_cri.stop(&container, 0)?;
    let again = until("a restarted container", || {
        let pod = rig.pod("one")?.context("no pod")?;
        let id = RealRig::container_id(&pod, "main")?;
        ensure!(id != container, "it is the old one");
        Ok(pod)
    })?;
    ensure!(again["status"]["phase"] == "Running", "{again}");
    ensure!(devices_inside(&rig, "one")? == ids, "another device");
    ensure!(
        next.prepared.lock().is_ok_and(|all| all.contains(&ids)),
        "{:?}",
        next.prepared
    );
    leaves_nothing(&rig)
}

#[test]
fn checkpoint_of_a_kubelet_is_taken_over() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.node.process.terminate()?;
    let path = kubelet(&rig).join("device-plugins/kubelet_internal_checkpoint");
    // written by a kubelet
    let text = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"bf52b2cd-b611-4e79-86b1-280b283185c3","ContainerName":"check","ResourceName":"nvidia.com/gpu","DeviceIDs":{"-1":["tegra"]},"AllocResp":"Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"}],"RegisteredDevices":{"nvidia.com/gpu":["tegra"]}},"Checksum":3660592824}"#;
    fs::write(&path, text)?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")?;
    let wait_gpu = |count: &str| {
        until("the GPU", || {
            let node = rig.cloud.node()?.context("no node")?;
            let found = &node["status"]["allocatable"]["nvidia.com/gpu"];
            ensure!(*found == json!(count), "{found}");
            Ok(())
        })
    };
    wait_gpu("0")?;
    let tegra = vec![device("tegra", "Healthy")];
    let _plugin = Plugin::start(&kubelet(&rig), "nvidia.com/gpu", tegra)?;
    wait_gpu("1")?;
    until("a new checkpoint", || {
        let now = fs::read_to_string(&path)?;
        ensure!(now == text, "{now}");
        Ok(())
    })?;
    // the pod that used it does not exist any more
    let mut user = user("user", 1);
    user["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
    apply(&rig, &[user])?;
    ensure!(devices_inside(&rig, "user")? == "tegra", "it is free");
    leaves_nothing(&rig)
}
