//! Command line of `edge-agent`.

use std::{io::Write, path::PathBuf, sync::LazyLock};

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    config::{self, Host},
    log::LogFormat,
};

mod check;
mod check_table;
mod ctl;
mod global;
mod join;
mod labels;
mod output;
mod tips;
pub mod values;

pub use self::{
    check::{Bundle, Check, Status},
    check_table::{CHECKS, CheckEntry, CheckName, Stage, checks_of},
    ctl::{Ctl, GetOutput, Logs, ObjectKind, Scope, Streams},
    global::{GLOBAL_OPTIONS, HelpArgs},
    join::{Driver, InstallPaths, Join, Reset, node_ip},
    labels::{check_label_key, check_label_value, label, subdomain},
    output::{LogArgs, Output, OutputArgs},
    tips::{Tip, exit, parse_or_exit, try_parse_with_tips, unknown_command},
};

pub(crate) use self::join::shell_word;

const EXAMPLES: &str = "\
Examples:
  Join this machine, as root; `cloudsim up` prints the command with the token:
    edge-agent join --cloud 192.0.2.10 --token TOKEN

  Remove this node with its pods, configuration, certificate and database:
    edge-agent reset

  Write a configuration by hand, set the cloud's addresses and the join token in it, and start the agent:
    mkdir -p /etc/kubeedge/config
    edge-agent --minconfig > /etc/kubeedge/config/edgecore.yaml
    edge-agent

  Use another configuration file, and log decisions:
    edge-agent --config ./edgecore.yaml -v 4

  Print every setting with its default value:
    edge-agent --defaultconfig

  Log only one module in detail:
    edge-agent --log-filter warn,agent::edgehub=debug

  Find out why this node does not work, and show its state:
    edge-agent check
    edge-agent status
    edge-agent bundle

  Show this node's pods and devices, follow a log, and run a command, without the cloud:
    edge-agent ctl get pods -A
    edge-agent ctl get devices
    edge-agent ctl logs -f web
    edge-agent ctl exec web -- ls /

  Print what is stored on this node, and check the database:
    edge-agent db dump | jq .
    edge-agent db check

  Return to EdgeCore with this node's current data, after stopping the agent:
    edge-agent db export --overwrite

  Use the Kubernetes API on the node, if modules.metaManager.metaServer is enabled:
    kubectl --kubeconfig /var/lib/kubeedge/metaserver.kubeconfig get pods

  Install shell completion:
    edge-agent completion bash > /etc/bash_completion.d/edge-agent

Log levels of -v:
  -1  errors
   0  warnings and important events
   2  steps
   4  decisions
   6  messages and everything else

Environment:
  EDGE_AGENT_LOG         Value of --log-filter
  EDGE_AGENT_LOG_FORMAT  Value of --log-format
  EDGE_AGENT_TOKEN       Value of --token of `edge-agent join`
  NO_COLOR               Print no colours

Not supported: the TCP relay of EdgeMesh, CSI volumes.";

const JOIN_NOTES: &str = "\
Checks the machine and the cloud, writes edgecore.yaml, requests a certificate and starts the agent. \
The agent runs as the systemd service edge-agent, or in this process without systemd or with --foreground.
If a check fails, the command prints the remedy and changes nothing.

Checks for --ignore-checks:
  root, clean, processes, runtime, cgroups, pressure, mqtt, streams, ports, name, cloud, clock, hub, all";

const BUNDLE_NOTES: &str = "\
The archive has the results of `check`, the configuration, the agent's state, metrics and log, the objects of the database \
and the state of the container runtime. Only its owner can read it.
Values of Secrets, ConfigMaps and environment variables, tokens, keys and passwords are replaced by ***. errors.txt names what \
could not be read.";

const CHECK_NOTES: &str = "\
Checks the machine before `edge-agent join`, and the node afterwards. Changes nothing, pulls no image, and contacts \
only the configured cloud and MQTT broker. Works offline.
Exit code: 0 without errors, 1 with errors.";

