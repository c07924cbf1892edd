//! A dump of a cluster, as `kubectl get … -o yaml` writes it, from which a cloud like that cluster is started.
//!
//! The Nodes become simulated nodes of their size, with their labels and taints. The other objects are created as they are desired: without
//! status, UID and owners. Pods are created on their nodes before ReplicaSets, and these before Deployments, so that controllers adopt
//! them as they are. What another cluster's controllers or servers make is skipped.

use std::{collections::BTreeMap, fmt, io, path::Path};

use edged::Capacity;
use kube::Client;
use kubeapi::object::quantity;
use serde_json::{Value, json};
use wire::enroll::is_node_name;

use self::rules::{Fate, fate};
use crate::{fleet::Machine, manifests};

mod load;
mod rules;

/// The largest dump in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// How many object names of one reason are shown.
const SHOWN_NAMES: usize = 5;
/// Labels that an agent sets itself.
const OWN_LABELS: [&str; 5] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// The prefixes of taints that describe a state, which controllers set.
const STATE_TAINTS: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// Why a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The text is no YAML or JSON.
    #[error("the dump is no YAML or JSON: {0}")]
    Syntax(String),
    /// A document is no object.
    #[error(
        "document {0} of the dump is no Kubernetes object: apiVersion, kind or metadata.name is missing"
    )]
    NoObject(usize),
    /// The API did not answer.
    #[error("an API call failed")]
    Api(#[from] kube::Error),
}

/// What a cluster consists of.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    machines: Vec<Machine>,
    /// The names of nodes that accept no new pods.
    cordoned: Vec<String>,
    objects: Vec<Value>,
    skipped: Skipped,
}

/// What is not taken from a dump: reason → kinds and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<String, Vec<String>>);

impl Skipped {
    fn add(&mut self, reason: impl Into<String>, object: &Value) {
        let of = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let mut name = of("/kind").unwrap_or_default().to_owned() + " ";
        if let Some(namespace) = of("/metadata/namespace") {
            name += namespace;
            name += "/";
        }
        name += of("/metadata/name").unwrap_or_default();
        self.0.entry(reason.into()).or_default().push(name);
    }

    /// Reports whether everything is taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One line for each reason, with the first names.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (reason, names)) in self.0.iter().enumerate() {
            let first: Vec<_> = names.iter().take(SHOWN_NAMES).map(String::as_str).collect();
            let more = match names.len().saturating_sub(SHOWN_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{}{more}: {reason}", first.join(", "))?;
        }
        Ok(())
    }
}

impl Dump {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no dump, or larger than 1 GiB.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = limits::read_regular_text(path, MAX_BYTES).map_err(|source| Error::File {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Parses documents of YAML or JSON: objects, or lists of them.
    ///
    /// # Errors
    /// The text is no dump.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let documents = parse(text)?;
        let mut all = Vec::new();
        for (number, document) in documents.into_iter().enumerate() {
            flatten(document, number + 1, &mut all)?;
        }
        let mut dump = Self::default();
        let (nodes, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_node);
        for node in nodes {
            let machine = machine(&node);
            if !is_node_name(&machine.name) {
                dump.skipped.add("its name is invalid", &node);
                continue;
            }
            dump.machines.push(machine);
            if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
                dump.cordoned.extend(name_of(&node));
            }
        }
        for mut object in others {
            match fate(&mut object, &dump.machines) {
                Fate::Create => dump.objects.push(object),
                Fate::Skip(reason) => dump.skipped.add(reason, &object),
            }
        }
        Ok(dump)
    }

    /// Returns the nodes, for [`fleet::Options::machines`](crate::fleet::Options::machines).
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Returns the number of objects that are created.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Creates the objects; the nodes must be Ready. Objects that exist are changed. Returns everything that is skipped, with what the API
    /// refuses.
    ///
    /// # Errors
    /// The API does not answer.
    pub async fn load(&self, client: &Client) -> Result<Skipped, Error> {
        let refused = load::create(client, &self.objects).await?;
        load::cordon(client, &self.cordoned).await?;
        let mut skipped = self.skipped.clone();
        for (object, reason) in refused {
            skipped.add(reason, object);
        }
        Ok(skipped)
    }
}

/// Parses JSON, which is the faster one, or YAML.
fn parse(text: &str) -> Result<Vec<Value>, Error> {
    let json = serde_json::Deserializer::from_str(text).into_iter();
    match json.collect() {
        Ok(values) => Ok(values),
        Err::<Vec<Value>, serde_json::Error>(_) => {
            manifests::documents(text).map_err(Error::Syntax)
        }
    }
}

/// Adds an object, or the items of a list.
fn flatten(document: Value, number: usize, all: &mut Vec<Value>) -> Result<(), Error> {
    match document {
        Value::Null => Ok(()),
        Value::Object(mut fields) if fields.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = fields.remove("items") else {
                return Ok(());
            };
            items
                .into_iter()
                .try_for_each(|item| flatten(item, number, all))
        }
        object => {
            let has = |pointer| object.pointer(pointer).is_some_and(Value::is_string);
            if !(has("/apiVersion") && has("/kind") && has("/metadata/name")) {
                return Err(Error::NoObject(number));
            }
            all.push(object);
            Ok(())
        }
    }
}

fn is_node(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Node"
}

fn name_of(object: &Value) -> Option<String> {
    let name = object.pointer("/metadata/name")?.as_str()?;
    Some(name.to_owned())
}

/// Returns the simulated node for a Node.
fn machine(node: &Value) -> Machine {
    let capacity = |resource: &str| {
        let text = node.pointer("/status/capacity")?.get(resource)?.as_str()?;
        quantity::bytes(text).filter(|amount| *amount > 0)
    };
    let strings = node.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = strings.into_iter().flatten();
    let labels = labels.filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()));
    let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let is_state = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        STATE_TAINTS.iter().any(|prefix| key.starts_with(prefix))
    };
    let taint = |taint: &Value| {
        let value = taint["value"].as_str().unwrap_or_default();
        json!({"key": taint["key"], "value": value, "effect": taint["effect"]})
    };
    let taints = taints.into_iter().flatten();
    let taints: Vec<_> = taints.filter(|it| !is_state(it)).map(taint).collect();
    let mut kubelet = json!({"registerWithTaints": taints});
    if let Some(pods) = capacity("pods") {
        kubelet["maxPods"] = pods.into();
    }
    Machine {
        name: name_of(node).unwrap_or_default(),
        state: None,
        capacity: Capacity {
            cpus: capacity("cpu"),
            memory: capacity("memory"),
        },
        edged: json!({"nodeLabels": labels.collect::<serde_json::Map<_, _>>(), "tailoredKubeletConfig": kubelet}),
    }
}

#[cfg(test)]
mod tests;
