//! The options for properties of simulated nodes, named and written as the kubelet's.

use std::{collections::BTreeMap, fmt};

use agent::cli::{check_label_key, check_label_value, label, values};
use anyhow::bail;
use clap::Args;
use edged::Capacity;
use serde_json::{Value, json};

use super::headings;

/// Properties that all simulated nodes of a process have.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeProperties {
    /// Cores of each simulated node [default: those of this machine]
    #[arg(long, value_name = "COUNT", value_parser = values::number::<u16>(1..), help_heading = headings::NODES)]
    pub node_cpu: Option<u16>,

    /// Memory of each simulated node, for example 8Gi [default: that of this machine]
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, help_heading = headings::NODES)]
    pub node_memory: Option<u64>,

    /// Labels of each simulated node, separated by commas. Repeatable
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label, help_heading = headings::NODES)]
    pub node_labels: Vec<(String, String)>,

    /// Taints of each simulated node at registration, separated by commas. Repeatable
    #[arg(long, value_name = "KEY[=VALUE]:EFFECT", value_delimiter = ',', value_parser = taint, help_heading = headings::NODES)]
    pub node_taints: Vec<NodeTaint>,
}

/// The least memory of a node, in bytes: with less, no pod fits beside what a node needs itself.
const MIN_MEMORY: u64 = 128 << 20;

/// The label with the name of a node, which tells nodes apart.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    key: String,
    value: String,
    effect: String,
}

impl NodeTaint {
    /// Returns the taint of edge nodes.
    pub fn edge() -> Self {
        Self {
            key: "node-role.kubernetes.io/edge".to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        }
    }
}

impl fmt::Display for NodeTaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        match value.as_str() {
            "" => write!(f, "{key}:{effect}"),
            value => write!(f, "{key}={value}:{effect}"),
        }
    }
}

impl NodeProperties {
    /// Checks that there are nodes that have these properties, and that no property contradicts another.
    ///
    /// # Errors
    /// An option would have no effect.
    pub fn check(&self, nodes: usize) -> anyhow::Result<()> {
        self.check_values()?;
        if nodes > 0 || *self == Self::default() {
            return Ok(());
        }
        bail!(
            "--node-cpu, --node-memory, --node-labels and --node-taints are for simulated nodes; add --nodes COUNT"
        );
    }

