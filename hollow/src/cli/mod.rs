//! The command line of `cloudsim`.

use std::{net::IpAddr, path::PathBuf, sync::LazyLock, time::Duration};

use agent::log::LogFormat;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use cloudsim::{
    controllers::manager::Switches, faults::Period, kubeconfig::DEFAULT_CONTEXT,
    pki::ServiceAccountTokens,
};

pub use agent::cli::Output;

pub use self::{
    access::Access,
    cluster::ClusterArgs,
    db::{DbCommand, DbPlace},
    devices::DeviceCommand,
    faults::{Bad, FaultsCommand},
    hollow::{Hollow, JoinArgs, Selftest},
    list::{ListArgs, ListFormat},
    node::NodeCommand,
    properties::{NodeProperties, NodeTaint},
    rules::RulesCommand,
};

mod access;
mod cluster;
mod db;
mod devices;
mod faults;
mod hollow;
mod host;
mod list;
mod node;
mod properties;
mod rules;

use self::{
    cluster::subdomain,
    host::{host, listen_address},
};

const EXAMPLES: &str = "\
Examples:
  A cloud on this machine, and kubectl for it:
    cloudsim up
    export KUBECONFIG=$PWD/cloudsim.kubeconfig
    kubectl get nodes

  The same with three nodes in the same process, which run pods without containers:
    cloudsim up --nodes 3

  A cloud for other machines, with its state on disk:
    cloudsim up --address 0.0.0.0 --data-dir /var/lib/cloudsim

  A cloud in the background:
    cloudsim up --detach --nodes 3
    cloudsim status
    cloudsim down

  Watch nodes connect, and the names of disconnected ones for a script:
    cloudsim nodes --watch
    cloudsim nodes -o json | jq '.nodes[] | select(.session == null).name'

  Encrypt Secrets and keys on disk, and check the database:
    cloudsim db new-key /etc/cloudsim.key
    cloudsim up --data-dir /var/lib/cloudsim --key-file /etc/cloudsim.key
    cloudsim db check --data-dir /var/lib/cloudsim --key-file /etc/cloudsim.key

  The join token, and one for a single node:
    cloudsim token
    cloudsim token --node edge-1 --ttl 10m

  Free the name of a node for another machine:
    cloudsim node reset edge-1

  List devices, and set a property's desired value:
    cloudsim devices
    cloudsim devices set default/thermometer target=25

  List rules, and send a message through one:
    cloudsim rules
    cloudsim rules send edge-1 default/hello --body on

  Degrade the link of one node, and cut that of another:
    cloudsim faults set edge-1 --profile Satellite
    cloudsim faults cut edge-2

  A hundred simulated nodes that join a cloud elsewhere:
    cloudsim hollow --cloud cloud.example.org --token-file token --nodes 100 --data-dir /var/lib/hollow

  Cluster mode, for example with kind:
    cloudsim up --kube-context kind-kind --address 0.0.0.0
    cloudsim token --kubeconfig ~/.kube/config

  A scenario from a file, with a JUnit report:
    cloudsim run examples/scenarios/cut.yaml --junit outcome.xml

Not supported: node jobs (operations.kubeedge.io), node groups (apps.kubeedge.io).";

/// What `--version` prints; `-V` prints only its first line.
static VERSION: LazyLock<String> =
    LazyLock::new(|| wire::version::text(env!("CARGO_PKG_VERSION"), cloudsim::KUBERNETES_VERSION));

/// A KubeEdge-compatible cloud in one process, with a Kubernetes API
#[derive(Clone, Debug, Parser)]
#[command(name = "cloudsim", version, long_version = VERSION.as_str(), after_help = EXAMPLES)]
pub struct Cli {
    /// Log filter: `LEVEL` or `MODULE=LEVEL`, separated by commas [default: warn; off for demo and run]
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "CLOUDSIM_LOG",
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
        env = "CLOUDSIM_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: LogFormat,

    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Returns the log filter: the one that was given, or else the command's default.
    pub fn log_filter(&self) -> &str {
        // `kube_client` logs each failed request before its caller does, and cannot know whether it matters.
        let quiet = matches!(self.command, Command::Demo { .. } | Command::Run(_));
        self.log_filter
            .as_deref()
            .unwrap_or(if quiet { "off" } else { "warn,kube_client=off" })
    }
}

