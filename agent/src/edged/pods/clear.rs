//! A pod that is over needs no volumes: what it kept there is room for others. Its logs and last words stay.

use super::{Context, Identity};
use crate::edged::volumes;

/// Removes the volumes, once.
pub(super) async fn volumes(context: &Context, identity: &Identity<'_>) {
    let (dirs, uid) = (context.dirs.clone(), identity.uid.to_owned());
    if context.pod_cache.with(&uid, |state| std::mem::replace(&mut state.volumes_removed, true)) {
        return;
    }
    let done = tokio::task::spawn_blocking(move || volumes::remove_volumes(&dirs, &uid)).await;
    if let Ok(Err(error)) = done {
        tracing::warn!(error = &error as &dyn std::error::Error, "volumes of a pod that is over stay");
        context.pod_cache.with(identity.uid, |state| state.volumes_removed = false);
    }
}