    /// Checks that pods can run on a node, and that no label or taint is given twice: one of two values would be ignored, and the API
    /// refuses such a node.
    fn check_values(&self) -> anyhow::Result<()> {
        if let Some(bytes) = self.node_memory.filter(|bytes| *bytes < MIN_MEMORY) {
            bail!(
                "--node-memory is {bytes} bytes; a node has at least 128Mi, of which pods get what it does not reserve"
            );
        }
        if self.node_labels.iter().any(|(key, _)| key == HOSTNAME) {
            bail!(
                "--node-labels has {HOSTNAME}, which is the name of each node and cannot be the same for all"
            );
        }
        let mut labels = BTreeMap::new();
        for (key, value) in &self.node_labels {
            match labels.insert(key, value) {
                Some(other) if other != value => {
                    bail!("--node-labels has {key}={other} and {key}={value}; give one value")
                }
                _ => {}
            }
        }
        let mut taints = BTreeMap::new();
        for taint in &self.node_taints {
            let (key, effect) = (&taint.key, &taint.effect);
            match taints.insert((key, effect), taint) {
                Some(other) if other != taint => bail!(
                    "--node-taints has {other} and {taint}; a node has one taint of {key} with the effect {effect}"
                ),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the cores and the memory.
    pub fn capacity(&self) -> Capacity {
        Capacity {
            cpus: self.node_cpu.map(i64::from),
            memory: self.node_memory.and_then(|bytes| i64::try_from(bytes).ok()),
        }
    }

    /// Returns the labels and taints as settings of `modules.edged`; null if there are none.
    pub fn settings(&self) -> Value {
        let mut settings = json!({});
        if !self.node_labels.is_empty() {
            let labels = self.node_labels.iter().cloned();
            settings["nodeLabels"] = labels
                .map(|(key, value)| (key, Value::from(value)))
                .collect();
        }
        if !self.node_taints.is_empty() {
            let taint = |taint: &NodeTaint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
            let mut taints: Vec<Value> = Vec::new();
            for taint in self.node_taints.iter().map(taint) {
                // The API refuses a repeated taint.
                if !taints.contains(&taint) {
                    taints.push(taint);
                }
            }
            settings["tailoredKubeletConfig"] = json!({"registerWithTaints": taints});
        }
        if settings == json!({}) {
            Value::Null
        } else {
            settings
        }
    }
}

fn taint(text: &str) -> Result<NodeTaint, String> {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let (key, effect) = text
        .rsplit_once(':')
        .ok_or("expected KEY=VALUE:EFFECT, for example dedicated=camera:NoSchedule")?;
    if !EFFECTS.contains(&effect) {
        return Err(format!(
            "expected one of the effects {}",
            EFFECTS.join(", ")
        ));
    }
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    check_label_key(key)?;
    check_label_value(value)?;
    Ok(NodeTaint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn up(options: &[&str]) -> Result<NodeProperties, String> {
        let words = ["cloudsim", "up"].iter().chain(options);
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Up(up)) => Ok(up.properties),
            Ok(_) => unreachable!(),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_become_capacity_and_settings_of_nodes() {
        let all = up(&[
            "--node-cpu=64",
            "--node-memory=256Gi",
            "--node-labels=zone=north,example.com/rack=",
            "--node-taints=dedicated=camera:NoSchedule,slow:NoExecute",
        ])
        .unwrap();
        assert_eq!(
            all.capacity(),
            Capacity {
                cpus: Some(64),
                memory: Some(256 << 30)
            }
        );
        assert_eq!(
            all.settings(),
            json!({
                "nodeLabels": {"zone": "north", "example.com/rack": ""},
                "tailoredKubeletConfig": {"registerWithTaints": [
                    {"key": "dedicated", "value": "camera", "effect": "NoSchedule"},
                    {"key": "slow", "value": "", "effect": "NoExecute"}]},
            })
        );
        assert!(all.check(1).is_ok());
        let refused = all.check(0).unwrap_err().to_string();
        assert!(refused.contains("--nodes"), "{refused}");
        let none = up(&[]).unwrap();
        assert!(none.check(0).is_ok());
        assert_eq!(none.settings(), Value::Null);
    }

    #[test]
    fn repeated_labels_and_taints_are_one_or_are_refused() {
        let taints = |properties: &NodeProperties| {
            properties.settings()["tailoredKubeletConfig"]["registerWithTaints"]
                .as_array()
                .map_or(0, Vec::len)
        };
        for (options, count) in [
            (&["--node-taints=a=b:NoSchedule,a=b:NoExecute"][..], 2),
            (&["--node-taints=a=b:NoSchedule,a=b:NoSchedule"], 1),
            (
                &["--node-taints=a:NoSchedule", "--node-taints=b:NoSchedule"],
                2,
            ),
            (&["--node-labels=a=b,a=b,b=a"], 0),
        ] {
            let properties = up(options).unwrap();
            assert!(properties.check(1).is_ok(), "{options:?}");
            assert_eq!(taints(&properties), count, "{options:?}");
        }
        for (options, why) in [
            (
                &["--node-taints=a=b:NoSchedule,a=c:NoSchedule"][..],
                "a=b:NoSchedule and a=c:NoSchedule",
            ),
            (
                &["--node-taints=a:NoExecute", "--node-taints=a=c:NoExecute"],
                "a:NoExecute and a=c:NoExecute",
            ),
            (&["--node-memory=1"], "at least 128Mi"),
            (&["--node-memory=127Mi"], "at least 128Mi"),
            (
                &["--node-labels=kubernetes.io/hostname=a"],
                "name of each node",
            ),
            (&["--node-labels=a=b,a=c"], "a=b and a=c"),
            (&["--node-labels=a=b", "--node-labels=a="], "a=b and a="),
        ] {
            let refused = up(options).unwrap().check(1).unwrap_err().to_string();
            assert!(refused.contains(why), "{options:?}: {refused}");
        }
    }

    #[test]
    fn wrong_properties_are_refused_with_an_example() {
        for (option, cure) in [
            ("--node-cpu=0", "at least 1"),
            ("--node-memory=8GB", "8Gi"),
            ("--node-memory=-1Gi", "8Gi"),
            ("--node-memory=9000000Ti", "8Gi"),
            ("--node-labels=zone", "zone=north"),
            ("--node-labels=a b=c", "not a valid key"),
            ("--node-labels=a/b/c=d", "not a valid key"),
            ("--node-labels=a=-", "not a valid value"),
            ("--node-taints=a=b", "NoSchedule"),
            ("--node-taints=a=b:Never", "PreferNoSchedule"),
            ("--node-taints=:NoSchedule", "not a valid key"),
        ] {
            let refused = up(&[option]).unwrap_err();
            assert!(refused.contains(cure), "{option}: {refused}");
        }
    }
}
