//! The options for properties of simulated nodes, named and written as the kubelet's.

use anyhow::bail;
use clap::Args;
use edged::Capacity;
use serde_json::{Value, json};

/// Properties that all simulated nodes of a process have.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Simulated nodes")]
pub struct NodeProperties {
    /// Cores of each simulated node [default: those of this machine]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub node_cpu: Option<u16>,

    /// Memory of each simulated node, for example 8Gi [default: that of this machine]
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub node_memory: Option<i64>,

    /// Labels of each simulated node, KEY=VALUE, separated by commas. Repeatable
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
    pub node_labels: Vec<(String, String)>,

    /// Taints with which each simulated node registers, KEY[=VALUE]:EFFECT, separated by commas. Repeatable
    #[arg(long, value_name = "TAINTS", value_delimiter = ',', value_parser = taint)]
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
            memory: self.node_memory,
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

/// Parses an amount of memory: bytes, or a number with a unit of Kubernetes.
fn memory(text: &str) -> Result<i64, String> {
    const UNITS: [(&str, i64); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    let refused = || "a whole number with a unit, for example 512Mi or 8Gi".to_owned();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .ok_or_else(refused)?;
    let number: i64 = number.parse().map_err(|_| refused())?;
    let bytes = number.checked_mul(*unit).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(refused)
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write KEY=VALUE, for example zone=north")?;
    check_key(key)?;
    check_value(value)?;
    Ok((key.to_owned(), value.to_owned()))
}

fn taint(text: &str) -> Result<NodeTaint, String> {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let (key, effect) = text
        .rsplit_once(':')
        .ok_or("write KEY=VALUE:EFFECT, for example dedicated=camera:NoSchedule")?;
    if !EFFECTS.contains(&effect) {
        return Err(format!("the effect is one of {}", EFFECTS.join(", ")));
    }
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    check_key(key)?;
    check_value(value)?;
    Ok(NodeTaint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
    })
}

/// Checks the key of a label or taint: a name, or a domain and a name.
fn check_key(key: &str) -> Result<(), String> {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    if domain.is_some_and(|domain| super::cluster::subdomain(domain).is_err()) || !is_word(name) {
        return Err(format!(
            "{key:?} is no key, such as zone or example.com/zone"
        ));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_word(value) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is no value: at most 63 letters and digits, with `-`, `_` and `.` between them"
    ))
}

fn is_word(text: &str) -> bool {
    let outer = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && outer(text.bytes().next())
        && outer(text.bytes().last())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
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
            ("--node-cpu=0", "1.."),
            ("--node-memory=8GB", "8Gi"),
            ("--node-memory=-1Gi", "8Gi"),
            ("--node-memory=9000000Ti", "8Gi"),
            ("--node-labels=zone", "zone=north"),
            ("--node-labels=a b=c", "no key"),
            ("--node-labels=a/b/c=d", "no key"),
            ("--node-labels=a=-", "no value"),
            ("--node-taints=a=b", "NoSchedule"),
            ("--node-taints=a=b:Never", "PreferNoSchedule"),
            ("--node-taints=:NoSchedule", "no key"),
        ] {
            let refused = up(&[option]).unwrap_err();
            assert!(refused.contains(cure), "{option}: {refused}");
        }
    }
}
