//! The file of a scenario: what may stand in it, and what is wrong with one. Pure.

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
    /// What it is called in outcomes.
    pub name: String,
    /// What it shows, for people.
    #[serde(default)]
    pub about: Option<String>,
    /// What chance is drawn from.
    #[serde(default)]
    pub(super) seed: Option<u64>,
    /// What the cloud is like.
    #[serde(default)]
    cloud: Option<Spanned<CloudSpec>>,
    /// The nodes.
    #[serde(default)]
    nodes: Vec<Spanned<NodeSpec>>,
    /// What happens, in this order.
    pub(super) steps: Vec<Spanned<Step>>,
}

/// What the cloud is like.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct CloudSpec {
    /// Replicas of its hub.
    pub(super) hubs: usize,
    /// How long a node may give no sign of life.
    pub(super) node_grace: Period,
    /// How long an acknowledgement is waited for.
    pub(super) acknowledgement: Period,
}

impl Default for CloudSpec {
    fn default() -> Self {
        Self { hubs: 1, node_grace: Period::seconds(40), acknowledgement: Period::seconds(5) }
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

/// By what a node connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Transport {
    #[default]
    WebSocket,
    Quic,
}

/// What happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    /// One object or a list of them is applied.
    Apply(Value),
    /// The objects of a file are applied; its place is relative to the scenario's.
    ApplyFile(PathBuf),
    /// An object is deleted.
    Delete(Target),
    /// Links are like this from now on.
    Faults(LinkFaults),
    /// A node's link is cut.
    Cut(String),
    /// A node's link stands, and nothing comes through.
    HalfOpen(String),
    /// A node's link is as without faults.
    Restore(String),
    /// The servers for nodes show this certificate.
    Certificate(Certificate),
    /// A node is sent a message that no cloud should send.
    Hostile(Hostile),
    /// A node's agent ends where it stands, as in a power cut.
    Kill(String),
    /// A node's agent ends as by a signal.
    Stop(String),
    /// A node's agent starts.
    Start(String),
    /// Nothing happens for a time.
    Pause(Period),
    /// Which containers run on a node is remembered.
    Remember(String),
    /// Something must hold.
    Expect(Expect),
}

/// Whose links are like what.
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

/// What must hold, of an object or of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Expect {
    /// Of this object.
    #[serde(default)]
    pub(super) object: Option<Target>,
    /// These fields have these values.
    #[serde(default)]
    pub(super) has: BTreeMap<Path, Value>,
    /// It is not there.
    #[serde(default)]
    pub(super) gone: bool,
    /// Of this node.
    #[serde(default)]
    pub(super) node: Option<String>,
    /// Whether its agent has a connection.
    #[serde(default)]
    pub(super) connected: Option<bool>,
    /// Whether the cloud takes it for ready.
    #[serde(default)]
    pub(super) ready: Option<bool>,
    /// Every container that was remembered still runs, and is the same one.
    #[serde(default)]
    pub(super) same_containers: bool,
    /// By when it must hold.
    #[serde(default = "patience")]
    pub(super) within: Period,
    /// And for how long from then on.
    #[serde(default, rename = "for")]
    pub(super) lasting: Period,
}

fn patience() -> Period {
    Period::seconds(30)
}

/// A file that is no scenario: where, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", place(*line))]
pub struct Faulty {
    /// The line, from 1 on; 0 where it concerns the whole file.
    pub line: u64,
    /// What is wrong, and the cure.
    pub what: String,
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

impl Scenario {
    /// What the cloud is like.
    pub(super) fn cloud(&self) -> CloudSpec {
        self.cloud.as_ref().map(|cloud| cloud.value.clone()).unwrap_or_default()
    }

    /// The nodes.
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
            let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
            Faulty {
                line,
                what: format!("{}; docs/scenarios.md lists what may stand here", limits::excerpt(said)),
            }
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), Faulty> {
        if self.steps.is_empty() {
            let what = "a scenario without steps shows nothing; add some below `steps:`".to_owned();
            return Err(Faulty { line: 0, what });
        }
        if let Some(cloud) = &self.cloud
            && !(1..=16).contains(&cloud.value.hubs)
        {
            let what = format!("a cloud has 1 to 16 hubs, not {}", cloud.value.hubs);
            return Err(Faulty { line: cloud.referenced.line(), what });
        }
        for (place, node) in self.nodes.iter().enumerate() {
            let (name, line) = (&node.value.name, node.referenced.line());
            if !is_node_name(name) || name == "all" {
                let what = format!("{name:?} is no name for a node; use small letters, digits and -");
                return Err(Faulty { line, what });
            }
            if self.nodes().take(place).any(|other| other.name == *name) {
                let what = format!("two nodes are called {name}; give each a name of its own");
                return Err(Faulty { line, what });
            }
        }
        let names: Vec<&str> = self.nodes().map(|node| node.name.as_str()).collect();
        for step in &self.steps {
            let checked = step.value.check(&names);
            checked.map_err(|what| Faulty { line: step.referenced.line(), what })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
