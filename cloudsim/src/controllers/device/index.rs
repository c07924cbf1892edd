//! The node of each device and the models of its devices: determines which nodes get an object and which may report. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crds::devices::Device;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::mailbox::{ObjectKind, ObjectPath};

/// How many deleted devices are remembered for nodes without their deletion. Nodes get only the names of older ones.
const MAX_REMEMBERED: usize = 4096;

/// Namespace and name.
type Key = (String, String);

/// What others need to know of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceEntry {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) model: String,
    pub(super) protocol: String,
    pub(super) description: String,
    pub(super) properties: BTreeSet<String>,
}

/// The index of devices.
#[derive(Debug, Default)]
pub(super) struct Index {
    devices: BTreeMap<Key, DeviceEntry>,
    departed: VecDeque<DeviceEntry>,
}

impl Index {
    /// Adds or updates a device. Returns the nodes to notify: its own and its previous one.
    pub(super) fn apply(&mut self, device: &Device) -> BTreeSet<String> {
        let place = DeviceEntry::of(device);
        let node = place.node.clone();
        let old = self.devices.insert(key(device), place.clone());
        let mut nodes = BTreeSet::from([node]);
        if let Some(old) = old.filter(|old| old.node != place.node || old.uid != place.uid) {
            nodes.insert(old.node.clone());
            self.depart(old);
        }
        nodes.remove("");
        nodes
    }

    /// Removes a device. Returns its node.
    pub(super) fn remove(&mut self, key: &Key) -> Option<String> {
        let place = self.devices.remove(key)?;
        let node = place.node.clone();
        self.depart(place);
        Some(node).filter(|node| !node.is_empty())
    }

    fn depart(&mut self, place: DeviceEntry) {
        if self.departed.len() == MAX_REMEMBERED {
            self.departed.pop_front();
        }
        self.departed.push_back(place);
    }

    /// Keeps only the devices of `current`, after a new list. Returns the removed ones with their nodes.
    pub(super) fn retain(&mut self, current: &BTreeSet<Key>) -> Vec<(String, ObjectPath)> {
        let gone: Vec<_> = self
            .devices
            .keys()
            .filter(|key| !current.contains(*key))
            .cloned()
            .collect();
        gone.into_iter()
            .filter_map(|key| Some((self.remove(&key)?, device_path(&key))))
            .collect()
    }

    /// Returns the device, if it is bound to `node`.
    pub(super) fn on(&self, node: &str, namespace: &str, name: &str) -> Option<&DeviceEntry> {
        self.devices
            .get(&(namespace.to_owned(), name.to_owned()))
            .filter(|place| place.node == node)
    }

    /// Reports whether a device with this uid exists.
    pub(super) fn is_there(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let place = self.devices.get(&(namespace.to_owned(), name.to_owned()));
        place.is_some_and(|place| place.uid == uid)
    }

    /// Returns the devices of `node` and their models.
    pub(super) fn desired_objects(&self, node: &str) -> BTreeSet<ObjectPath> {
        let mut paths = BTreeSet::new();
        for (key, place) in self.devices.iter().filter(|(_, place)| place.node == node) {
            paths.insert(device_path(key));
            if !place.model.is_empty() {
                paths.insert(ObjectPath::new(
                    ObjectKind::DeviceModel,
                    &key.0,
                    &place.model,
                ));
            }
        }
        paths
    }

    /// Returns the devices of `node` in the form of membership messages.
    pub(super) fn members(&self, node: &str) -> Vec<Value> {
        let own = self.devices.iter().filter(|(_, place)| place.node == node);
        own.map(|((namespace, name), place)| member(namespace, name, &place.description))
            .collect()
    }

    /// Reports whether a device of `node` uses this model.
    pub(super) fn needs(&self, node: &str, namespace: &str, model: &str) -> bool {
        self.devices
            .iter()
            .any(|(key, place)| key.0 == namespace && place.node == node && place.model == model)
    }

    /// Returns the devices of a model with their nodes.
    pub(super) fn of_model(&self, namespace: &str, model: &str) -> Vec<(String, ObjectPath)> {
        let own = self
            .devices
            .iter()
            .filter(|(key, place)| key.0 == namespace && place.model == model);
        own.filter(|(_, place)| !place.node.is_empty())
            .map(|(key, place)| (place.node.clone(), device_path(key)))
            .collect()
    }

