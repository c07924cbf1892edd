//! Options of a cloud that works with the API server of an existing cluster.

use std::{net::IpAddr, path::PathBuf};

use agent::cli::{subdomain, values};
use clap::Args;

use super::headings;

/// The options that only a cloud without a cluster takes.
const STANDALONE: [&str; 11] = [
    "api_port",
    "kubeconfig",
    "context",
    "set_current_context",
    "data_dir",
    "key_file",
    "nodes",
    "node_grace",
    "controllers",
    "rbac",
    "service_account_max_token_expiration",
];

/// The options of cluster mode. All keys, tokens and records are then in namespace kubeedge of the cluster, and any number of replicas
/// are one cloud.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// Use the API server of this context's cluster
    #[arg(long, value_name = "NAME", conflicts_with = "in_cluster", conflicts_with_all = STANDALONE, help_heading = headings::CLUSTER)]
    pub kube_context: Option<String>,

    /// Kubeconfig of the cluster; without --kube-context, its current context [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", conflicts_with = "in_cluster", conflicts_with_all = STANDALONE, help_heading = headings::CLUSTER)]
    pub cluster_kubeconfig: Option<PathBuf>,

    /// Use the API server of the cluster in whose pod cloudsim runs, with the pod's service account
    #[arg(long, requires = "names", conflicts_with_all = STANDALONE, help_heading = headings::CLUSTER)]
    pub in_cluster: bool,

    /// Common name of all replicas; a cluster can have one installation
    #[arg(long, value_name = "NAME", default_value = "cloudsim", value_parser = subdomain, requires = "cluster",
        help_heading = headings::CLUSTER)]
    pub installation: String,

    /// Install missing KubeEdge CRDs
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, hide_possible_values = true,
        requires = "cluster", help_heading = headings::CLUSTER)]
    pub install_crds: bool,

    /// Run the controllers of NodeGroups and EdgeApplications, unless KubeEdge's ControllerManager runs in the cluster
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, hide_possible_values = true,
        requires = "cluster", help_heading = headings::CLUSTER)]
    pub node_groups: bool,

    /// HTTP port for /healthz, /readyz and /metrics [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, requires = "cluster", help_heading = headings::CLUSTER)]
    pub health_port: Option<u16>,

    /// Port of metrics.k8s.io for `kubectl top`, which the cluster's API server calls, usually 10006 [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, requires = "cluster", help_heading = headings::CLUSTER)]
    pub metrics_api_port: Option<u16>,

    /// HTTPS port of the live page, where users log in with tokens of the cluster, usually 10007 [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, requires = "cluster", help_heading = headings::CLUSTER)]
    pub ui_port: Option<u16>,

    /// Port at which other replicas reach this one, to forward logs, commands, router calls and relayed streams, usually 10005
    /// [default: none]
    #[arg(long, value_name = "PORT", value_parser = values::port, requires = "cluster", help_heading = headings::CLUSTER)]
    pub replica_port: Option<u16>,

    /// IP address at which other replicas reach this one [default: --address]
    #[arg(long, value_name = "IP", requires = "replica_port", help_heading = headings::CLUSTER)]
    pub replica_address: Option<IpAddr>,
}

impl ClusterArgs {
    /// Reports whether a cluster is given.
    pub fn is_given(&self) -> bool {
        self.in_cluster || self.kube_context.is_some() || self.cluster_kubeconfig.is_some()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn what_makes_no_sense_before_a_cluster_is_refused_by_name() {
        let backed = |more: &[&str]| {
            let words = ["cloudsim", "up", "--kube-context", "kind-kind"];
            Cli::try_parse_from(words.iter().chain(more)).map_err(|error| error.to_string())
        };
        assert!(
            backed(&[
                "--health-port",
                "8080",
                "--install-crds",
                "false",
                "--node-groups",
                "false"
            ])
            .is_ok()
        );
        for option in [
            &["--api-port", "6443"][..],
            &["--kubeconfig", "k"],
            &["--context", "k"],
            &["--set-current-context"],
            &["--data-dir", "d"],
            &["--nodes", "1"],
            &["--node-grace", "9"],
            &["--controllers", "*"],
            &["--rbac=false"],
            &["--service-account-max-token-expiration", "2h"],
            &["--in-cluster", "--name", "n"],
        ] {
            let refused = backed(option).unwrap_err();
            assert!(
                refused.contains(option[0].split('=').next().unwrap())
                    && refused.contains("--kube-context"),
                "{refused}"
            );
        }
        assert!(backed(&["--installation", "blue.edge-2"]).is_ok());
        for name in ["", "Blue", "-a", "a-", "a..b", "a b", "ä"] {
            let refused = backed(&[&format!("--installation={name}")]).unwrap_err();
            assert!(
                refused.contains("--installation") && refused.contains("RFC 1123"),
                "{refused}"
            );
        }
        for option in [
            &["--health-port", "1"][..],
            &["--replica-port", "1"],
            &["--metrics-api-port", "1"],
            &["--ui-port", "1"],
            &["--kube-context", "c", "--replica-address", "192.0.2.1"],
            &["--installation", "i"],
            &["--in-cluster"],
        ] {
            assert!(
                Cli::try_parse_from(["cloudsim", "up"].iter().chain(option)).is_err(),
                "{option:?}"
            );
        }
    }
}