const CONFIRM_NOTES: &str = "\
A NodeUpgradeJob with requireConfirmation: true waits on the node after its check. This command lets it continue, and prints its name.";

const CTL_NOTES: &str = "\
Run as root on the node; the agent must run. The commands need neither the cloud nor kubectl nor MetaServer.";

const EXPORT_NOTES: &str = "\
EdgeCore then continues with the node's current pods. The command lists the objects that EdgeCore cannot store.
EdgeCore's database contains Secrets in plain text.";

const NEW_KEY_NOTES: &str = "\
The next start encrypts everything with the new key. After that, you can remove the older keys.";

/// What `--version` prints; `-V` prints only its first line.
static VERSION: LazyLock<String> =
    LazyLock::new(|| wire::version::text(env!("CARGO_PKG_VERSION"), edged::KUBERNETES_VERSION));

/// Run the pods that the cloud assigns to this node, with or without a connection to the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "edge-agent", version, long_version = VERSION.as_str(), after_help = EXAMPLES)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    /// Configuration file, EdgeCore's edgecore.yaml (v1alpha2)
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    pub config: PathBuf,

    /// Record the connections with the cloud to this file, without secrets; `cloudsim show` prints it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Record secrets, tokens and the data of streams as well
    #[arg(long, requires = "record")]
    pub record_secrets: bool,

    /// Print a minimal configuration and exit
    #[arg(long, conflicts_with = "defaultconfig")]
    pub minconfig: bool,

    /// Print every setting with its default value and exit
    #[arg(long)]
    pub defaultconfig: bool,

    /// Log level, -1 (errors) to 6 (all)
    #[arg(
        short,
        long = "v",
        global = true,
        value_name = "LEVEL",
        default_value = "0",
        value_parser = values::verbosity,
        allow_negative_numbers = true,
        help_heading = GLOBAL_OPTIONS
    )]
    pub verbosity: i32,

    /// Log levels, as warn,wire=debug; overrides -v
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "EDGE_AGENT_LOG",
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
        env = "EDGE_AGENT_LOG_FORMAT",
        hide_env = true,
        help_heading = GLOBAL_OPTIONS
    )]
    pub log_format: LogFormat,

    /// Help and version
    #[command(flatten)]
    pub help: HelpArgs,

    /// Command to run instead of the agent
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Something else than running the agent.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Write an archive for a bug report, without secrets
    #[command(after_help = BUNDLE_NOTES, alias = "support-bundle")]
    Bundle(Box<Bundle>),
    /// Check this machine, its node and the connection to the cloud, and print remedies
    #[command(after_help = CHECK_NOTES, alias = "doctor")]
    Check(Box<Check>),
    /// Print a completion script for a shell
    #[command(alias = "completions")]
    Completion {
        /// Shell
        shell: Shell,
    },
    /// Confirm the upgrade of this node that waits for it
    #[command(after_help = CONFIRM_NOTES)]
    Confirm(InstallPaths),
    /// Show pods and devices of this node, and restart or release pods, with or without the cloud
    #[command(subcommand, after_help = CTL_NOTES)]
    Ctl(Box<Ctl>),
    /// Inspect, check or export the node's database
    #[command(subcommand, alias = "database")]
    Db(Db),
    /// Join this machine to a cloud
    #[command(after_help = JOIN_NOTES)]
    Join(Box<Join>),
    /// Remove this node: stop the agent, delete its pods, configuration, certificate, database and volumes
    Reset(Reset),
    /// Show the connection, pods, devices, resources and latest errors of the running agent
    Status(Status),
    /// Print the version
    #[command(hide = true)]
    Version,
}

