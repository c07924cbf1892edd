//! The options for properties of simulated nodes, named and written as the kubelet's.

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

impl NodeProperties {
    /// Checks that there are nodes that have these properties.
    ///
    /// # Errors
    /// An option would have no effect.
    pub fn check(&self, nodes: usize) -> anyhow::Result<()> {
        if nodes > 0 || *self == Self::default() {
            return Ok(());
        }
        bail!(
            "--node-cpu, --node-memory, --node-labels and --node-taints are for simulated nodes; add --nodes COUNT"
        );
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
            settings["tailoredKubeletConfig"] = json!({"registerWithTaints": self.node_taints.iter().map(taint).collect::<Vec<_>>()});
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
