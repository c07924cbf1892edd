//! The command lines of `cloudsim hollow` and `cloudsim selftest`, whose nodes join a cloud elsewhere.

use std::{net::IpAddr, path::PathBuf};

use clap::Args;

use super::{Port, cluster::subdomain, host::host, port_or_off};

/// A cloud that runs elsewhere, and how nodes join it.
#[derive(Args, Clone, Debug)]
pub struct JoinArgs {
    /// Name or address of the cloud, which stands in its certificate
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub cloud: String,

    /// Port of its HTTPS server that gives nodes their certificates
    #[arg(long, value_name = "PORT", default_value_t = 10002)]
    pub https_port: u16,

    /// Port of its CloudHub
    #[arg(long, value_name = "PORT", default_value_t = 10000)]
    pub ws_port: u16,

    /// Port for stream tunnels; off: none
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off)]
    pub tunnel_port: Port,

    /// The file with the join token, which is waited for
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,

    /// What the nodes say is their address
    #[arg(long, value_name = "IP", env = "POD_IP", default_value = "127.0.0.1", value_parser = agent::cli::node_ip)]
    pub node_ip: IpAddr,
}

/// Nodes.
#[derive(Args, Clone, Debug)]
pub struct Hollow {
    /// The cloud that they join
    #[command(flatten)]
    pub join: JoinArgs,

    /// How many
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub nodes: u16,

    /// Nodes are called PREFIX-1, PREFIX-2 and so on
    #[arg(long, value_name = "PREFIX", default_value = "edge", value_parser = subdomain)]
    pub prefix: String,

    /// Give them the taint node-role.kubernetes.io/edge:NoSchedule, so that only what tolerates it comes to them
    #[arg(long)]
    pub tainted: bool,

    /// Where each has a directory for what it is and keeps. Without it, all ends with the program, and their names are refused to whoever
    /// comes next until they are reset
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// A test of a cloud.
#[derive(Args, Clone, Debug)]
pub struct Selftest {
    /// The cloud that is tested
    #[command(flatten)]
    pub join: JoinArgs,

    /// The namespace in which the test's objects are
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
}