/// What to do.
// there is one value in a process
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a cloud until Ctrl-C, or in the background
    Up(Up),
    /// List the clouds that run on this machine, with their nodes
    ///
    /// Exit code: 1 if none runs.
    Status {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Format and watch
        #[command(flatten)]
        list: ListArgs,
    },
    /// Stop a cloud that runs on this machine
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
    /// Inspect, check or repair the data directory
    #[command(subcommand)]
    Db(DbCommand),
    /// Print the join token, or create one limited by node, lifetime or uses
    #[command(alias = "tokens")]
    Token {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Print the token and its limits as JSON or YAML
        #[arg(short, long, value_name = "FORMAT", value_enum)]
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
    /// List network, certificate and message faults, or inject them
    #[command(visible_alias = "fault")]
    Faults {
        /// The cloud
        #[command(flatten)]
        access: Access,
        /// Output format [default: a table for lists, YAML after a change]
        #[arg(short, long, global = true, value_name = "FORMAT", value_enum)]
        output: Option<ListFormat>,
        /// Fault to inject or restore [default: list]
        #[command(subcommand)]
        command: Option<FaultsCommand>,
    },
    /// Run scenarios from files
    ///
    /// Exit code: 0 passed, 1 failed, 2 invalid scenario file.
    Run(Run),
    /// Run a simulated container runtime (CRI v1) on a unix socket until Ctrl-C
    Runtime {
        /// Path of the CRI socket; connections to pods use PATH.pods
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
        /// Directory in which pods and containers survive a restart of the runtime [default: none]
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Run a demo: a cloud, a node, a pod and a device
    Demo {
        /// Exit once every step has succeeded (0) or one has failed (1)
        #[arg(long)]
        once: bool,
        /// Directory of the manifests to apply [default: those in the program: a pod with its configuration, and a thermometer]
        #[arg(long, value_name = "DIR")]
        manifests: Option<PathBuf>,
        /// Kubeconfig file to merge the demo's context `cloudsim` into, until the demo ends [default: a temporary file]
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
    /// Run simulated nodes that join a cloud elsewhere, until Ctrl-C
    Hollow(Hollow),
    /// Test a cloud in cluster mode with a node, a pod and a device
    ///
    /// Exit code: 0 passed, 1 failed. The cluster is that of $KUBECONFIG, or of the pod in which this runs.
    Selftest(Selftest),
    /// Print the RBAC manifests for cluster mode
    #[command(alias = "role")]
    Roles {
        /// Install missing KubeEdge CRDs, as for `up`
        #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
        install_crds: bool,
    },
    /// Print a completion script for a shell
    #[command(alias = "completions")]
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// What a join token is to be good for; nothing of it: the one that the cloud keeps, for any new name.
#[derive(Args, Clone, Debug)]
pub struct TokenScope {
    /// Issue a token for this node only, valid for one certificate
    #[arg(long, value_name = "NAME", value_parser = subdomain)]
    pub node: Option<String>,

    /// Lifetime of a new token, for example 10m or 12h
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Period>,

    /// Number of certificates that a new token allows
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,
}

/// Scenarios.
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// The files; directories stand for the *.yaml in them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// JUnit XML report to write
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Random seed instead of the files' own
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

/// A cloud.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("cluster").multiple(true).args(["kube_context", "cluster_kubeconfig", "in_cluster"]))]
pub struct Up {
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = listen_address)]
    pub address: IpAddr,

    /// Options of cluster mode
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Host name or IP address by which this cloud is reached, for its certificates; the first one that resolves here is in the
    /// kubeconfig. Repeatable [default: 127.0.0.1, localhost; with --address 0.0.0.0 also this machine's addresses and name]
    #[arg(long = "name", value_name = "HOST", value_parser = host)]
    pub names: Vec<String>,

    /// Port of the Kubernetes API; 0 picks a free port, as for all ports
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub api_port: u16,

    /// Port of the HTTPS server that issues certificates to nodes
    #[arg(long, value_name = "PORT", default_value_t = 10002)]
    pub https_port: u16,

    /// Port of CloudHub's WebSocket server
    #[arg(long, value_name = "PORT", default_value_t = 10000)]
    pub ws_port: u16,

    /// UDP port of CloudHub for QUIC (RFC 9000), for edge-agent only [default: none]
    #[arg(long, value_name = "PORT")]
    pub quic_port: Option<u16>,

    /// Port of the stream server for logs, exec, attach and port-forward, or `off`
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off)]
    pub tunnel_port: Port,

    /// UDP port of the relay between nodes that do not reach each other's pods, EdgeMesh's 20006; edge-agent's modules.edgeMesh.relay
    /// uses it
    #[arg(long, value_name = "PORT")]
    pub relay_port: Option<u16>,

    /// Port on which an API server that stands elsewhere finds the kubelets of all nodes, CloudCore's 10003
    #[arg(long, value_name = "PORT", requires = "stream_client_ca")]
    pub stream_port: Option<u16>,

    /// The CA of that API server's client certificate, as kubelets' --client-ca-file
    #[arg(long, value_name = "FILE", requires = "stream_port")]
    pub stream_client_ca: Option<PathBuf>,

    /// The common name of that certificate; whoever is of system:masters gets in as well. Repeatable
    #[arg(
        long = "stream-client-name",
        value_name = "NAME",
        default_value = "kube-apiserver-kubelet-client"
    )]
    pub stream_client_names: Vec<String>,

    /// Port of the router, over which requests reach nodes through rules, KubeEdge's 9443: /NODE/NAMESPACE/PATH. Plain HTTP on the
    /// loopback interface; with another --address HTTPS, and callers show a bearer token
    #[arg(long, value_name = "PORT")]
    pub router_port: Option<u16>,

    /// Allow unauthenticated router calls
    #[arg(long, requires = "router_port")]
    pub router_anonymous: bool,

    /// Kubeconfig file to merge the cloud's cluster, user and context into; a cloud without --data-dir removes them when it ends.
    /// [default: $KUBECONFIG, by the rules of `kubectl config`, or cloudsim.kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Name of the cluster, user and context in the kubeconfig
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTEXT)]
    pub context: String,

    /// Make this cloud the current context; the earlier one is set again when a cloud without --data-dir stops
    #[arg(long)]
    pub set_current_context: bool,

    /// Directory for all data [default: none, everything is in memory]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Encrypt Secrets in the databases of the data directory with the keys of this file, those of --nodes among them;
    /// `cloudsim db new-key FILE` makes one. What is there is encrypted at the start. Once begun, the file is needed for each start
    #[arg(long, value_name = "FILE", requires = "data_dir")]
    pub key_file: Option<PathBuf>,

    /// Number of simulated nodes to run in this process
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub nodes: usize,

    /// Run in the background; return when the cloud is ready
    #[arg(short, long)]
    pub detach: bool,

    /// The log of a cloud in the background; set by --detach
    #[arg(long, value_name = "FILE", hide = true)]
    pub detached: Option<PathBuf>,

    /// Properties of the nodes
    #[command(flatten)]
    pub properties: NodeProperties,

    /// Seconds without a heartbeat before a node is NotReady
    #[arg(long, value_name = "SECONDS", default_value = "40", value_parser = seconds)]
    pub node_grace: Duration,

    /// Controllers of a cluster to run, separated by commas: `*` all, `NAME` that one, `*,-NAME` all but that one.
    /// Names are those of kube-controller-manager, and `scheduler`. An empty list leaves the work to the real ones
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Switches,

    /// Enforce RBAC: roles and bindings decide what a caller may do. With --rbac=false, only system:masters has access
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = clap::ArgAction::Set)]
    pub rbac: bool,

    /// Largest message that a node may send, bytes
    #[arg(long, value_name = "BYTES", default_value_t = wire::json::DEFAULT_LIMIT)]
    pub max_message: usize,

    /// Replicas of CloudHub behind its address: each connection goes to the next one
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub hubs: u8,

    /// Time after expiry in which a node may still renew its certificate, for example 12h or 30d
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub renewal_grace: Period,

    /// Longest lifetime of a service account token, at least 1h; longer requests are shortened
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = token_lifetime)]
    pub service_account_max_token_expiration: Duration,

    /// Random seed for faults
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub fault_seed: u64,
}

