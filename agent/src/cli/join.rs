//! Arguments of `edge-agent join` and `edge-agent reset`.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use super::{
    check_table::{CheckName, join_checks},
    label, subdomain, values,
};
use crate::config::{self, HostPort};

/// The default port of CloudHub's WebSocket server, as in KubeEdge.
const HUB_PORT: u16 = 10000;

/// Headings of the options of `edge-agent join`.
const CLOUD: &str = "Cloud";
const NODE: &str = "Node";
const START: &str = "Start";
const PATHS: &str = "Paths";

/// How a machine becomes a node.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Host of the cloud, as in its certificate, and CloudHub's WebSocket port [default port: 10000]
    #[arg(long, short = 'e', alias = "cloudcore-ipport", value_name = "HOST[:PORT]", value_parser = cloud, help_heading = CLOUD)]
    pub cloud: HostPort,

    /// Join token from `cloudsim token` or `keadm gettoken`; `-` reads stdin
    #[arg(
        long,
        short,
        value_name = "TOKEN",
        env = "EDGE_AGENT_TOKEN",
        hide_env = true,
        hide_env_values = true,
        help_heading = CLOUD
    )]
    pub token: String,

    /// Port of the HTTPS server that issues certificates
    #[arg(
        long,
        short = 's',
        alias = "certport",
        value_name = "PORT",
        default_value = "10002",
        value_parser = values::remote_port,
        help_heading = CLOUD
    )]
    pub cert_port: u16,

    /// Port for logs, exec, attach and port-forward [default: 10004 if it is open]
    #[arg(long, value_name = "PORT", value_parser = values::remote_port, help_heading = CLOUD)]
    pub tunnel_port: Option<u16>,

    /// Name of the node [default: the host name]
    #[arg(long, short = 'i', alias = "edgenode-name", value_name = "NAME", value_parser = subdomain, help_heading = NODE)]
    pub name: Option<String>,

    /// Take over the name of an existing Node
    #[arg(long, help_heading = NODE)]
    pub rejoin: bool,

    /// Labels of the Node, separated by commas. Repeatable
    #[arg(long, short, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label, help_heading = NODE)]
    pub labels: Vec<(String, String)>,

    /// Address of the node [default: the one from which the cloud is reached]
    #[arg(long, value_name = "IP", value_parser = node_ip, help_heading = NODE)]
    pub node_ip: Option<IpAddr>,

    /// Socket of the container runtime [default: that of the only runtime found]
    #[arg(
        long,
        short = 'p',
        alias = "remote-runtime-endpoint",
        value_name = "unix:///PATH",
        value_parser = runtime_endpoint,
        help_heading = NODE
    )]
    pub runtime_endpoint: Option<String>,

    /// Cgroup driver, cgroupfs or systemd [default: as reported by the runtime]
    #[arg(
        long,
        alias = "cgroupdriver",
        value_name = "DRIVER",
        hide_possible_values = true,
        help_heading = NODE
    )]
    pub cgroup_driver: Option<Driver>,

    /// Port for health, pods and metrics on 127.0.0.1; 0 disables it
    #[arg(long, value_name = "PORT", default_value = "10350", value_parser = values::port, help_heading = NODE)]
    pub read_only_port: u16,

    /// Port of the MQTT broker on 127.0.0.1 [default: 1883 if a broker answers there, else 1884 for the agent's own]
    #[arg(long, value_name = "PORT", value_parser = values::remote_port, help_heading = NODE)]
    pub mqtt_port: Option<u16>,

    /// Run the agent in this process until Ctrl-C, even with systemd
    #[arg(long, help_heading = START)]
    pub foreground: bool,

    /// Write the configuration and certificate, but do not start the agent
    #[arg(long, conflicts_with = "foreground", help_heading = START)]
    pub no_start: bool,

    /// Checks that only warn, separated by commas
    #[arg(
        long,
        alias = "ignore-preflight-errors",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = join_checks(),
        hide_possible_values = true,
        help_heading = START
    )]
    pub ignore_checks: Vec<CheckName>,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}

/// How a machine is no node any more.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub force: bool,

    /// Kill containers without a grace period
    #[arg(long)]
    pub now: bool,

    /// Do not call the container runtime; containers are left as they are
    #[arg(long)]
    pub without_runtime: bool,

    /// Paths of the installation
    #[command(flatten)]
    pub paths: InstallPaths,
}

/// Where an agent keeps everything.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct InstallPaths {
    /// Configuration file [default: etc/kubeedge/config/edgecore.yaml in --root]
    #[arg(long, value_name = "FILE", help_heading = PATHS)]
    pub config: Option<PathBuf>,

    /// Directory for all files: for a second agent on this machine, or without root
    #[arg(long, value_name = "DIR", default_value = "/", help_heading = PATHS)]
    pub root: PathBuf,
}

/// Who makes control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// The container runtime creates directories.
    Cgroupfs,
    /// systemd creates slices and scopes.
    Systemd,
}

