//! The options of commands for a running cloud.

use std::path::PathBuf;

use clap::Args;

/// How a running cloud is reached.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The kubeconfig that `up` wrote, or that of the cluster in cluster mode [default: $KUBECONFIG, or cloudsim.kubeconfig]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: the current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}