    /// Returns what is known of a device that was removed from a node. EdgeCore finds its mapper by the protocol.
    pub(super) fn deleted_object(&self, path: &ObjectPath, uid: &str) -> Option<Value> {
        let now = self
            .devices
            .get(&(path.namespace.clone(), path.name.clone()));
        let place = self
            .departed
            .iter()
            .rev()
            .chain(now)
            .find(|place| place.uid == uid)?;
        Some(json!({
            "kind": path.kind.kind(),
            "apiVersion": path.kind.api_version(),
            "metadata": {"name": path.name, "namespace": path.namespace, "uid": uid},
            "spec": {
                "deviceModelRef": {"name": place.model},
                "nodeName": place.node,
                "protocol": {"protocolName": place.protocol},
            },
        }))
    }
}

impl DeviceEntry {
    fn of(device: &Device) -> Self {
        let spec = &device.spec;
        let names = spec
            .properties
            .iter()
            .filter_map(|property| property.name.clone());
        Self {
            uid: device.uid().unwrap_or_default(),
            node: spec.node_name.clone().unwrap_or_default(),
            model: spec
                .device_model_ref
                .as_ref()
                .map(|model| model.name.clone())
                .unwrap_or_default(),
            protocol: spec
                .protocol
                .as_ref()
                .and_then(|it| it.protocol_name.clone())
                .unwrap_or_default(),
            description: device
                .labels()
                .get("description")
                .cloned()
                .unwrap_or_default(),
            properties: names.collect(),
        }
    }
}

/// Returns a device in the form of membership messages.
pub(super) fn member(namespace: &str, name: &str, description: &str) -> Value {
    let mut member = json!({"id": format!("{namespace}/{name}"), "name": name});
    if !description.is_empty()
        && let Some(member) = member.as_object_mut()
    {
        member.insert("description".to_owned(), description.into());
    }
    member
}

pub(super) fn key<K: ResourceExt>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn device_path((namespace, name): &Key) -> ObjectPath {
    ObjectPath::new(ObjectKind::Device, namespace, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, node: &str, uid: &str) -> Device {
        serde_json::from_value(json!({
            "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device",
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "labels": {"description": "a sensor"}},
            "spec": {"nodeName": node, "deviceModelRef": {"name": "m"}, "protocol": {"protocolName": "modbus"},
                "properties": [{"name": "t"}]},
        }))
        .unwrap()
    }

    fn names(nodes: &[&str]) -> BTreeSet<String> {
        nodes.iter().map(|&node| node.to_owned()).collect()
    }

    #[test]
    fn both_nodes_of_a_device_that_moves_look_at_it() {
        let mut index = Index::default();
        assert_eq!(index.apply(&device("d", "a", "1")), names(&["a"]));
        assert!(index.on("a", "ns", "d").is_some() && index.on("b", "ns", "d").is_none());
        assert_eq!(index.apply(&device("d", "b", "1")), names(&["a", "b"]));
        assert!(index.on("a", "ns", "d").is_none() && index.needs("b", "ns", "m"));
        assert!(!index.needs("a", "ns", "m") && !index.needs("b", "other", "m"));
        assert_eq!(index.apply(&device("d", "", "1")), names(&["b"]));
        assert_eq!(
            index.remove(&("ns".into(), "d".into())),
            None,
            "nobody had it"
        );
    }

    #[test]
    fn a_device_that_is_gone_is_remembered_with_its_protocol() {
        let mut index = Index::default();
        index.apply(&device("d", "a", "1"));
        let path = ObjectPath::new(ObjectKind::Device, "ns", "d");
        assert_eq!(
            index.retain(&BTreeSet::new()),
            [("a".to_owned(), path.clone())]
        );
        let words = index.deleted_object(&path, "1").unwrap();
        assert_eq!(words["spec"]["protocol"]["protocolName"], "modbus");
        assert_eq!(words["metadata"]["uid"], "1");
        assert_eq!(index.deleted_object(&path, "2"), None);
        for uid in 0..MAX_REMEMBERED {
            index.apply(&device("e", "a", &format!("e{uid}")));
            index.remove(&("ns".into(), "e".into()));
        }
        assert_eq!(index.deleted_object(&path, "1"), None, "not for ever");
        assert_eq!(index.departed.len(), MAX_REMEMBERED);
    }

    #[test]
    fn a_node_looks_at_its_devices_and_their_models() {
        let mut index = Index::default();
        index.apply(&device("d", "a", "1"));
        index.apply(&device("e", "b", "2"));
        let wanted = [(ObjectKind::DeviceModel, "m"), (ObjectKind::Device, "d")];
        let wanted = wanted
            .map(|(kind, name)| ObjectPath::new(kind, "ns", name))
            .into();
        assert_eq!(index.desired_objects("a"), wanted);
        assert_eq!(
            index.members("a"),
            [json!({"id": "ns/d", "name": "d", "description": "a sensor"})]
        );
        assert_eq!(index.of_model("ns", "m").len(), 2);
    }
}
