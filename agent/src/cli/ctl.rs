//! Arguments of `edge-agent ctl`.

use clap::{Args, Subcommand, ValueEnum};

use super::{InstallPaths, values};

/// A command about the objects of this node.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Ctl {
    /// List pods, the node or devices
    Get {
        /// Kind: pods, nodes or devices
        #[arg(value_enum, hide_possible_values = true)]
        kind: ObjectKind,
        /// Names of objects [default: all]
        names: Vec<String>,
        /// Label selector
        #[arg(short = 'l', long, value_name = "SELECTOR")]
        selector: Option<String>,
        /// Output format: wide, json or yaml
        #[arg(
            short,
            long,
            value_name = "FORMAT",
            value_enum,
            hide_possible_values = true
        )]
        output: Option<GetOutput>,
        /// Namespace
        #[command(flatten)]
        scope: Scope,
        /// Installation
        #[command(flatten)]
        paths: InstallPaths,
    },
    /// Show the state of an object
    Describe {
        /// Kind: pods, nodes or devices
        #[arg(value_enum, hide_possible_values = true)]
        kind: ObjectKind,
        /// Name of the object
        name: String,
        /// Namespace
        #[command(flatten)]
        scope: Scope,
        /// Installation
        #[command(flatten)]
        paths: InstallPaths,
    },
    /// Print the log of a container
    Logs(Box<Logs>),
    /// Run a command in a container; exits with its code
    Exec {
        /// Name of the pod
        pod: String,
        /// Container [default: the first]
        #[arg(short, long)]
        container: Option<String>,
        /// Streams
        #[command(flatten)]
        streams: Streams,
        /// Command and its arguments, after `--`
        #[arg(required = true, last = true)]
        command: Vec<String>,
        /// Namespace
        #[command(flatten)]
        scope: Scope,
        /// Installation
        #[command(flatten)]
        paths: InstallPaths,
    },
    /// Restart the containers of pods
    Restart {
        /// Names of pods
        #[arg(required = true)]
        pods: Vec<String>,
        /// Namespace
        #[command(flatten)]
        scope: Scope,
        /// Installation
        #[command(flatten)]
        paths: InstallPaths,
    },
    /// Confirm the upgrade of this node that waits for it
    Confirm(InstallPaths),
    /// Release pods with the annotation edge.kubeedge.io/hold-upgrade
    Unhold {
        /// Names of held pods
        #[arg(required_unless_present = "all")]
        pods: Vec<String>,
        /// Release all held pods of this node
        #[arg(long, conflicts_with = "pods")]
        all: bool,
        /// Namespace
        #[command(flatten)]
        scope: Scope,
        /// Installation
        #[command(flatten)]
        paths: InstallPaths,
    },
}

/// Which log is printed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Name of the pod
    pub pod: String,
    /// Container [default: the first]
    #[arg(short, long)]
    pub container: Option<String>,
    /// Follow the log until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// Log of the previous run of the container
    #[arg(short, long)]
    pub previous: bool,
    /// Number of lines from the end
    #[arg(long, value_name = "LINES", value_parser = values::number::<i64>(-1..))]
    pub tail: Option<i64>,
    /// Age of the oldest line, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = values::number::<i64>(1..))]
    pub since_seconds: Option<i64>,
    /// Print the time of each line
    #[arg(long)]
    pub timestamps: bool,
    /// Namespace
    #[command(flatten)]
    pub scope: Scope,
    /// Installation
    #[command(flatten)]
    pub paths: InstallPaths,
}

/// A namespace, or all of them.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Namespace
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

/// What [`Ctl::Get`] lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectKind {
    /// Pods.
    #[value(alias = "pod", alias = "po")]
    Pods,
    /// This node.
    #[value(alias = "node", alias = "no")]
    Nodes,
    /// Devices.
    #[value(alias = "device")]
    Devices,
}

/// How [`Ctl::Get`] prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GetOutput {
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What a command gets besides its output.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// Pass stdin to the command
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Run the command in a terminal
    #[arg(short = 't', long)]
    pub tty: bool,
}

impl Ctl {
    /// Returns the paths of the installation.
    pub fn paths(&self) -> &InstallPaths {
        match self {
            Self::Get { paths, .. }
            | Self::Describe { paths, .. }
            | Self::Exec { paths, .. }
            | Self::Restart { paths, .. }
            | Self::Unhold { paths, .. }
            | Self::Confirm(paths) => paths,
            Self::Logs(logs) => &logs.paths,
        }
    }
}
