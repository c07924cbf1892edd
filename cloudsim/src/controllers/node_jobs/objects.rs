//! Writing the status of jobs.

use crds::operations::{JobStatus, NodeJob};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::controllers::workloads::with_removed_fields;

/// Writes a status that was computed from `job`, if it differs; returns the written job. `None` if nothing was written, as the status is
/// the same or the job is gone.
///
/// # Errors
/// The call failed, or the job has changed meanwhile (409).
pub(super) async fn write_status<J: NodeJob>(
    client: &Client,
    job: &J,
    status: &JobStatus,
) -> Result<Option<J>, kube::Error> {
    let value = |status: &JobStatus| serde_json::to_value(status).unwrap_or_default();
    let (old, new) = (job.status().map(value).unwrap_or_default(), value(status));
    if old == new {
        return Ok(None);
    }
    let patch = json!({
        "metadata": {"uid": job.meta().uid, "resourceVersion": job.meta().resource_version},
        "status": with_removed_fields(&old, new),
    });
    let api = Api::<J>::all(client.clone());
    let patch = Patch::Merge(&patch);
    match api
        .patch_status(&job.name_any(), &PatchParams::default(), &patch)
        .await
    {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
