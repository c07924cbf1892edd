//! The command line of `cloudsim record`.

use std::{net::IpAddr, path::PathBuf};

use agent::cli::values;
use clap::Args;

use super::{
    Port, headings,
    host::{host, listen_address},
    up::port_or_off,
};

/// The heading of options of the cloud.
const CLOUD: &str = "Cloud";

/// A proxy that records.
#[derive(Args, Clone, Debug)]
pub struct Record {
    /// Recording to write; earlier ones become FILE.1, FILE.2, FILE.3
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Directory for the proxy's CA and the nodes' keys [default: FILE.proxy]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Record secrets, tokens and the data of streams as well
    #[arg(long)]
    pub record_secrets: bool,

    /// Host name or IP address of the cloud, as in its certificate
    #[arg(long, value_name = "HOST", value_parser = host, help_heading = CLOUD)]
    pub cloud: String,

    /// Join token of the cloud, needed for new nodes; `-` reads stdin
    #[arg(long, value_name = "TOKEN", env = "CLOUDSIM_TOKEN", hide_env = true, hide_env_values = true, help_heading = CLOUD)]
    pub token: Option<String>,

    /// File with the join token of the cloud
    #[arg(long, value_name = "FILE", conflicts_with = "token", help_heading = CLOUD)]
    pub token_file: Option<PathBuf>,

    /// Port of the cloud's HTTPS server, which issues certificates
    #[arg(long, value_name = "PORT", default_value = "10002", value_parser = values::remote_port, help_heading = CLOUD)]
    pub cloud_https_port: u16,

    /// Port of the cloud's WebSocket server
    #[arg(long, value_name = "PORT", default_value = "10000", value_parser = values::remote_port, help_heading = CLOUD)]
    pub cloud_ws_port: u16,

    /// UDP port of the cloud's QUIC server, for --quic-port
    #[arg(long, value_name = "PORT", default_value = "10001", value_parser = values::remote_port, help_heading = CLOUD)]
    pub cloud_quic_port: u16,

    /// Port of the cloud's stream server
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = values::remote_port, help_heading = CLOUD)]
    pub cloud_tunnel_port: u16,

    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = listen_address, help_heading = headings::PORTS)]
    pub address: IpAddr,

    /// Host name or IP address of this proxy, for its certificate. Repeatable [default: those of --address]
    #[arg(long = "name", value_name = "HOST", value_parser = host, help_heading = headings::PORTS)]
    pub names: Vec<String>,

    /// Port of the HTTPS server for nodes; 0 picks a free port, as for all ports
    #[arg(long, value_name = "PORT", default_value = "10002", value_parser = values::port, help_heading = headings::PORTS)]
    pub https_port: u16,

    /// Port for sessions of nodes over WebSocket
    #[arg(long, value_name = "PORT", default_value = "10000", value_parser = values::port, help_heading = headings::PORTS)]
    pub ws_port: u16,

    /// UDP port for sessions of nodes over QUIC, for edge-agent only [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = headings::PORTS)]
    pub quic_port: Option<u16>,

    /// Port for stream tunnels of nodes, or `off`
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off, help_heading = headings::PORTS)]
    pub tunnel_port: Port,
}
