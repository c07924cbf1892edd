//! The options of commands for a running cloud.

use std::path::PathBuf;

use clap::Args;

/// The heading of these options.
const CLOUD: &str = "Cloud";

/// How a running cloud is reached.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Kubeconfig of `up`, or of the cluster [default: $KUBECONFIG, or cloudsim.kubeconfig]
    #[arg(long, global = true, value_name = "FILE", help_heading = CLOUD)]
    pub kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig [default: the current one]
    #[arg(long, global = true, value_name = "NAME", help_heading = CLOUD)]
    pub context: Option<String>,
}
