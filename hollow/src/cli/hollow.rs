//! The command lines of `cloudsim hollow` and `cloudsim selftest`, whose nodes join a cloud elsewhere.

use std::{net::IpAddr, path::PathBuf};

use agent::cli::{subdomain, values};
use clap::Args;

use super::{Access, NodeProperties, Port, headings, host::host, up::port_or_off};

/// A cloud that runs elsewhere, and how nodes join it.
#[derive(Args, Clone, Debug)]
pub struct JoinArgs {
    /// Host name or IP address of the cloud, as in its certificate
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub cloud: String,

    /// Port of the cloud's HTTPS server, which issues certificates
    #[arg(long, value_name = "PORT", default_value = "10002", value_parser = values::remote_port)]
    pub https_port: u16,

    /// Port of CloudHub's WebSocket server
    #[arg(long, value_name = "PORT", default_value = "10000", value_parser = values::remote_port)]
    pub ws_port: u16,

    /// Port of the cloud's stream server, or `off`
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off)]
    pub tunnel_port: Port,

    /// File with the join token; waits until it exists
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,

    /// Address that the nodes report
    #[arg(long, value_name = "IP", env = "POD_IP", hide_env_values = true, default_value = "127.0.0.1",
        value_parser = agent::cli::node_ip)]
    pub node_ip: IpAddr,
}

/// Nodes.
#[derive(Args, Clone, Debug)]
pub struct Hollow {
    /// The cloud that they join
    #[command(flatten)]
    pub join: JoinArgs,

    /// Number of nodes
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = values::number::<usize>(1..), help_heading = headings::NODES)]
    pub nodes: usize,

    /// Prefix of node names: PREFIX-1, PREFIX-2, …
    #[arg(long, value_name = "PREFIX", default_value = "edge", value_parser = subdomain, help_heading = headings::NODES)]
    pub prefix: String,

    /// Properties of the nodes
    #[command(flatten)]
    pub properties: NodeProperties,

    /// Register the nodes with the taint node-role.kubernetes.io/edge:NoSchedule
    #[arg(long, help_heading = headings::NODES)]
    pub tainted: bool,

    /// Directory for the nodes' data [default: a temporary one; the names then stay taken until `cloudsim node reset`]
    #[arg(long, value_name = "DIR", help_heading = headings::NODES)]
    pub data_dir: Option<PathBuf>,
}

/// A test of a cloud.
#[derive(Args, Clone, Debug)]
pub struct Selftest {
    /// The cloud that is tested
    #[command(flatten)]
    pub join: JoinArgs,

    /// The cluster of the cloud [default: that of $KUBECONFIG, or of the pod in which this runs]
    #[command(flatten)]
    pub access: Access,

    /// Namespace of the test's objects
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
}
