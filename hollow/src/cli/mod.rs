//! The command line of `cloudsim`.

use std::{ffi::OsString, path::PathBuf, sync::LazyLock};

use agent::{
    cli::{GLOBAL_OPTIONS, HelpArgs, exit, subdomain, values},
    log::LogFormat,
};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use cloudsim::faults::Period;

pub use agent::cli::{LogArgs, Output, OutputArgs};

pub use self::{
    access::Access,
    bundle::Bundle,
    cluster::ClusterArgs,
    conformance::{CaseProfile, Conformance, SessionTransport},
    db::{DbCommand, DbPlace},
    devices::DeviceCommand,
    faults::{Bad, FaultsCommand},
    hollow::{Hollow, JoinArgs, Selftest},
    list::{ListArgs, ListFormat},
    node::NodeCommand,
    properties::{NodeProperties, NodeTaint},
    record::Record,
    replay::{PlayedSide, Replay, Speed},
    rules::RulesCommand,
    show::{Diff, DiffFormat, Show, ShowFormat},
    snapshot::Snapshot,
    up::{Links, Port, Up},
    why::ExplainedObject,
};

mod access;
mod bundle;
mod cluster;
mod conformance;
mod db;
mod devices;
mod examples;
mod faults;
mod headings;
mod hollow;
mod host;
mod list;
mod node;
mod properties;
mod record;
mod replay;
mod rules;
mod show;
mod snapshot;
mod tips;
mod up;
mod why;

use self::examples::{
    BUNDLE_NOTES, CONFORMANCE_NOTES, EXAMPLES, RECORD_NOTES, REPLAY_NOTES, SELFTEST_NOTES,
};

/// What `--version` prints; `-V` prints only its first line.
static VERSION: LazyLock<String> =
    LazyLock::new(|| wire::version::text(env!("CARGO_PKG_VERSION"), cloudsim::KUBERNETES_VERSION));

/// A KubeEdge-compatible cloud in one process, with a Kubernetes API
#[derive(Clone, Debug, Parser)]
#[command(name = "cloudsim", version, long_version = VERSION.as_str(), after_help = EXAMPLES)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    /// Log levels, as warn,wire=debug [default: warn]
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "CLOUDSIM_LOG",
        hide_env = true,
        help_heading = GLOBAL_OPTIONS
    )]
    pub log_filter: Option<String>,

    /// Log format, text or json
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        env = "CLOUDSIM_LOG_FORMAT",
        hide_env = true,
        help_heading = GLOBAL_OPTIONS
    )]
    pub log_format: LogFormat,

    /// Help and version
    #[command(flatten)]
    pub help: HelpArgs,

    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the arguments of this process; exits if they are invalid, or help or the version was requested.
    pub fn parse_or_exit() -> Self {
        Self::try_parse(std::env::args_os().collect()).unwrap_or_else(|error| exit(&error))
    }

    /// Parses a command line; also accepts what users of kubectl type, such as `get nodes`.
    ///
    /// # Errors
    /// The command line is invalid.
    pub fn try_parse(args: Vec<OsString>) -> Result<Self, clap::Error> {
        tips::parse(args)
    }

    /// Returns the text of `--version`.
    pub fn version() -> String {
        format!("cloudsim {}", *VERSION)
    }

    /// Returns the log filter: the one that was given, or else the command's default. `kube_client` logs only if the filter names it.
    pub fn log_filter(&self) -> String {
        // `kube_client` logs each failed request before its caller does, and cannot know whether it matters.
        let quiet = matches!(self.command, Command::Demo { .. } | Command::Run(_));
        match self.log_filter.as_deref() {
            Some(given) if given.contains("kube_client") => given.to_owned(),
            Some(given) => format!("{given},kube_client=off"),
            None if quiet => "off".to_owned(),
            None => "warn,kube_client=off".to_owned(),
        }
    }
}

