//! The kinds that a cloud serves, and those on which no controller acts.

use crds::devices::v1alpha2;
use kubeapi::Registry;

/// Returns the kinds of Kubernetes and KubeEdge.
pub(crate) fn registry() -> Registry {
    Registry::builtin()
        .with_conversion("devices.kubeedge.io", "devices", v1alpha2::device)
        .with_conversion("devices.kubeedge.io", "devicemodels", v1alpha2::model)
        .with_conversion(
            "devices.kubeedge.io",
            "devicestatuses",
            v1alpha2::device_status,
        )
        .with_crds(&crds::all())
}

/// Group and kind of what is only stored: writers get a warning. Whoever adds a controller removes its kind here.
pub(crate) const STORED_ONLY: [(&str, &str); 14] = [
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "ResourceClaim"),
    ("resource.k8s.io", "ResourceClaimTemplate"),
    ("resource.k8s.io", "ResourceSlice"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "VolumeAttributesClass"),
];

#[cfg(test)]
mod tests {
    use kube::{
        Api, Client, Resource,
        api::{DynamicObject, Patch, PatchParams, PostParams},
        discovery::ApiResource,
    };
    use objectstore::MemoryStore;
    use serde_json::{Value, json};

    use super::*;
    use crate::{admission, controllers::namespace_defaults};

    async fn cloud() -> Client {
        let api = apiserver::builder(MemoryStore::new()).registry(registry());
        let client = api
            .admission(std::sync::Arc::new(admission::KubeEdgeAdmission))
            .build()
            .client("default");
        namespace_defaults::ensure_initial(&client).await.unwrap();
        client
    }

    fn devices(client: &Client, version: &str, kind: &str) -> Api<DynamicObject> {
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource {
            group: "devices.kubeedge.io".into(),
            version: version.into(),
            api_version: format!("devices.kubeedge.io/{version}"),
            kind: kind.into(),
            plural,
        };
        Api::default_namespaced_with(client.clone(), &resource)
    }

    #[tokio::test]
    async fn older_devices_are_stored_in_the_newer_version_and_read_in_both() {
        let client = cloud().await;
        let (old, new) = (
            devices(&client, "v1alpha2", "Device"),
            devices(&client, "v1beta1", "Device"),
        );
        let manifest = json!({
            "apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "Device", "metadata": {"name": "led"},
            "spec": {
                "deviceModelRef": {"name": "light"}, "protocol": {"customizedProtocol": {"protocolName": "gpio"}},
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "", "operator": "In", "values": ["edge-1"]}]}]},
                "propertyVisitors": [{"propertyName": "power", "customizedProtocol": {"protocolName": "gpio", "configData": {"pin": 17}}}],
            },
            "status": {"twins": [{"propertyName": "power", "desired": {"value": "ON", "metadata": {"type": "string"}}}]},
        });
        let apply = PatchParams::apply("test").validation_strict();
        for _ in 0..2 {
            let made = old
                .patch("led", &apply, &Patch::Apply(&manifest))
                .await
                .unwrap();
            assert_eq!(made.data["spec"], manifest["spec"]);
            assert_eq!(made.data["status"], manifest["status"]);
        }
        let read = new.get("led").await.unwrap();
        assert_eq!(read.data["spec"]["nodeName"], "edge-1");
        assert_eq!(
            read.data["spec"]["properties"],
            json!([{
                "name": "power", "desired": {"value": "ON", "metadata": {"type": "string"}},
                "visitors": {"protocolName": "gpio", "configData": {"pin": 17}},
            }])
        );
        let list = new.list(&Default::default()).await.unwrap();
        assert_eq!(
            list.items[0].types.as_ref().unwrap().api_version,
            "devices.kubeedge.io/v1beta1"
        );
        let (old, new) = (
            devices(&client, "v1alpha2", "DeviceModel"),
            devices(&client, "v1beta1", "DeviceModel"),
        );
        let model: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "devices.kubeedge.io/v1alpha2", "kind": "DeviceModel", "metadata": {"name": "light"},
            "spec": {"properties": [{"name": "power", "type": {"string": {"accessMode": "ReadWrite", "defaultValue": "OFF"}}}]},
        }))
        .unwrap();
        let made = old.create(&PostParams::default(), &model).await.unwrap();
        assert_eq!(made.data["spec"], model.data["spec"]);
        let read = new.get("light").await.unwrap();
        assert_eq!(
            read.data["spec"]["properties"],
            json!([{"name": "power", "type": "STRING", "accessMode": "ReadWrite"}])
        );
    }

    #[tokio::test]
    async fn a_devices_status_may_hold_its_twins() {
        let client = cloud().await;
        let device: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": "a"},
            "spec": {"nodeName": "edge-1"}, "status": {"twins": [{"propertyName": "p", "reported": {"value": "1"}}]},
        }))
        .unwrap();
        let strict = PatchParams::apply("test").validation_strict();
        let made = devices(&client, "v1beta1", "Device")
            .patch("a", &strict, &Patch::Apply(&device))
            .await
            .unwrap();
        assert_eq!(made.data["status"], device.data["status"]);
        assert_eq!(made.meta().name.as_deref(), Some("a"));
        assert_ne!(made.data["spec"], Value::Null);
    }

    #[test]
    fn what_is_only_stored_is_served() {
        let registry = registry();
        for (group, kind) in STORED_ONLY {
            let found = registry
                .kinds()
                .iter()
                .any(|own| own.group == group && own.kind == kind);
            assert!(found, "{group} {kind}");
        }
    }
}
