//! The command line of `cloudsim up`.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use agent::cli::{subdomain, values};
use clap::Args;
use cloudsim::{
    controllers::manager::Switches, faults::Period, kubeconfig::DEFAULT_CONTEXT,
    pki::ServiceAccountTokens,
};

use super::{
    access,
    cluster::ClusterArgs,
    headings,
    host::{host, listen_address},
    properties::NodeProperties,
};

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

    /// Serve the live page at /ui/ although other machines reach the API [default with a loopback address]
    #[arg(long, conflicts_with = "no_ui", conflicts_with = "cluster", help_heading = headings::API)]
    pub ui: bool,

    /// Do not serve the live page
    #[arg(long, help_heading = headings::API)]
    pub no_ui: bool,

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

    /// Number of simulated nodes to run in this process; each needs about 0.5 MB of memory
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = values::number::<usize>(..),
        help_heading = headings::NODES)]
    pub nodes: usize,

    /// Start from a file: a cluster's objects (`kubectl get KINDS -A -o yaml`), whose Nodes become simulated nodes, or a snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "cluster", help_heading = headings::NODES)]
    pub from: Option<PathBuf>,

    /// Links of these nodes: `in-process`, or `tls` with connections like those of other nodes
    #[arg(long, value_name = "KIND", value_enum, default_value = "in-process", hide_possible_values = true, help_heading = headings::NODES)]
    pub links: Links,

    /// Properties of the nodes
    #[command(flatten)]
    pub properties: NodeProperties,

    /// Time without a heartbeat before a node is NotReady, at least 1s
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = node_grace, help_heading = headings::LIMITS)]
    pub node_grace: Duration,

    /// Largest number of nodes that are connected at a time, for each replica [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = values::number::<usize>(1..), help_heading = headings::LIMITS)]
    pub max_nodes: Option<usize>,

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

/// How the simulated nodes of this process reach the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Links {
    /// Within the process, without sockets.
    InProcess,
    /// Over TLS.
    Tls,
}

/// A port, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub Option<u16>);

pub(super) fn port_or_off(text: &str) -> Result<Port, String> {
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
pub(super) fn time_from(text: &str, least: Duration, shown: &str) -> Result<Duration, String> {
    let period: Period = text
        .parse()
        .map_err(|error: cloudsim::faults::ParsePeriodError| error.to_string())?;
    if period.get() < least {
        return Err(format!("expected at least {shown}"));
    }
    Ok(period.get())
}