/// What to do.
// there is one value in a process
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a cloud until Ctrl-C, or in the background
    #[command(alias = "start")]
    Up(Up),
    /// List the clouds that run on this machine, with their nodes
    #[command(aliases = ["ps", "clouds", "clusters"], after_help = "Exit code: 1 if no cloud runs.")]
    Status {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Format and watch
        #[command(flatten)]
        list: ListArgs,
    },
    /// Stop a cloud that runs on this machine
    #[command(alias = "stop")]
    Down {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Stop all clouds of this user
        #[arg(long)]
        all: bool,
    },
    /// Write the state of a cloud and its simulated nodes to a file, for `cloudsim up --from`
    #[command(
        after_help = "The file contains Secrets and private keys. Only its owner can read it."
    )]
    Snapshot(Snapshot),
    /// Print a kubeconfig for one cloud, with its credentials
    Kubeconfig {
        /// The cloud
        #[command(flatten)]
        access: Access,
    },
    /// Print a login link to the live page
    #[command(alias = "page")]
    Ui {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check or repair the data directory, or create a key
    #[command(subcommand, alias = "database")]
    Db(DbCommand),
    /// Record what nodes and a cloud send to each other, as a proxy between them
    #[command(after_help = RECORD_NOTES)]
    Record(Record),
    /// Show a recording of the connections with nodes
    #[command(after_help = "Exit code: 1 if a part of the recording cannot be read.")]
    Show(Show),
    /// Compare two recordings by meaning
    #[command(
        after_help = "Exit code: 0 no difference, 1 differences, 2 a recording cannot be used."
    )]
    Diff(Diff),
    /// Play one side of a recording against a real cloud or edge
    #[command(after_help = REPLAY_NOTES)]
    Replay(Replay),
    /// Print the join token, or create one limited by node, lifetime or uses
    #[command(aliases = ["tokens", "gettoken"])]
    Token {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
        /// Limits of a new token
        #[command(flatten)]
        scope: TokenScope,
    },
    /// List devices with desired and reported values, or set desired values
    #[command(visible_alias = "device")]
    Devices {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Format and watch
        #[command(flatten)]
        list: ListArgs,
        /// What else to do
        #[command(subcommand)]
        command: Option<DeviceCommand>,
    },
    /// List nodes with their connections, or free the name of a node
    #[command(visible_alias = "node")]
    Nodes {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Format and watch
        #[command(flatten)]
        list: ListArgs,
        /// What else to do
        #[command(subcommand)]
        command: Option<NodeCommand>,
    },
    /// List rules with message counts and last error, or send a message through one
    #[command(visible_alias = "rule")]
    Rules {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Format and watch
        #[command(flatten)]
        list: ListArgs,
        /// What else to do
        #[command(subcommand)]
        command: Option<RulesCommand>,
    },
    /// List Services, their endpoints by node, and connections between nodes
    Mesh {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Format and watch
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show the steps of an object from the API to its node, and the first one that is missing
    #[command(after_help = "Exit code: 1 if a step is missing.")]
    Why {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// The object: pod/NAME, node/NAME or device/NAME
        #[arg(value_name = "KIND/NAME")]
        object: String,
        /// The name, if it is not given with the kind
        #[arg(value_name = "NAME", hide = true)]
        name: Option<String>,
        /// Namespace of a pod or device [default: that of the context, or `default`]
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Write an archive for a bug report, without secrets
    #[command(after_help = BUNDLE_NOTES)]
    Bundle(Bundle),
    /// List network, certificate and message faults, or inject them
    #[command(visible_alias = "fault")]
    Faults {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Output format: json, yaml, wide or name [default: a table]
        #[arg(
            short,
            long,
            global = true,
            value_name = "FORMAT",
            value_enum,
            hide_possible_values = true,
            display_order = 90
        )]
        output: Option<ListFormat>,
        /// Fault to inject or restore [default: list]
        #[command(subcommand)]
        command: Option<FaultsCommand>,
    },
    /// Run scenarios from files
    #[command(after_help = "Exit code: 0 passed, 1 failed, 2 invalid scenario file.")]
    Run(Run),
    /// Run a simulated container runtime (CRI v1) on a Unix socket until Ctrl-C
    Runtime {
        /// Path of the CRI socket; connections to pods use PATH.pods
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
        /// Directory for pods and containers, which then survive a restart [default: none]
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Run a demo: a cloud, a node, a pod and a device
    Demo {
        /// Exit once every step has succeeded (code 0) or one has failed (code 1)
        #[arg(long)]
        once: bool,
        /// Directory of manifests to apply [default: built-in ones, a pod and a thermometer]
        #[arg(long, value_name = "DIR")]
        manifests: Option<PathBuf>,
        /// Kubeconfig for the demo's context `cloudsim`, until the demo ends [default: a temporary file]
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
    /// Run simulated nodes that join a cloud elsewhere, until Ctrl-C
    Hollow(Hollow),
    /// Test a cloud in cluster mode with a node, a pod and a device
    #[command(alias = "self-test", after_help = SELFTEST_NOTES)]
    Selftest(Selftest),
    /// Test whether a cloud or an edge speaks KubeEdge's protocol
    #[command(after_help = CONFORMANCE_NOTES)]
    Conformance(Conformance),
    /// Print the RBAC manifests for cluster mode
    #[command(aliases = ["role", "rbac"])]
    Roles {
        /// Include the permission to install KubeEdge CRDs
        #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, hide_possible_values = true)]
        install_crds: bool,
        /// Include the permissions for NodeGroups and EdgeApplications
        #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, hide_possible_values = true)]
        node_groups: bool,
    },
    /// Print a completion script for a shell
    #[command(alias = "completions")]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    #[command(hide = true)]
    Version,
}

/// Limits of a new join token. Without them, the cloud's current token is printed, which is valid for any new name.
#[derive(Args, Clone, Debug)]
pub struct TokenScope {
    /// Issue a token for this node only, valid for one certificate
    #[arg(long, value_name = "NAME", value_parser = subdomain)]
    pub node: Option<String>,

    /// Lifetime of a new token, for example 10m or 12h
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Period>,

    /// Number of certificates that a new token allows
    #[arg(long, value_name = "COUNT", value_parser = values::number::<u32>(1..))]
    pub uses: Option<u32>,
}

/// Scenarios.
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// Scenario files, or directories of *.yaml files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// JUnit XML report to write
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Random seed instead of the files' own
    #[arg(long, value_name = "NUMBER", value_parser = values::number::<u64>(..))]
    pub seed: Option<u64>,

    /// Run in virtual time, which jumps to the next event; the same seed gives the same run
    #[arg(long)]
    pub fast: bool,

    /// File to which the events of a run in virtual time are written
    #[arg(long, value_name = "FILE", requires = "fast")]
    pub trace: Option<PathBuf>,

    /// File to which the messages of the nodes are recorded, without secrets, for `cloudsim diff` and `show`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Number of seeds to run each scenario with, until one fails
    #[arg(long, value_name = "NUMBER", requires = "fast", default_value = "1", value_parser = values::number::<u64>(1..))]
    pub seeds: u64,

    /// Search for the faults without which a failed scenario does not fail
    #[arg(long, requires = "fast")]
    pub shrink: bool,
}

#[cfg(test)]
mod tests;
