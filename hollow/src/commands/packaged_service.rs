//! The packaged service of the cloud, and why it does not run.

use std::path::Path;

use agent::service::{FailedService, is_stopped};

/// Its name.
pub(super) const UNIT: &str = "cloudsim.service";
/// Its kubeconfig (`hollow/cloudsim.service`).
const KUBECONFIG: &str = "/var/lib/cloudsim/kubeconfig";

/// Reports whether a kubeconfig is that of the service.
pub(super) fn has_kubeconfig(file: &Path) -> bool {
    file == Path::new(KUBECONFIG)
}

/// Returns why the service does not run, and the cure; `None` if it runs or is not installed.
pub(super) async fn fault() -> Option<String> {
    if let Some(failed) = FailedService::find(UNIT).await {
        let (what, cure) = failed.texts(UNIT, UNIT);
        return Some(format!(
            "{what}; {cure}; its options are in /etc/default/cloudsim"
        ));
    }
    is_stopped(UNIT)
        .await
        .then(|| format!("{UNIT} is not running; start it: systemctl start {UNIT}"))
}
