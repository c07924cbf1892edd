//! `cloudsim devices`: lists desired and reported values of devices, and sets desired values.

mod table;

use anyhow::{Context, bail};
use crds::devices::{Device, DeviceStatus};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    connect::connect,
    listing::{Listing, show},
    nearest,
    nodes::is_ready,
    objects,
    output::print_line,
};
use crate::cli::{Access, DeviceCommand, ListArgs};

/// How often a change is retried because somebody else has changed the device meanwhile.
const ATTEMPTS: usize = 8;

pub(super) async fn run(
    access: &Access,
    list: ListArgs,
    command: Option<DeviceCommand>,
) -> anyhow::Result<()> {
    let list = match command {
        None => list,
        Some(DeviceCommand::List(more)) => list.or(more),
        Some(DeviceCommand::Set { device, values }) => {
            list.refuse_for("set")?;
            return set(access, &device, &values).await;
        }
    };
    let client = connect(access).await?;
    show(&list, async || listing(&client).await).await
}

async fn listing(client: &Client) -> anyhow::Result<Listing> {
    let mut warnings = Vec::new();
    let devices = objects::list::<Device>(client, &mut warnings).await?;
    let statuses = objects::list::<DeviceStatus>(client, &mut warnings).await?;
    let nodes = objects::list::<Node>(client, &mut warnings).await?;
    let ready = nodes
        .iter()
        .filter(|node| is_ready(node))
        .map(ResourceExt::name_any)
        .collect();
    let now = clock::now();
    Ok(Listing {
        warnings,
        ..table::listing(&devices, &statuses, &ready, now)
    })
}

async fn set(access: &Access, device: &str, values: &[(String, String)]) -> anyhow::Result<()> {
    let client = connect(access).await?;
    let (namespace, name) = device.split_once('/').unwrap_or(("default", device));
    let api = Api::<Device>::namespaced(client, namespace);
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        let missing =
            || format!("device {namespace}/{name} does not exist; `cloudsim devices` lists all");
        let found = api.get_opt(name).await;
        let found = found.with_context(|| format!("cannot read device {namespace}/{name}"))?;
        let found = found.with_context(missing)?;
        let properties = desired_properties(&found, values)?;
        let patch = json!({
            "metadata": {"resourceVersion": found.resource_version()},
            "spec": {"properties": properties},
        });
        match api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 409 && attempts > 0 => {}
            Err(kube::Error::Api(status)) => bail!("{}", status.message),
            Err(error) => return Err(error.into()),
        }
    }
    for (property, value) in values {
        print_line(&format!("{namespace}/{name} {property} set to {value}"));
    }
    Ok(())
}

/// Returns the device's properties with other desired values.
fn desired_properties(device: &Device, values: &[(String, String)]) -> anyhow::Result<Value> {
    let mut properties = device.spec.properties.clone();
    for (name, value) in values {
        let found = properties
            .iter_mut()
            .find(|property| property.name.as_ref() == Some(name));
        let Some(property) = found else {
            let names = device
                .spec
                .properties
                .iter()
                .filter_map(|it| it.name.as_deref());
            let names: Vec<_> = names.collect();
            bail!(
                "{} has no property {name}{}; it has {}",
                device.name_any(),
                nearest(name, names.iter().copied()),
                names.join(", ")
            );
        };
        property
            .desired
            .get_or_insert_default()
            .value
            .clone_from(value);
    }
    Ok(json!(properties))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_of_a_property_changes() {
        let device: Device = serde_json::from_value(json!({
            "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": "d"},
            "spec": {"properties": [
                {"name": "a", "desired": {"value": "1", "metadata": {"type": "int"}}, "reportCycle": 5},
                {"name": "b", "visitors": {"configData": {"x": 1}}}, {"name": "target"}]},
        }))
        .unwrap();
        let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = json!([
            {"name": "a", "desired": {"value": "2", "metadata": {"type": "int"}}, "reportCycle": 5},
            {"name": "b", "desired": {"value": "x=y"}, "visitors": {"configData": {"x": 1}}}, {"name": "target"}]);
        assert_eq!(
            desired_properties(&device, &[value("a", "2"), value("b", "x=y")]).unwrap(),
            expected
        );
        for (name, expected) in [
            ("other", "d has no property other; it has a, b, target"),
            (
                "tagret",
                "d has no property tagret (did you mean target?); it has a, b, target",
            ),
        ] {
            let error = desired_properties(&device, &[value(name, "2")]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
