//! The format of scenario files, and the errors in them. Pure.

use std::{collections::BTreeMap, path::PathBuf};

use cloudsim::faults::{Certificate, Conditions, Period, Shape};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use wire::enroll::is_node_name;

use super::expect::Path;

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
    pub(super) seed: Option<u64>,
    /// The settings of the cloud.
    #[serde(default)]
    cloud: Option<Spanned<CloudSpec>>,
    /// The nodes.
    #[serde(default)]
    nodes: Vec<Spanned<NodeSpec>>,
    /// The steps, in order.
    pub(super) steps: Vec<Spanned<Step>>,
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
    /// Sends a node a message that no cloud should send.
    Hostile(Hostile),
    /// Ends a node's agent at once, as a power cut does.
    Kill(String),
    /// Stops a node's agent as a signal does.
    Stop(String),
    /// Starts a node's agent.
    Start(String),
    /// Waits for a time.
    Pause(Period),
    /// Remembers which containers run on a node.
    Remember(String),
    /// Waits until something holds.
    Expect(Expect),
}

/// The conditions of links, and the nodes that have them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LinkFaults {
    /// A node, or `all`.
    pub(super) node: String,
    pub(super) conditions: Conditions,
}

/// A message for a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hostile {
    pub(super) node: String,
    pub(super) shape: Shape,
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

/// An error in a scenario file: where, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", place(*line))]
pub struct Faulty {
    /// The line, counted from 1; 0 if the error concerns the whole file.
    pub line: u64,
    /// What is wrong, and the cure.
    pub what: String,
}

fn place(line: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!("line {line}: ")
    }
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

    /// Reads a scenario.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(text: &str) -> Result<Self, Faulty> {
        let options = serde_saphyr::options! { with_snippet: false };
        let read = serde_saphyr::from_str_with_options(text, options);
        let scenario: Self = read.map_err(|error| {
            let line = error.location().map_or(0, |place| place.line());
            let said = error.without_snippet().to_string();
            let said = said
                .rsplit_once(" at line ")
                .map_or(said.as_str(), |(said, _)| said);
            Faulty {
                line,
                what: format!("{}; see docs/scenarios.md", limits::excerpt(said)),
            }
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), Faulty> {
        if self.steps.is_empty() {
            let what = "the scenario has no steps; add some below `steps:`".to_owned();
            return Err(Faulty { line: 0, what });
        }
        if let Some(cloud) = &self.cloud
            && !(1..=16).contains(&cloud.value.hubs)
        {
            let what = format!("a cloud has 1 to 16 hubs, not {}", cloud.value.hubs);
            return Err(Faulty {
                line: cloud.referenced.line(),
                what,
            });
        }
        for (place, node) in self.nodes.iter().enumerate() {
            let (name, line) = (&node.value.name, node.referenced.line());
            if !is_node_name(name) || name == "all" {
                let what = format!(
                    "{name:?} is not a valid node name; use lower-case letters, digits and -"
                );
                return Err(Faulty { line, what });
            }
            if self.nodes().take(place).any(|other| other.name == *name) {
                let what = format!("two nodes are named {name}; rename one of them");
                return Err(Faulty { line, what });
            }
        }
        let names: Vec<&str> = self.nodes().map(|node| node.name.as_str()).collect();
        for step in &self.steps {
            let checked = step.value.check(&names);
            checked.map_err(|what| Faulty {
                line: step.referenced.line(),
                what,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