/// What is done with the database.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Db {
    /// Check every object; exit code 1 if one is damaged
    Check {
        /// The database and its configuration
        #[command(flatten)]
        file: DbFile,
        /// Output format
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print every object as one line of JSON
    Dump {
        /// The database and its configuration
        #[command(flatten)]
        file: DbFile,
        /// Include the values of Secrets and tokens
        #[arg(long)]
        show_secrets: bool,
    },
    /// Export the database in EdgeCore's format; the agent must be stopped
    #[command(after_help = EXPORT_NOTES)]
    Export {
        /// The installation, whose configuration names both databases
        #[command(flatten)]
        paths: InstallPaths,
        /// Output file [default: database.dataSource of the configuration]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace an existing file
        #[arg(long)]
        overwrite: bool,
    },
    /// Add a new key to a key file, or create the file
    #[command(after_help = NEW_KEY_NOTES)]
    NewKey {
        /// Key file, database.keyFile of the configuration
        file: PathBuf,
    },
}

/// Which database.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct DbFile {
    /// The installation, whose configuration names the database and its key file
    #[command(flatten)]
    pub paths: InstallPaths,
    /// Another database file, such as a damaged one that was renamed
    #[arg(value_name = "DATABASE")]
    pub database: Option<PathBuf>,
}

impl DbFile {
    /// Returns the configuration's path: its own if one was given, else the one before the subcommand.
    pub fn or(&self, before: &std::path::Path) -> Self {
        Self {
            paths: self.paths.or(before),
            database: self.database.clone(),
        }
    }
}

impl Db {
    /// Returns the command with the configuration before the subcommand, unless it has its own.
    pub fn or(&self, before: &std::path::Path) -> Self {
        match self {
            Self::Check { file, output } => Self::Check {
                file: file.or(before),
                output: *output,
            },
            Self::Dump { file, show_secrets } => Self::Dump {
                file: file.or(before),
                show_secrets: *show_secrets,
            },
            Self::Export {
                paths,
                output,
                overwrite,
            } => Self::Export {
                paths: paths.or(before),
                output: output.clone(),
                overwrite: *overwrite,
            },
            Self::NewKey { file } => Self::NewKey { file: file.clone() },
        }
    }
}

impl Cli {
    /// Returns the log filter: `--log-filter` if given, else that of `-v`.
    pub fn log_filter(&self) -> String {
        self.log_filter
            .clone()
            .unwrap_or_else(|| filter(self.verbosity))
    }

    /// Reports whether both a document and a command were requested.
    pub fn is_contradictory(&self) -> bool {
        (self.minconfig || self.defaultconfig) && self.command.is_some()
    }

    /// Parses the arguments of this process; exits if they are invalid, or help or the version was requested.
    pub fn parse_or_exit() -> Self {
        parse_or_exit(&tips::EDGE_AGENT)
    }

    /// Prints what was requested instead of running the agent; returns false if nothing was.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn print(&self, out: &mut impl Write) -> std::io::Result<bool> {
        if self.is_contradictory() {
            return Ok(false);
        }
        if let Some(Command::Completion { shell }) = &self.command {
            // into memory first: the generator panics on a closed pipe
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Self::command(), "edge-agent", &mut script);
            out.write_all(&script)?;
        } else if self.command == Some(Command::Version) {
            writeln!(out, "edge-agent {}", *VERSION)?;
        } else if self.minconfig {
            out.write_all(config::minimal_config(&Host::detect()).as_bytes())?;
        } else if self.defaultconfig {
            out.write_all(config::default_config(&Host::detect()).as_bytes())?;
        } else {
            return Ok(false);
        }
        out.flush().map(|()| true)
    }
}

/// Returns the filter for a klog verbosity. Libraries log one step later than the agent itself.
pub fn filter(v: i32) -> String {
    match v {
        ..0 => "error",
        // both log each failed request before its caller does, and cannot know whether it matters
        0..=1 => "warn,kube_client=off,kube_runtime=off,agent=info,edge_agent=info",
        2..=3 => "info",
        4..=5 => "info,agent=debug,edge_agent=debug,wire=debug",
        6.. => "debug",
    }
    .to_owned()
}

#[cfg(test)]
mod tests;
