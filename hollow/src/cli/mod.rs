//! The command line of `cloudsim`.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, sync::LazyLock, time::Duration};

use agent::{
    cli::{GLOBAL_OPTIONS, HelpArgs, exit, subdomain, values},
    log::LogFormat,
};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use cloudsim::{
    controllers::manager::Switches, faults::Period, kubeconfig::DEFAULT_CONTEXT,
    pki::ServiceAccountTokens,
};

pub use agent::cli::Output;

pub use self::{
    access::Access,
    bundle::Bundle,
    cluster::ClusterArgs,
    db::{DbCommand, DbPlace},
    devices::DeviceCommand,
    faults::{Bad, FaultsCommand},
    hollow::{Hollow, JoinArgs, Selftest},
    list::{ListArgs, ListFormat},
    node::NodeCommand,
    properties::{NodeProperties, NodeTaint},
    rules::RulesCommand,
    show::{Show, ShowFormat},
    why::{ExplainedKind, ExplainedObject},
};

mod access;
mod bundle;
mod cluster;
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
mod rules;
mod show;
mod tips;
mod why;

use self::{
    examples::{BUNDLE_NOTES, EXAMPLES, SELFTEST_NOTES},
    host::{host, listen_address},
};

/// The most nodes of one process, and of one replica of CloudHub.
const MAX_NODES: usize = 500;

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
    /// Print a kubeconfig for one cloud, with its credentials
    Kubeconfig {
        /// The cloud
        #[command(flatten)]
        access: Access,
    },
    /// Check or repair the data directory, or create a key
    #[command(subcommand, alias = "database")]
    Db(DbCommand),
    /// Show a recording of the connections with nodes
    #[command(after_help = "Exit code: 1 if a part of the recording cannot be read.")]
    Show(Show),
    /// Print the join token, or create one limited by node, lifetime or uses
    #[command(aliases = ["tokens", "gettoken"])]
    Token {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Output format of the token and its limits: json or yaml [default: only the token]
        #[arg(
            short,
            long,
            value_name = "FORMAT",
            value_enum,
            hide_possible_values = true
        )]
        output: Option<Output>,
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
        /// Output format: json or yaml [default: a line for each step]
        #[arg(
            short,
            long,
            value_name = "FORMAT",
            value_enum,
            hide_possible_values = true
        )]
        output: Option<Output>,
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
        /// Output format: json, yaml, wide or name [default: a table for lists, YAML after a change]
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
    /// Print the RBAC manifests for cluster mode
    #[command(aliases = ["role", "rbac"])]
    Roles {
        /// Include the permission to install KubeEdge CRDs
        #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, hide_possible_values = true)]
        install_crds: bool,
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
}

const UP_NOTES: &str = "\
Names:
  By default, certificates name 127.0.0.1 and localhost; with --address 0.0.0.0 also this machine's addresses and name.
  The kubeconfig has the first --name that this machine resolves.

Kubeconfig:
  The file gets a cluster, a user and a context. Without --data-dir, cloudsim removes them when it stops, and restores the earlier \
current context.

Controllers:
  Names are those of kube-controller-manager, and `scheduler`. With an empty list, none of them runs here.

Router:
  Paths are /NODE/NAMESPACE/PATH. The router speaks HTTP on the loopback interface. With another --address it speaks HTTPS and \
requires a bearer token.

Key file:
  The keys encrypt the databases of the cloud and of --nodes. Once used, the file is needed for each start.";