impl InstallPaths {
    /// Returns this path of the file system below the chosen root.
    pub fn in_root(&self, path: &str) -> PathBuf {
        let root = std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone());
        root.join(path.trim_start_matches('/'))
    }

    /// Returns the path of the configuration.
    pub fn config(&self) -> PathBuf {
        match &self.config {
            Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            None => self.in_root(config::DEFAULT_PATH),
        }
    }

    /// Returns the paths with the configuration before the subcommand, unless it has its own.
    pub fn or(&self, before: &Path) -> Self {
        let before = (before != Path::new(config::DEFAULT_PATH)).then(|| before.to_owned());
        Self {
            config: self.config.clone().or(before),
            root: self.root.clone(),
        }
    }

    /// Returns the options that name these paths in a shell, each after a space: nothing for the machine's default paths.
    pub fn options(&self) -> String {
        // without the slash at its end
        let root: PathBuf = self.in_root("").components().collect();
        let root = Some(root).filter(|root| *root != *"/");
        let config = self.config.as_ref().map(|_| self.config());
        let options = [("--root", root), ("--config", config)];
        let given = options
            .into_iter()
            .filter_map(|(name, path)| Some(format!(" {name} {}", shell_word(&path?))));
        given.collect()
    }

    /// Reports whether these are the machine's default paths.
    pub fn is_system_wide(&self) -> bool {
        self.config.is_none() && self.in_root("") == *"/"
    }
}

/// Quotes a path for a shell.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    // quoting fails only for NUL bytes, which a path cannot contain
    let quoted = shlex::try_quote(&text).map(Into::into);
    quoted.unwrap_or_else(|_| text.clone().into_owned())
}

fn cloud(text: &str) -> Result<HostPort, String> {
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split('/').next().unwrap_or_default();
        let example = match config::host_port_or(host, HUB_PORT) {
            Ok(_) => host,
            Err(_) => "cloud.example.com",
        };
        return Err(format!(
            "a URL; write only the host, and CloudHub's port if it is not {HUB_PORT}: {example}"
        ));
    }
    config::host_port_or(text, HUB_PORT)
        .map_err(|why| format!("{why}; as 192.0.2.10 or cloud.example.com:{HUB_PORT}"))
}

/// Parses the address that a node reports.
///
/// # Errors
/// It is no address, or no node can have it.
pub fn node_ip(text: &str) -> Result<IpAddr, String> {
    let parsed = text.parse::<IpAddr>().ok();
    parsed.filter(|address| config::is_of_node(*address)).ok_or_else(|| {
        "not an address of the node; give one that the cloud and other nodes reach, such as 192.0.2.7"
            .to_owned()
    })
}

/// Parses the socket of a runtime: a URL, or an absolute path.
fn runtime_endpoint(text: &str) -> Result<String, String> {
    if text
        .strip_prefix("unix://")
        .unwrap_or(text)
        .starts_with('/')
    {
        return Ok(text.to_owned());
    }
    Err("expected a Unix socket, for example unix:///run/containerd/containerd.sock".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_a_host_and_perhaps_a_port() {
        for (text, read) in [
            ("cloud", "cloud:10000"),
            ("192.0.2.10", "192.0.2.10:10000"),
            ("cloud.example.com:7", "cloud.example.com:7"),
            ("::1", "[::1]:10000"),
            ("[::1]", "[::1]:10000"),
            ("[2001:db8::7]:443", "[2001:db8::7]:443"),
        ] {
            assert_eq!(cloud(text).unwrap().to_string(), read);
        }
        for bad in [
            "",
            "https://cloud",
            "cloud:",
            "cloud:0",
            "a b",
            "cloud/x",
            "*.example",
            "[::1",
            "::1]",
            "[[::1]]",
        ] {
            assert!(cloud(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_is_refused_with_the_host_to_write() {
        for (url, host) in [
            ("http://cloud.test", ": cloud.test"),
            ("https://192.0.2.10:7/", ": 192.0.2.10:7"),
            ("wss://", ": cloud.example.com"),
        ] {
            let refused = cloud(url).unwrap_err();
            assert!(
                refused.starts_with("a URL;") && refused.ends_with(host),
                "{refused}"
            );
        }
    }

    #[test]
    fn an_address_that_no_node_has_is_refused() {
        for bad in [
            "",
            "edge-1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "192.0.2.7:1",
        ] {
            assert!(node_ip(bad).unwrap_err().contains("such as"), "{bad}");
        }
        for good in ["192.0.2.7", "127.0.0.1", "2001:db8::7"] {
            assert_eq!(node_ip(good).unwrap().to_string(), good);
        }
    }

    #[test]
    fn options_name_the_paths_for_a_shell() {
        for (root, config, expected) in [
            ("/", None, ""),
            ("/srv/my node", None, " --root '/srv/my node'"),
            ("/", Some("/a.yaml"), " --config /a.yaml"),
            ("/r", Some("/a$b"), " --root /r --config '/a$b'"),
        ] {
            let paths = InstallPaths {
                config: config.map(PathBuf::from),
                root: root.into(),
            };
            assert_eq!(paths.options(), expected);
        }
    }

    #[test]
    fn everything_is_below_the_root() {
        let paths = |root: &str| InstallPaths {
            config: None,
            root: root.into(),
        };
        assert_eq!(
            paths("/").config(),
            PathBuf::from("/etc/kubeedge/config/edgecore.yaml")
        );
        assert!(paths("/").is_system_wide());
        assert_eq!(paths("/x").in_root("/var/lib"), PathBuf::from("/x/var/lib"));
        assert!(!paths("/x").is_system_wide());
        let paths = InstallPaths {
            config: Some("/a.yaml".into()),
            root: "/".into(),
        };
        assert_eq!(
            (paths.config(), paths.is_system_wide()),
            ("/a.yaml".into(), false)
        );
    }
}
