//! The twin of a device: reported values arrive in the cloud, and desired values arrive at the device.

use anyhow::{Context, bail};
use crds::devices::{Device, DeviceStatus};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{Steps, thermometer::Running};

/// The property that is set, and its desired value.
const TARGET: (&str, &str) = ("target", "25");
/// The property that follows.
const FOLLOWS: &str = "temperature";

/// Runs the device's mapper on the node and watches the twin follow. Returns what was observed: names and values.
pub(super) async fn watch(
    steps: &Steps<'_>,
    device: &Device,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut mapper = Running::on(steps.node)?;
    clock::select! {
        // cancel-safe: the demo ends with either branch.
        seen = follow(steps, device) => seen,
        // cancel-safe: as above
        why = mapper.wait_failed() => bail!("the device's mapper stopped: {why}"),
    }
}

async fn follow(steps: &Steps<'_>, device: &Device) -> anyhow::Result<Vec<(String, String)>> {
    let (namespace, name) = (device.namespace().unwrap_or_default(), device.name_any());
    let statuses = Api::<DeviceStatus>::namespaced(steps.client.clone(), &namespace);
    let first = steps
        .wait(statuses.clone(), &name, "reported", |it| {
            reported_value(it, FOLLOWS).is_some()
        })
        .await?;
    let first = reported_value(&first, FOLLOWS).unwrap_or_default();
    (steps.progress)(&format!(
        "device {name} is online, and reports {FOLLOWS} {first}"
    ));

    let (target, value) = TARGET;
    let mut properties = device.spec.properties.clone();
    let property = properties
        .iter_mut()
        .find(|property| property.name.as_deref() == Some(target));
    let property = property.with_context(|| format!("device {name} has no property {target}"))?;
    property.desired.get_or_insert_default().value = value.to_owned();
    let patch = json!({"spec": {"properties": properties}});
    let devices = Api::<Device>::namespaced(steps.client.clone(), &namespace);
    devices
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    (steps.progress)(&format!("{target} of {name} set to {value}"));

    let arrived =
        |status: &DeviceStatus| reported_value(status, TARGET.0).as_deref() == Some(TARGET.1);
    let last = steps.wait(statuses, &name, "as wanted", arrived).await?;
    (steps.progress)(&format!("{target} of {name} is {value}"));
    let state = last
        .status
        .as_ref()
        .and_then(|status| status.state.clone())
        .unwrap_or_default();
    Ok(vec![
        (
            "device reports".to_owned(),
            format!("{name} is {state}, {FOLLOWS} {first}"),
        ),
        ("twin follows".to_owned(), format!("{target} is {value}")),
    ])
}

/// Returns the reported value of a property.
fn reported_value(status: &DeviceStatus, name: &str) -> Option<String> {
    let twins = status.status.as_ref()?.twins.iter();
    let mut named = twins.filter(|twin| twin.property_name.as_deref() == Some(name));
    named.find_map(|twin| Some(twin.reported.as_ref()?.value.clone()))
}