/// A cloud.
#[derive(Args, Clone, Debug)]
#[command(after_help = UP_NOTES)]
#[command(group = clap::ArgGroup::new("cluster").multiple(true).args(["kube_context", "cluster_kubeconfig", "in_cluster"]))]
pub struct Up {
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = listen_address)]
    pub address: IpAddr,

    /// Host name or IP address of this cloud, for its certificates and the kubeconfig. Repeatable [default: those of --address]
    #[arg(long = "name", value_name = "HOST", value_parser = host)]
    pub names: Vec<String>,

    /// Run in the background; return when the cloud is ready
    #[arg(short, long)]
    pub detach: bool,

    /// The log of a cloud in the background; set by --detach
    #[arg(long, value_name = "FILE", hide = true)]
    pub detached: Option<PathBuf>,

    /// Port of the Kubernetes API; 0 picks a free port, as for all ports
    #[arg(long, value_name = "PORT", default_value = "6443", value_parser = values::port, help_heading = headings::API)]
    pub api_port: u16,

    /// Kubeconfig to write the cloud's context to [default: $KUBECONFIG, or cloudsim.kubeconfig]
    #[arg(long, value_name = "FILE", help_heading = headings::API)]
    pub kubeconfig: Option<PathBuf>,

    /// Name of the cluster, user and context in the kubeconfig
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTEXT, value_parser = access::context, help_heading = headings::API)]
    pub context: String,

    /// Make this cloud the current context
    #[arg(long, help_heading = headings::API)]
    pub set_current_context: bool,

    /// Enforce RBAC; with --rbac=false, only system:masters has access
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = clap::ArgAction::Set, hide_possible_values = true, help_heading = headings::API)]
    pub rbac: bool,

    /// Controllers to run: `*` for all, `NAME`, or `*,-NAME` for all but one; see below
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true,
        help_heading = headings::API
    )]
    pub controllers: Switches,

    /// Port of the HTTPS server that issues certificates to nodes
    #[arg(long, value_name = "PORT", default_value = "10002", value_parser = values::port, help_heading = headings::PORTS)]
    pub https_port: u16,

    /// Port of CloudHub's WebSocket server
    #[arg(long, value_name = "PORT", default_value = "10000", value_parser = values::port, help_heading = headings::PORTS)]
    pub ws_port: u16,

    /// UDP port of CloudHub's QUIC server, for edge-agent only [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = headings::PORTS)]
    pub quic_port: Option<u16>,

    /// Port for logs, exec, attach and port-forward, or `off`
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off, help_heading = headings::PORTS)]
    pub tunnel_port: Port,

    /// UDP port of EdgeMesh's relay, usually 20006 [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = headings::PORTS)]
    pub relay_port: Option<u16>,

    /// Port of the router for HTTP requests to nodes, usually 9443 [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = headings::ROUTER)]
    pub router_port: Option<u16>,

    /// Allow unauthenticated router calls
    #[arg(long, requires = "router_port", help_heading = headings::ROUTER)]
    pub router_anonymous: bool,

    /// Port of all nodes' kubelets for that API server, usually 10003 [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = headings::KUBELETS)]
    pub stream_port: Option<u16>,

    /// CA of that API server's client certificate [default in cluster mode: the cluster's]
    #[arg(long, value_name = "FILE", requires = "stream_port", help_heading = headings::KUBELETS)]
    pub stream_client_ca: Option<PathBuf>,

    /// Common name of that certificate. Repeatable; members of system:masters are accepted, too
    #[arg(
        long = "stream-client-name",
        value_name = "NAME",
        default_value = "kube-apiserver-kubelet-client",
        help_heading = headings::KUBELETS
    )]
    pub stream_client_names: Vec<String>,

    /// Service in namespace kubeedge for --stream-port, whose address becomes the first of each node [default: none]
    #[arg(long, value_name = "NAME", value_parser = subdomain, requires = "stream_port", requires = "cluster", help_heading = headings::KUBELETS)]
    pub stream_service: Option<String>,

    /// Type of the address of --stream-service, for example InternalIP [default: the API server's first choice]
    #[arg(long, value_name = "TYPE", value_parser = ["Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"],
        hide_possible_values = true, requires = "stream_service", help_heading = headings::KUBELETS)]
    pub stream_address_type: Option<String>,

    /// Directory for all data [default: none, everything is in memory]
    #[arg(long, value_name = "DIR", help_heading = headings::STORAGE)]
    pub data_dir: Option<PathBuf>,

    /// File of the keys that encrypt Secrets on disk; `cloudsim db new-key` creates one
    #[arg(long, value_name = "FILE", requires = "data_dir", help_heading = headings::STORAGE)]
    pub key_file: Option<PathBuf>,

    /// Number of simulated nodes to run in this process, at most 500
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = values::number::<usize>(0..=MAX_NODES),
        help_heading = headings::NODES)]
    pub nodes: usize,

    /// Properties of the nodes
    #[command(flatten)]
    pub properties: NodeProperties,

    /// Time without a heartbeat before a node is NotReady, at least 1s
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = node_grace, help_heading = headings::LIMITS)]
    pub node_grace: Duration,

    /// Largest message that a node may send, for example 16Mi
    #[arg(long, value_name = "BYTES", default_value_t = wire::json::DEFAULT_LIMIT, value_parser = message_limit,
        help_heading = headings::LIMITS)]
    pub max_message: usize,

    /// Time after expiry in which a node may still renew its certificate, for example 30d
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = headings::LIMITS)]
    pub renewal_grace: Period,

    /// Longest lifetime of a service account token, at least 1h; longer requests are shortened
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = token_lifetime, help_heading = headings::LIMITS)]
    pub service_account_max_token_expiration: Duration,

    /// Replicas of CloudHub, which share the connections, 1 to 16
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = values::number::<u8>(1..=16), help_heading = headings::TESTS)]
    pub hubs: u8,

    /// Random seed for faults
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = values::number::<u64>(..), help_heading = headings::TESTS)]
    pub fault_seed: u64,

    /// Record the connections with nodes to this file, without secrets; `cloudsim show` prints it
    #[arg(long, value_name = "FILE", help_heading = headings::TESTS)]
    pub record: Option<PathBuf>,

    /// Record secrets, tokens and the data of streams as well
    #[arg(long, requires = "record", help_heading = headings::TESTS)]
    pub record_secrets: bool,

    /// Options of cluster mode
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// A port, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub Option<u16>);

fn port_or_off(text: &str) -> Result<Port, String> {
    if text == "off" {
        return Ok(Port(None));
    }
    let port = values::port(text).map_err(|expected| format!("{expected}, or `off`"))?;
    Ok(Port(Some(port)))
}

fn message_limit(text: &str) -> Result<usize, String> {
    let bytes = values::bytes(text)?;
    usize::try_from(bytes).map_err(|_| "expected fewer bytes".to_owned())
}

/// Parses a time. A number without a unit counts seconds, as this option did in earlier versions.
fn node_grace(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = match is_number {
        true => format!("{text}s"),
        false => text.to_owned(),
    };
    time_from(&text, Duration::from_secs(1), "1s")
}

fn token_lifetime(text: &str) -> Result<Duration, String> {
    time_from(text, ServiceAccountTokens::LEAST_MAX_LIFETIME, "1h")
}

/// Parses a time of at least `least`.
fn time_from(text: &str, least: Duration, shown: &str) -> Result<Duration, String> {
    let period: Period = text
        .parse()
        .map_err(|error: cloudsim::faults::ParsePeriodError| error.to_string())?;
    if period.get() < least {
        return Err(format!("expected at least {shown}"));
    }
    Ok(period.get())
}

#[cfg(test)]
mod tests;
