//! Connects to a running cloud by its kubeconfig.

use std::path::Path;

use anyhow::Context;
use http::Uri;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Where `cloudsim up` writes its kubeconfig by default.
const WRITTEN: &str = "cloudsim.kubeconfig";

/// Returns a client and the server's address. Without a file it uses, like kubectl, `$KUBECONFIG`, which may list several files, or else
/// the kubeconfig that `cloudsim up` writes to the current directory.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<(Client, Uri)> {
    const CURE: &str = "give the kubeconfig that `cloudsim up` wrote with --kubeconfig or in $KUBECONFIG";
    let read = match kubeconfig {
        Some(file) => Kubeconfig::read_from(file),
        None => match Kubeconfig::from_env() {
            Ok(None) => Kubeconfig::read_from(WRITTEN),
            Ok(Some(read)) => Ok(read),
            Err(error) => return Err(error).context(format!("$KUBECONFIG names no kubeconfig; {CURE}")),
        },
    };
    let read = read.with_context(|| {
        format!("{} is no kubeconfig; {CURE}", kubeconfig.unwrap_or(Path::new(WRITTEN)).display())
    })?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let server = config.cluster_url.clone();
    Ok((Client::try_from(config)?, server))
}
