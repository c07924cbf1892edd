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
use crate::fleet::Machine;

mod load;
mod read;
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
    /// There is nothing in it.
    #[error("{0} contains no Kubernetes objects; write it with `kubectl get KINDS -A -o yaml`")]
    Empty(String),
    /// Something in it is no object.
    #[error(
        "{place} of the dump is no Kubernetes object: {missing} is missing; correct or remove it"
    )]
    NoObject {
        /// Its document and item, from 1, with its name if it has one.
        place: String,
        /// The field.
        missing: &'static str,
    },
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
        let dump = Self::parse(&text)?;
        if dump.machines.is_empty() && dump.objects.is_empty() && dump.skipped.is_empty() {
            return Err(Error::Empty(path.display().to_string()));
        }
        Ok(dump)
    }

    /// Parses documents of YAML or JSON: objects, or lists of them.
    ///
    /// # Errors
    /// The text is no dump.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut dump = Self::default();
        let all = read::objects(text, &mut dump.skipped)?;
        let (nodes, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_node);
        for node in nodes {
            match machine(&node) {
                Ok(machine) => dump.machines.push(machine),
                Err(reason) => {
                    dump.skipped.add(reason, &node);
                    continue;
                }
            }
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
    /// refuses, and the warnings of the API, as for unknown fields.
    ///
    /// # Errors
    /// The API does not answer.
    pub async fn load(&self, client: &Client) -> Result<Skipped, Error> {
        let remarks = load::create(client, &self.objects).await?;
        load::cordon(client, &self.cordoned).await?;
        let mut skipped = self.skipped.clone();
        for (object, remark) in remarks {
            skipped.add(remark, object);
        }
        Ok(skipped)
    }
}

fn is_node(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Node"
}

fn name_of(object: &Value) -> Option<String> {
    let name = object.pointer("/metadata/name")?.as_str()?;
    Some(name.to_owned())
}

/// Returns the simulated node for a Node, or why there can be none.
fn machine(node: &Value) -> Result<Machine, String> {
    let name = name_of(node).unwrap_or_default();
    if !is_node_name(&name) {
        return Err("its name is invalid".to_owned());
    }
    // A Node without this has that of this machine.
    let capacity = |resource: &str| {
        let field = node
            .pointer("/status/capacity")
            .and_then(|it| it.get(resource));
        let Some(field) = field else { return Ok(None) };
        let text = field
            .as_str()
            .map_or_else(|| field.to_string(), str::to_owned);
        match quantity::bytes(&text).filter(|amount| *amount > 0) {
            Some(amount) => Ok(Some(amount)),
            None => Err(format!(
                "its status.capacity.{resource} {} is no quantity above 0",
                limits::excerpt(&text)
            )),
        }
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
    if let Some(pods) = capacity("pods")? {
        kubelet["maxPods"] = pods.into();
    }
    Ok(Machine {
        name,
        state: None,
        capacity: Capacity {
            cpus: capacity("cpu")?,
            memory: capacity("memory")?,
        },
        edged: json!({"nodeLabels": labels.collect::<serde_json::Map<_, _>>(), "tailoredKubeletConfig": kubelet}),
    })
}

#[cfg(test)]
mod tests;
