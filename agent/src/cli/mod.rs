//! Command line of `edge-agent`.

use std::{io::Write, path::PathBuf, sync::LazyLock};

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::Serialize;

use crate::{
    config::{self, Host},
    log::LogFormat,
};

mod join;

pub use self::join::{Driver, InstallPaths, Join, Reset, node_ip};

const EXAMPLES: &str = "\
Examples:
  Join this machine, as root; `cloudsim up` prints the command with the token:
    edge-agent join --cloud 192.0.2.10 --token TOKEN

  Remove this node with its pods, configuration, certificate and database:
    edge-agent reset

  Write a configuration by hand, set the cloud's addresses and the join token in it, and start the agent:
    mkdir -p /etc/kubeedge/config && edge-agent --minconfig > /etc/kubeedge/config/edgecore.yaml
    edge-agent

  Use another configuration file, and log decisions:
    edge-agent --config ./edgecore.yaml -v 4

  Print every setting with its default value:
    edge-agent --defaultconfig

  Log only one module in detail:
    edge-agent --log-filter warn,agent::edgehub=debug

  Print what is stored on this node, and check the database:
    edge-agent db dump | jq .
    edge-agent db check

  Return to EdgeCore with this node's current data, after stopping the agent:
    edge-agent db export --overwrite

  Use the Kubernetes API on the node, if modules.metaManager.metaServer is enabled:
    kubectl --kubeconfig /var/lib/kubeedge/metaserver.kubeconfig get pods

  Install shell completion:
    edge-agent completion bash > /etc/bash_completion.d/edge-agent

Not supported: the TCP relay of EdgeMesh, node jobs (TaskManager), node groups, CSI volumes.";

/// What `--version` prints; `-V` prints only its first line.
static VERSION: LazyLock<String> =
    LazyLock::new(|| wire::version::text(env!("CARGO_PKG_VERSION"), edged::KUBERNETES_VERSION));

/// Run the pods that the cloud assigns to this node, with or without a connection to the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "edge-agent", version, long_version = VERSION.as_str(), after_help = EXAMPLES)]
pub struct Cli {
    /// Configuration file, EdgeCore's edgecore.yaml (v1alpha2)
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    pub config: PathBuf,

    /// Print a minimal configuration and exit
    #[arg(long, conflicts_with = "defaultconfig")]
    pub minconfig: bool,

    /// Print every setting with its default value and exit
    #[arg(long)]
    pub defaultconfig: bool,

    /// Log level: 0 warnings and important events, 2 steps, 4 decisions, 6 messages and everything else
    #[arg(
        short,
        long = "v",
        global = true,
        value_name = "LEVEL",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub verbosity: i32,

    /// Log filter: `LEVEL` or `MODULE=LEVEL`, separated by commas; overrides -v
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "EDGE_AGENT_LOG",
        hide_env_values = true
    )]
    pub log_filter: Option<String>,

    /// Log format
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        env = "EDGE_AGENT_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: LogFormat,

    /// Command to run instead of the agent
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Something else than running the agent.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Print a completion script for a shell
    #[command(alias = "completions")]
    Completion {
        /// Shell
        shell: Shell,
    },
    /// Inspect, check or export the node's database
    #[command(subcommand)]
    Db(Db),
    /// Join this machine to a cloud
    ///
    /// Checks the machine, writes edgecore.yaml, requests a certificate and starts the agent: as the systemd service edge-agent, or in
    /// this process without systemd or with --foreground. If a check fails, it prints the remedy and changes nothing.
    Join(Box<Join>),
    /// Remove this node: stop the agent, delete its pods, configuration, certificate, database and volumes
    Reset(Reset),
}

/// What is done with the database.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Db {
    /// Check every object; exit code 1 if one is damaged
    Check {
        /// The database and its configuration
        #[command(flatten)]
        file: DbFile,
        /// Print the result as JSON or YAML
        #[arg(short, long, value_name = "FORMAT", value_enum)]
        output: Option<Output>,
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
    /// Export the database in EdgeCore's format
    ///
    /// The agent must be stopped. EdgeCore then continues with the node's current pods. Objects that EdgeCore cannot store are listed.
    /// EdgeCore's database contains Secrets in plain text.
    Export {
        /// Configuration file that names both databases
        #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
        config: PathBuf,
        /// Output file [default: database.dataSource of the configuration]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace an existing file
        #[arg(long)]
        overwrite: bool,
    },
    /// Add a new key to a key file, or create the file
    ///
    /// The next start encrypts everything with the new key. After that, you can remove the older keys from the file.
    NewKey {
        /// Key file, database.keyFile of the configuration
        file: PathBuf,
    },
}

/// What a result is printed as for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Output {
    /// Formats the value as a document that ends with a newline.
    ///
    /// # Errors
    /// The value cannot be serialized.
    pub fn document(self, value: &impl Serialize) -> anyhow::Result<String> {
        Ok(match self {
            Self::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
            Self::Yaml => format!("{}\n", serde_saphyr::to_string(value)?.trim_end()),
        })
    }
}

/// Which database.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct DbFile {
    /// Configuration file that names the database and its key file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    pub config: PathBuf,
    /// Another database file, such as a damaged one that was renamed
    #[arg(value_name = "DATABASE")]
    pub database: Option<PathBuf>,
}

impl DbFile {
    /// Returns the configuration's path: its own if one was given, else the one before the subcommand.
    pub fn or(&self, before: &std::path::Path) -> Self {
        let own = if self.config == *config::DEFAULT_PATH {
            before
        } else {
            &self.config
        };
        Self {
            config: own.to_owned(),
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
                config,
                output,
                overwrite,
            } => {
                let own = if *config == *config::DEFAULT_PATH {
                    before
                } else {
                    config
                };
                Self::Export {
                    config: own.to_owned(),
                    output: output.clone(),
                    overwrite: *overwrite,
                }
            }
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
        } else if self.minconfig {
            out.write_all(config::minimal_config(&Host::detect()).as_bytes())?;
        } else if self.defaultconfig {
            out.write_all(config::default_config(&Host::detect()).as_bytes())?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Returns the filter for a klog verbosity. Libraries log one step later than the agent itself.
pub fn filter(v: i32) -> String {
    match v {
        ..0 => "error",
        // kube_client logs each failed request before its caller does, and cannot know whether it matters
        0..=1 => "warn,kube_client=off,agent=info,edge_agent=info",
        2..=3 => "info",
        4..=5 => "info,agent=debug,edge_agent=debug,wire=debug",
        6.. => "debug",
    }
    .to_owned()
}

#[cfg(test)]
mod tests;
