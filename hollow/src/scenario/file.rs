//! The format of scenario files, and the errors in them. Pure.

use std::{collections::BTreeMap, path::PathBuf};

use cloudsim::faults::{Certificate, Conditions, Period, Shape};
use record::Recorder;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use wire::{enroll::is_node_name, topic::DeviceId};

use super::{
    expect::Path,
    parse::{Faulty, parse_all},
};

/// The word for the cloud where steps name a node.
pub(super) const CLOUD: &str = "cloud";

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The name in outcomes.
    pub name: String,
    /// What the scenario shows, for people.
    #[serde(default)]
    pub about: Option<String>,
    /// The seed of all random decisions.
    #[serde(default)]
    seed: Option<u64>,
    /// The settings of the cloud.
    #[serde(default)]
    cloud: Option<Spanned<CloudSpec>>,
    /// The dump of a cluster to start from. Its path is relative to the scenario's.
    #[serde(default)]
    pub(super) from: Option<PathBuf>,
    /// The nodes.
    #[serde(default)]
    nodes: Vec<Spanned<NodeSpec>>,
    /// The steps, in order.
    pub(super) steps: Vec<Spanned<Step>>,
    /// The recording of the messages between nodes and cloud.
    #[serde(skip)]
    pub(super) recorder: Recorder,
}

/// The settings of the cloud.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct CloudSpec {
    /// The number of replicas of its hub.
    pub(super) hubs: usize,
    /// How long a node may give no sign of life.
    pub(super) node_grace: Period,
    /// How long the cloud waits for an acknowledgement.
    pub(super) acknowledgement: Period,
}

impl Default for CloudSpec {
    fn default() -> Self {
        Self {
            hubs: 1,
            node_grace: Period::seconds(40),
            acknowledgement: Period::seconds(5),
        }
    }
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeSpec {
    pub(super) name: String,
    #[serde(default)]
    pub(super) transport: Transport,
}

impl NodeSpec {
    /// Returns a node with the defaults.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            transport: Transport::default(),
        }
    }
}

/// The protocol by which a node connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Transport {
    #[default]
    WebSocket,
    Quic,
}

/// One step.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    /// Applies one object or a list of them.
    Apply(Value),
    /// Applies the objects of a file, whose path is relative to the scenario's.
    ApplyFile(PathBuf),
    /// Plays the edge of a recording.
    Replay(Replayed),
    /// Deletes an object.
    Delete(Target),
    /// Sets the conditions of links from now on.
    Faults(LinkFaults),
    /// Cuts a node's link.
    Cut(String),
    /// Leaves a node's link open, but lets nothing through.
    HalfOpen(String),
    /// Removes the faults of a node's link.
    Restore(String),
    /// Makes the servers for nodes present this certificate.
    Certificate(Certificate),
    /// Sends a node a malformed message.
    #[serde(alias = "hostile")]
    SendMalformed(Malformed),
    /// Ends a node's agent at once, as a power cut does.
    Kill(String),
    /// Stops a node's agent, or the cloud, as a signal does.
    Stop(String),
    /// Starts a node's agent, or the cloud.
    Start(String),
    /// Reports values of a device, as its mapper does.
    Report(Report),
    /// Waits for a time.
    Pause(Period),
    /// Waits until this time after the beginning of the first step.
    At(Period),
    /// Runs steps several times.
    Repeat(Repeat),
    /// Remembers which containers run on a node.
    Remember(String),
    /// Waits until something holds.
    Expect(Expect),
}

/// Values of a device's properties, as its mapper reports them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Report {
    pub(super) device: String,
    #[serde(default = "default_namespace")]
    pub(super) namespace: String,
    pub(super) values: BTreeMap<String, Values>,
}

impl Report {
    /// Returns the identifier of the device.
    ///
    /// # Errors
    /// No device has such a namespace and name.
    pub(super) fn id(&self) -> Result<DeviceId, String> {
        let (namespace, device) = (&self.namespace, &self.device);
        DeviceId::new(namespace, device)
            .ok_or_else(|| format!("{namespace}/{device} is not a valid device"))
    }
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// The values of a property; each report has one of them at random.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Values(Vec<String>);

impl Values {
    /// Returns one of the values.
    pub(super) fn draw(&self) -> String {
        let one = clock::rng().random_range(0..self.0.len());
        self.0[one].clone()
    }
}

impl TryFrom<Value> for Values {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let all = match value {
            Value::Array(all) => all,
            one => vec![one],
        };
        let text = |value| match value {
            Value::String(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        let texts: Option<Vec<_>> = all.into_iter().map(text).collect();
        let texts = texts.filter(|texts| !texts.is_empty()).map(Self);
        texts.ok_or_else(|| {
            "a value of a device is a text, a number, true, false, or a list of these".to_owned()
        })
    }
}

/// Steps that run several times. Each time begins one interval after the beginning of the one before it, or when that has ended.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Repeat {
    pub(super) every: Period,
    pub(super) times: u32,
    pub(super) steps: Vec<Step>,
}

/// The conditions of links, and the nodes that have them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LinkFaults {
    /// A node, or `all`.
    pub(super) node: String,
    pub(super) conditions: Conditions,
}

