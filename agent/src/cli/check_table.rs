//! The table of all checks of `edge-agent join` and `edge-agent check`.

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};

/// The id of a check. Singular and plural are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum CheckName {
    /// The user may run an agent
    Root,
    /// No files of an earlier node
    Clean,
    /// The configuration is valid and has no unknown settings
    Config,
    /// Only the owner can read keys, tokens and passwords
    #[value(alias = "file")]
    Files,
    /// No kubelet, EdgeCore or second agent runs
    #[value(alias = "process")]
    Processes,
    /// The agent runs
    Agent,
    /// The container runtime responds and supports CRI v1
    #[value(alias = "runtimes")]
    Runtime,
    /// The kernel has the required control groups, and runtime and agent use the same driver
    #[value(alias = "cgroup")]
    Cgroups,
    /// The kernel has the features that pods need
    Kernel,
    /// The CNI configuration is valid and its plugins are installed
    Cni,
    /// Memory, disk space and process IDs are above the eviction thresholds
    Pressure,
    /// The directories of state, images and logs have free space and inodes
    #[value(alias = "disks")]
    Disk,
    /// The disk of the database writes fast enough
    DiskSpeed,
    /// The database is intact and writable
    #[value(alias = "db")]
    Database,
    /// The MQTT broker responds
    #[value(alias = "broker")]
    Mqtt,
    /// The cloud's stream server responds
    #[value(alias = "stream")]
    Streams,
    /// The agent's ports are free, or used by the agent
    #[value(alias = "port")]
    Ports,
    /// The node's name is valid
    Name,
    /// The node's certificate is valid and matches key, CA and node name
    #[value(alias = "certificates")]
    Certificate,
    /// The proxy settings are valid and the same as the agent's
    Proxy,
    /// The cloud's host name has an address
    Dns,
    /// The cloud's HTTPS server responds, and accepts the join token
    Cloud,
    /// The clock agrees with the cloud's
    Clock,
    /// CloudHub responds over WebSocket
    #[value(alias = "cloudhub")]
    Hub,
    /// CloudHub responds over QUIC
    Quic,
    /// The agent is connected to the cloud
    Contact,
    /// No pod waits
    #[value(alias = "pod")]
    Pods,
    /// The mappers of all devices are registered and listen
    #[value(alias = "mapper")]
    Mappers,
    /// All checks
    All,
}

/// When a check can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In `edge-agent join`.
    Join,
    /// In `edge-agent check` on a machine without a configuration.
    Machine,
    /// In `edge-agent check` on a node.
    Node,
}

/// A row of the table of checks.
#[derive(Clone, Copy, Debug)]
pub struct CheckEntry {
    /// The check.
    pub name: CheckName,
    /// When it can run.
    pub stages: &'static [Stage],
    /// The checks without which its result would say nothing.
    pub needs: &'static [CheckName],
}

/// The stages of a check of the machine.
const ALWAYS: &[Stage] = &[Stage::Join, Stage::Machine, Stage::Node];
/// The stages of a check of the cloud.
const WITH_CLOUD: &[Stage] = &[Stage::Join, Stage::Node];
/// The stages of a check that `join` does not run.
const LATER: &[Stage] = &[Stage::Machine, Stage::Node];
/// The stage of a check of a node.
const NODE: &[Stage] = &[Stage::Node];
/// The need of most checks.
const CONFIG: &[CheckName] = &[CheckName::Config];

/// All checks, in the order of the report.
pub const CHECKS: [CheckEntry; 28] = [
    row(CheckName::Root, ALWAYS, &[]),
    row(CheckName::Clean, &[Stage::Join, Stage::Machine], &[]),
    row(CheckName::Config, LATER, &[]),
    row(CheckName::Files, NODE, CONFIG),
    row(CheckName::Processes, ALWAYS, &[]),
    row(CheckName::Agent, NODE, CONFIG),
    row(CheckName::Runtime, ALWAYS, CONFIG),
    row(CheckName::Cgroups, ALWAYS, CONFIG),
    row(CheckName::Kernel, LATER, &[]),
    row(CheckName::Cni, LATER, &[CheckName::Runtime]),
    row(CheckName::Pressure, ALWAYS, CONFIG),
    row(CheckName::Disk, LATER, CONFIG),
    row(CheckName::DiskSpeed, NODE, &[CheckName::Disk]),
    row(CheckName::Database, NODE, CONFIG),
    row(CheckName::Mqtt, ALWAYS, CONFIG),
    row(CheckName::Streams, WITH_CLOUD, &[CheckName::Dns]),
    row(CheckName::Ports, ALWAYS, CONFIG),
    row(CheckName::Name, ALWAYS, CONFIG),
    row(CheckName::Certificate, NODE, CONFIG),
    row(CheckName::Proxy, NODE, CONFIG),
    row(CheckName::Dns, NODE, &[CheckName::Proxy]),
    row(CheckName::Cloud, WITH_CLOUD, &[CheckName::Dns]),
    row(CheckName::Clock, WITH_CLOUD, &[CheckName::Dns]),
    row(CheckName::Hub, WITH_CLOUD, &[CheckName::Dns]),
    row(CheckName::Quic, NODE, &[CheckName::Dns]),
    row(CheckName::Contact, NODE, &[CheckName::Agent]),
    row(CheckName::Pods, NODE, &[CheckName::Agent]),
    row(CheckName::Mappers, NODE, &[CheckName::Agent]),
];

const fn row(name: CheckName, stages: &'static [Stage], needs: &'static [CheckName]) -> CheckEntry {
    CheckEntry {
        name,
        stages,
        needs,
    }
}

impl CheckName {
    /// Returns the name on the command line and in the report.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the title, one line.
    pub fn title(self) -> String {
        let value = self.to_possible_value();
        let help = value.as_ref().and_then(|value| value.get_help());
        help.map(ToString::to_string).unwrap_or_default()
    }
}

/// Returns the checks of a stage, in the order of the report.
pub fn checks_of(stage: Stage) -> Vec<CheckEntry> {
    let has = |entry: &CheckEntry| entry.stages.contains(&stage);
    CHECKS.into_iter().filter(has).collect()
}

/// Returns a parser of all checks.
pub(super) fn any_check() -> impl TypedValueParser<Value = CheckName> {
    parser(CHECKS.iter().map(|entry| entry.name))
}

/// Returns a parser of the checks of `edge-agent join`.
pub(super) fn join_checks() -> impl TypedValueParser<Value = CheckName> {
    let all = checks_of(Stage::Join).into_iter().map(|entry| entry.name);
    parser(all.chain([CheckName::All]))
}

/// Returns a parser of the names of these checks. An unknown name is answered with the nearest one.
fn parser(names: impl Iterator<Item = CheckName>) -> impl TypedValueParser<Value = CheckName> {
    let values: Vec<_> = names.filter_map(|name| name.to_possible_value()).collect();
    PossibleValuesParser::new(values).try_map(|name| CheckName::from_str(&name, false))
}