/// A port, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub Option<u16>);

fn port_or_off(text: &str) -> Result<Port, String> {
    if text == "off" {
        return Ok(Port(None));
    }
    text.parse()
        .map(|port| Port(Some(port)))
        .map_err(|_| "a port, 0 to 65535, or off".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: u64 = text
        .parse()
        .map_err(|_| "a whole number of seconds".to_owned())?;
    if seconds == 0 {
        Err("at least 1".to_owned())
    } else {
        Ok(Duration::from_secs(seconds))
    }
}

fn token_lifetime(text: &str) -> Result<Duration, String> {
    let period: Period = text
        .parse()
        .map_err(|error: cloudsim::faults::ParsePeriodError| error.to_string())?;
    if period.get() < ServiceAccountTokens::LEAST_MAX_LIFETIME {
        return Err("at least 1h".to_owned());
    }
    Ok(period.get())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_ports_default_to_kubeedges() {
        Cli::command().debug_assert();
        let Command::Up(up) = Cli::parse_from(["cloudsim", "up"]).command else {
            panic!()
        };
        assert_eq!(
            (up.api_port, up.https_port, up.ws_port),
            (6443, 10002, 10000)
        );
        assert_eq!(up.tunnel_port, Port(Some(10004)));
        let Command::Up(off) = Cli::parse_from(["cloudsim", "up", "--tunnel-port", "off"]).command
        else {
            panic!()
        };
        assert_eq!(off.tunnel_port, Port(None));
        assert!(Cli::try_parse_from(["cloudsim", "up", "--tunnel-port", "on"]).is_err());
        for (rbac, expected) in [
            (None, true),
            (Some("--rbac"), true),
            (Some("--rbac=false"), false),
        ] {
            let Command::Up(up) =
                Cli::parse_from(["cloudsim", "up"].into_iter().chain(rbac)).command
            else {
                panic!()
            };
            assert_eq!(up.rbac, expected, "{rbac:?}");
        }
        assert!(Cli::try_parse_from(["cloudsim", "up", "--node-grace", "0"]).is_err());
        assert!(Cli::try_parse_from(["cloudsim", "up", "--ws-port", "70000"]).is_err());
        assert!(Cli::try_parse_from(["cloudsim", "up", "--hubs", "0"]).is_err());
        assert!(Cli::try_parse_from(["cloudsim", "up", "--renewal-grace", "30"]).is_err());
        let max = |text: &str| {
            Cli::try_parse_from([
                "cloudsim",
                "up",
                "--service-account-max-token-expiration",
                text,
            ])
        };
        assert!(max("59m").is_err() && max("1h").is_ok());
        assert!(
            Cli::try_parse_from(["cloudsim", "token", "--node", "edge-1", "--ttl", "10m"]).is_ok()
        );
        assert!(Cli::try_parse_from(["cloudsim", "token", "--uses", "0"]).is_err());
        assert!(
            Cli::try_parse_from(["cloudsim", "node", "reset", "edge-1", "--kubeconfig", "k"])
                .is_ok()
        );
        assert!(Cli::try_parse_from(["cloudsim", "node", "reset", "--lost"]).is_ok());
        assert!(Cli::try_parse_from(["cloudsim", "node", "reset", "edge-1", "--lost"]).is_err());
        assert!(Cli::try_parse_from(["cloudsim", "node", "reset"]).is_err());
        assert!(Cli::try_parse_from(["cloudsim", "token", "-o", "json", "--uses", "2"]).is_ok());
        assert!(Cli::try_parse_from(["cloudsim", "up", "--controllers", "-job"]).is_ok());
        assert!(Cli::try_parse_from(["cloudsim", "up", "--controllers", "*,-jobs"]).is_err());
        assert!(
            Cli::try_parse_from([
                "cloudsim",
                "devices",
                "set",
                "ns/d",
                "t=1",
                "--kubeconfig",
                "k"
            ])
            .is_ok()
        );
        assert!(Cli::try_parse_from(["cloudsim", "devices", "set", "ns/d", "t="]).is_err());
        assert!(Cli::try_parse_from(["cloudsim", "devices", "set", "ns/d"]).is_err());
    }
}
