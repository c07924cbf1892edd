//! The command line of `cloudsim replay`.

use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

use agent::cli::values;
use clap::{Args, ValueEnum};

use super::{
    DiffFormat, Port,
    host::{host, listen_address},
    up::{port_or_off, time_from},
};

/// The heading of options for `--as edge`.
const EDGE: &str = "Play the edge";
/// The heading of options for `--as cloud`.
const CLOUD: &str = "Play the cloud";

/// A recording of which one side is played.
#[derive(Args, Clone, Debug)]
pub struct Replay {
    /// Recording, written with --record or `cloudsim record`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Side to play: edge or cloud
    #[arg(
        long = "as",
        value_name = "SIDE",
        value_enum,
        hide_possible_values = true
    )]
    pub side: PlayedSide,

    /// Node in the recording, if it has several
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,

    /// original, a factor such as 10, or max
    #[arg(long, value_name = "SPEED", default_value = "original")]
    pub speed: Speed,

    /// Send each message after Enter; answers are sent at once
    #[arg(long)]
    pub step: bool,

    /// How long an expected message is awaited
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = wait)]
    pub wait: Duration,

    /// Output format: text or json
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub output: DiffFormat,

    /// Host name or IP address of the cloud, as in its certificate
    #[arg(long, value_name = "HOST", value_parser = host, required_if_eq("side", "edge"), help_heading = EDGE)]
    pub cloud: Option<String>,

    /// Join token of the cloud; `-` reads stdin
    #[arg(long, value_name = "TOKEN", env = "CLOUDSIM_TOKEN", hide_env = true, hide_env_values = true, help_heading = EDGE)]
    pub token: Option<String>,

    /// File with the join token of the cloud
    #[arg(long, value_name = "FILE", conflicts_with = "token", help_heading = EDGE)]
    pub token_file: Option<PathBuf>,

    /// Name of the node at the cloud [default: the recorded one]
    #[arg(long, value_name = "NAME", help_heading = EDGE)]
    pub node_name: Option<String>,

    /// Address to listen on; the edge dials it
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = listen_address, help_heading = CLOUD)]
    pub address: IpAddr,

    /// Port for the stream tunnel, or `off`
    #[arg(long, value_name = "PORT", default_value = "10004", value_parser = port_or_off, help_heading = CLOUD)]
    pub tunnel_port: Port,

    /// How long the edge may take to join, as 10m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = wait, help_heading = CLOUD)]
    pub join_timeout: Duration,

    /// Port of the HTTPS server: of the cloud, or to listen on
    #[arg(long, value_name = "PORT", default_value = "10002", value_parser = values::port)]
    pub https_port: u16,

    /// Port of the WebSocket server: of the cloud, or to listen on
    #[arg(long, value_name = "PORT", default_value = "10000", value_parser = values::port)]
    pub ws_port: u16,
}

fn wait(text: &str) -> Result<Duration, String> {
    time_from(text, Duration::from_secs(1), "1s")
}

/// A side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlayedSide {
    /// The node, against a cloud
    Edge,
    /// The cloud, against a node that joins
    Cloud,
}

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As it was recorded, times this factor.
    Factor(f64),
    /// As fast as the other side answers.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "original" => Ok(Self::Factor(1.0)),
            "max" => Ok(Self::Max),
            number => match number.parse::<f64>() {
                Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(Self::Factor(factor)),
                _ => Err("expected original, max or a factor above 0, for example 10".to_owned()),
            },
        }
    }
}
