//! The command line of `cloudsim conformance`.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use agent::cli::values;
use clap::{Args, ValueEnum};

use super::{
    Access, Port,
    host::host,
    up::{port_or_off, time_from},
};

/// The heading of options of tests of an edge.
const EDGE: &str = "Tests of an edge";
/// The heading of options that choose cases.
const CASES: &str = "Cases and reports";

/// Conformance tests of a cloud or an edge.
#[derive(Args, Clone, Debug)]
#[group(id = "side", required = true, multiple = true, args = ["cloud", "edge", "list"])]
pub struct Conformance {
    /// Test the cloud at this host name or IP address, as in its certificate
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub cloud: Option<String>,

    /// Test the edge that joins this command
    #[arg(long, conflicts_with_all = ["cloud", "kubeconfig", "context", "token_file"])]
    pub edge: bool,

    /// Port of the HTTPS server, which issues certificates
    #[arg(long, value_name = "PORT", default_value = "10002", value_parser = values::port)]
    pub https_port: u16,

    /// Port of CloudHub's WebSocket server
    #[arg(long, value_name = "PORT", default_value = "10000", value_parser = values::port)]
    pub ws_port: u16,

    /// UDP port of CloudHub's QUIC server, for --transport quic
    #[arg(long, value_name = "PORT", default_value = "10001", value_parser = values::port)]
    pub quic_port: u16,

    /// Transport of the sessions: websocket or quic; only edge-agent and cloudsim speak this QUIC
    #[arg(
        long,
        value_name = "TRANSPORT",
        value_enum,
        default_value = "websocket",
        hide_possible_values = true
    )]
    pub transport: SessionTransport,

    /// Port of the stream tunnel; `off` skips its cases
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off)]
    pub tunnel_port: Port,

    /// Port of the router of rules, which speaks HTTP [default: none; its cases are skipped]
    #[arg(long, value_name = "PORT", value_parser = values::port, conflicts_with = "edge")]
    pub router_port: Option<u16>,

    /// File with the join token of the cloud [default: read from Secret kubeedge/tokensecret]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// The cloud's Kubernetes API
    #[command(flatten)]
    pub access: Access,

    /// Address to listen on; the edge dials it
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", requires = "edge", help_heading = EDGE)]
    pub address: IpAddr,

    /// MQTT broker of the edge, as 192.0.2.11:1883 [default: none; its cases are skipped]
    #[arg(long, value_name = "HOST:PORT", value_parser = broker, requires = "edge", help_heading = EDGE)]
    pub mqtt: Option<String>,

    /// Image of the pods, with a shell; the edge must have it or be able to pull it
    #[arg(long, value_name = "IMAGE", default_value = "busybox", requires = "edge", help_heading = EDGE)]
    pub image: String,

    /// How long the edge may take to join, as 10m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = join_timeout, requires = "edge", help_heading = EDGE)]
    pub join_timeout: Duration,

    /// Run only cases whose id begins with this, as enrolment or session.keepalive; repeatable
    #[arg(long = "case", value_name = "PREFIX", help_heading = CASES)]
    pub cases: Vec<String>,

    /// Run only the cases of this profile: core or extended [default: both]
    #[arg(long, value_name = "PROFILE", value_enum, hide_possible_values = true, help_heading = CASES)]
    pub profile: Option<CaseProfile>,

    /// List the selected cases with their sources, and exit
    #[arg(long, help_heading = CASES)]
    pub list: bool,

    /// Name of the tested project in the report
    #[arg(long, value_name = "NAME", default_value = "unknown", help_heading = CASES)]
    pub project: String,

    /// Its version in the report
    #[arg(long, value_name = "VERSION", default_value = "unknown", help_heading = CASES)]
    pub project_version: String,

    /// Write the report as YAML, in the form of Gateway API's ConformanceReport
    #[arg(long, value_name = "FILE", help_heading = CASES)]
    pub report: Option<PathBuf>,

    /// Write the report as JUnit XML
    #[arg(long, value_name = "FILE", help_heading = CASES)]
    pub junit: Option<PathBuf>,
}

fn broker(text: &str) -> Result<String, String> {
    let port = text
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    match port {
        Some(1..=u16::MAX) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT".to_owned()),
    }
}

fn join_timeout(text: &str) -> Result<Duration, String> {
    time_from(text, Duration::from_secs(1), "1s")
}

/// A profile of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CaseProfile {
    /// What KubeEdge does with its default configuration.
    Core,
    /// What has to be enabled in KubeEdge, or is not in all versions.
    Extended,
}

/// The transport of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SessionTransport {
    /// JSON over WebSocket.
    Websocket,
    /// KubeEdge's frames over QUIC of RFC 9000.
    Quic,
}
