//! Command line of `edge-agent`.

use std::{io::Write, path::PathBuf};

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
  Make this machine a node, as root; `cloudsim up` prints the line with the token:
    edge-agent join --cloud 192.0.2.10 --token TOKEN

  The end of that: pods, configuration, certificate and database go:
    edge-agent reset

  Write a configuration by hand, put the cloud's addresses and join token into it, start:
    mkdir -p /etc/kubeedge/config && edge-agent --minconfig > /etc/kubeedge/config/edgecore.yaml
    edge-agent

  Try a configuration that stands elsewhere, and see what the agent decides:
    edge-agent --config ./edgecore.yaml -v 4

  See every setting with its default value:
    edge-agent --defaultconfig

  See only what one part says:
    edge-agent --log-filter warn,agent::edgehub=debug

  See what is stored on this node, and whether the file is whole:
    edge-agent db dump | jq .
    edge-agent db check

  Go back to EdgeCore with what this node has now, after the agent was stopped:
    edge-agent db export --overwrite

  The Kubernetes API on the node, where modules.metaManager.metaServer is enabled:
    kubectl --kubeconfig /var/lib/kubeedge/metaserver.kubeconfig get pods

  Completions for the shell:
    edge-agent completions bash > /etc/bash_completion.d/edge-agent

Not yet in this agent: a relay over TCP in EdgeMesh, node jobs (TaskManager), groups of nodes, CSI volumes.";

/// KubeEdge's edge node agent: runs the pods that the cloud places on this node, and goes on without the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "edge-agent", version, after_help = EXAMPLES)]
pub struct Cli {
    /// The configuration, EdgeCore's edgecore.yaml (v1alpha2)
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    pub config: PathBuf,

    /// Print a short configuration to begin with, and exit
    #[arg(long, conflicts_with = "defaultconfig")]
    pub minconfig: bool,

    /// Print every setting with its default value, and exit
    #[arg(long)]
    pub defaultconfig: bool,

    /// How much to log: 0 what the operator should know, 2 steps, 4 decisions, 6 messages and everything
    #[arg(
        short,
        long = "v",
        global = true,
        value_name = "LEVEL",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub verbosity: i32,

    /// What to log, by module: `LEVEL` or `MODULE=LEVEL`, separated by commas; goes before -v
    #[arg(long, global = true, value_name = "FILTER", env = "EDGE_AGENT_LOG", hide_env_values = true)]
    pub log_filter: Option<String>,

    /// How to write the log
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

    /// Something else than running the agent
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Something else than running the agent.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Look into the database of this node (the agent may run), or write it as EdgeCore's
    #[command(subcommand)]
    Db(Db),
    /// Make this machine a node: look at it, write edgecore.yaml, get a certificate, start
    ///
    /// With systemd the agent becomes the service edge-agent; without, or with --foreground, it runs here. A check that
    /// fails says what to do, and nothing is changed then.
    Join(Box<Join>),
    /// Undo `join`: stop the agent, end its pods, remove configuration, certificate, database and volumes
    Reset(Reset),
}

/// What is done with the database.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Db {
    /// Read all of it and say what is wrong; exit code 1 where something is
    Check {
        /// Where it is
        #[command(flatten)]
        file: DbFile,
        /// Print the result as JSON or YAML
        #[arg(short, long, value_name = "FORMAT", value_enum)]
        output: Option<Output>,
    },
    /// Print every object as a line of JSON
    Dump {
        /// Where it is
        #[command(flatten)]
        file: DbFile,
        /// Print the values of Secrets and the tokens, too
        #[arg(long)]
        show_secrets: bool,
    },
    /// Write what this node has as a database that EdgeCore reads, so that EdgeCore goes on from there; the agent must not run
    ///
    /// Pods that were made or deleted while the agent ran are then made or deleted for EdgeCore, too. What EdgeCore has no place for
    /// is said. Secrets stand in EdgeCore's database in plain text.
    Export {
        /// The configuration that names both databases
        #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
        config: PathBuf,
        /// Where to write it instead of EdgeCore's place, database.dataSource of the configuration
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file that is there
        #[arg(long)]
        overwrite: bool,
    },
    /// Put a new key on top of a key file, which is made where it is missing
    ///
    /// What was encrypted with the keys below it is encrypted anew at the next start; after that they can be taken out.
    NewKey {
        /// The key file, database.keyFile of the configuration
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
    /// The configuration that names the database and its key file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    pub config: PathBuf,
    /// Another database, such as one that was set aside
    #[arg(value_name = "DATABASE")]
    pub database: Option<PathBuf>,
}

impl DbFile {
    /// Returns the configuration's path: its own if one was given, else the one before the subcommand.
    pub fn or(&self, before: &std::path::Path) -> Self {
        let own = if self.config == *config::DEFAULT_PATH { before } else { &self.config };
        Self { config: own.to_owned(), database: self.database.clone() }
    }
}

impl Db {
    /// Returns the command with the configuration before the subcommand, unless it has its own.
    pub fn or(&self, before: &std::path::Path) -> Self {
        match self {
            Self::Check { file, output } => Self::Check { file: file.or(before), output: *output },
            Self::Dump { file, show_secrets } => {
                Self::Dump { file: file.or(before), show_secrets: *show_secrets }
            }
            Self::Export { config, output, overwrite } => {
                let own = if *config == *config::DEFAULT_PATH { before } else { config };
                Self::Export { config: own.to_owned(), output: output.clone(), overwrite: *overwrite }
            }
            Self::NewKey { file } => Self::NewKey { file: file.clone() },
        }
    }
}

impl Cli {
    /// Returns the log filter: `--log-filter` if given, else that of `-v`.
    pub fn log_filter(&self) -> String {
        self.log_filter.clone().unwrap_or_else(|| filter(self.verbosity))
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
        if let Some(Command::Completions { shell }) = &self.command {
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
