//! Watches outlive connections: after each new connection the watches are sent to the cloud, and what was missed is listed.

use std::time::Duration;

use clock::Instant;

use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};
use wire::application::Watches;

use super::{service::ApiServer, watches::ClientWatches};

/// How often idle watches are removed, and those that the cloud did not take are sent again.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Keeps the cloud's watches equal to those of the clients; never returns.
pub(super) async fn run(api_server: &ApiServer, watches: &ClientWatches) {
    let mut links = api_server.cloud.links();
    let mut looks = interval(CHECK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut synced_link = None;
    loop {
        let link = *links.borrow_and_update();
        if watches.forget_idle(Instant::now()) || synced_link != Some(link) {
            synced_link = send_watches(api_server, watches).await.then_some(link);
        }
        for collection in watches.all() {
            if api_server.cloud.link().is_some()
                && !api_server.is_watched(&collection)
                && let Err(failure) = api_server.subscribe(&collection).await
            {
                debug!(collection = %collection.target, error = %failure, "failed to fetch a watched collection from the cloud");
            }
        }
        // cancel-safe: each only shortens the wait for the next check.
        clock::select! {
            changed = links.changed() => if changed.is_err() { return std::future::pending().await },
            _ = looks.tick() => {}
        }
    }
}

/// Sends the watches. Returns whether the cloud knows them now.
async fn send_watches(api_server: &ApiServer, watches: &ClientWatches) -> bool {
    if api_server.cloud.link().is_none() {
        return false;
    }
    let calls = watches
        .all()
        .into_iter()
        .map(|collection| api_server.watch_call(&collection));
    let watches: Watches = calls.map(|call| (call.id.clone(), call)).collect();
    match api_server.cloud.send_watches(&watches).await {
        Ok(()) => true,
        Err(failure) => {
            warn!(error = %failure, "failed to send the list of watches to the cloud");
            false
        }
    }
}