/// A recording whose edge is played. Its path is relative to the scenario's.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a file, or {file: FILE, allowDifferences: true}"
)]
pub(super) enum Replayed {
    /// The cloud must respond as in the recording.
    Strict(PathBuf),
    /// With options.
    #[serde(rename_all = "camelCase")]
    WithOptions {
        file: PathBuf,
        allow_differences: bool,
    },
}

impl Replayed {
    /// Returns the file, and whether the cloud may respond differently.
    pub(super) fn parts(&self) -> (&PathBuf, bool) {
        match self {
            Self::Strict(file) => (file, false),
            Self::WithOptions {
                file,
                allow_differences,
            } => (file, *allow_differences),
        }
    }
}

/// A malformed message for a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Malformed {
    pub(super) node: String,
    #[serde(alias = "shape")]
    pub(super) message: Shape,
}

/// An object by its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Target {
    #[serde(default = "core")]
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

fn core() -> String {
    "v1".to_owned()
}

/// What must hold for an object or for a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Expect {
    /// The object.
    #[serde(default)]
    pub(super) object: Option<Target>,
    /// The fields and their expected values.
    #[serde(default)]
    pub(super) has: BTreeMap<Path, Value>,
    /// The object does not exist.
    #[serde(default)]
    pub(super) gone: bool,
    /// The node.
    #[serde(default)]
    pub(super) node: Option<String>,
    /// Whether the node's agent is connected.
    #[serde(default)]
    pub(super) connected: Option<bool>,
    /// Whether the cloud considers the node ready.
    #[serde(default)]
    pub(super) ready: Option<bool>,
    /// Every remembered container still runs and is the same one.
    #[serde(default)]
    pub(super) same_containers: bool,
    /// The time within which it must hold.
    #[serde(default = "patience")]
    pub(super) within: Period,
    /// How long it must hold from then on.
    #[serde(default, rename = "for")]
    pub(super) lasting: Period,
}

fn patience() -> Period {
    Period::seconds(30)
}

impl Scenario {
    /// Returns the settings of the cloud.
    pub(super) fn cloud(&self) -> CloudSpec {
        self.cloud
            .as_ref()
            .map(|cloud| cloud.value.clone())
            .unwrap_or_default()
    }

    /// Returns the nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().map(|node| &node.value)
    }

    /// Reports whether a node connects by QUIC.
    pub fn uses_quic(&self) -> bool {
        self.nodes().any(|node| node.transport == Transport::Quic)
    }

    /// Returns the seed of all random decisions.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// Takes another seed.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = Some(seed);
    }

    /// Records what is exchanged with nodes.
    pub fn set_recorder(&mut self, recorder: Recorder) {
        self.recorder = recorder;
    }

    /// Reads a scenario.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of its lines.
    pub fn read(text: &str) -> Result<Self, Vec<Faulty>> {
        let (scenario, mut faults) = parse_all::<Self>(text);
        // The steps after an invalid node would all name an unknown one.
        if let Some(scenario) = &scenario {
            faults.extend(scenario.check(&faults));
        }
        faults.sort_by_key(|fault| fault.line);
        faults.dedup();
        match scenario {
            Some(scenario) if faults.is_empty() => Ok(scenario),
            _ => Err(faults),
        }
    }

    /// Returns the recordings that are replayed, each with the line of its step. Their paths are relative to the scenario's.
    pub fn recordings(&self) -> impl Iterator<Item = (u64, &PathBuf)> {
        self.steps.iter().filter_map(|step| match &step.value {
            Step::Replay(replayed) => Some((step.referenced.line(), replayed.parts().0)),
            _ => None,
        })
    }

    /// Checks what the format does not express. The lines of `known` faults are placeholders.
    fn check(&self, known: &[Faulty]) -> Vec<Faulty> {
        let mut faults = Vec::new();
        let mut add = |line, what| faults.push(Faulty { line, what });
        if self.steps.is_empty() {
            let what = "the scenario has no steps; add some below `steps:`";
            add(0, what.to_owned());
        }
        if let Some(cloud) = &self.cloud
            && !(1..=16).contains(&cloud.value.hubs)
        {
            let what = format!("a cloud has 1 to 16 hubs, not {}", cloud.value.hubs);
            add(cloud.referenced.line(), what);
        }
        for (place, node) in self.nodes.iter().enumerate() {
            let (name, line) = (&node.value.name, node.referenced.line());
            if ["all", CLOUD].contains(&name.as_str()) {
                let what = format!("a node cannot be named {name}: steps use this word");
                add(line, what);
            } else if !is_node_name(name) {
                let what = format!(
                    "{name:?} is not a valid node name; use lower-case letters, digits and -"
                );
                add(line, what);
            }
            if self.nodes().take(place).any(|other| other.name == *name) {
                let what = format!("two nodes are named {name}; rename one of them");
                add(line, what);
            }
        }
        let line = |first: Option<u64>| first.unwrap_or_default();
        let nodes = line(self.nodes.first().map(|node| node.referenced.line()));
        let steps = line(self.steps.first().map(|step| step.referenced.line()));
        if known
            .iter()
            .any(|fault| (nodes..steps).contains(&fault.line))
        {
            return faults;
        }
        let names: Vec<&str> = self.nodes().map(|node| node.name.as_str()).collect();
        // those of a dump are not known yet
        let known = self.from.is_none().then_some(names.as_slice());
        for step in &self.steps {
            if let Err(what) = step.value.check(known) {
                add(step.referenced.line(), what);
            }
        }
        faults
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
