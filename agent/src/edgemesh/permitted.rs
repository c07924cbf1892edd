//! The watch of DestinationRules, which most nodes may not read: it begins when a list is permitted. kube's own watch would warn of each
//! attempt, and a node without these rules lacks nothing.

use std::{future::ready, time::Duration};

use futures::{Stream, StreamExt, stream};
use kube::{
    Api,
    api::ListParams,
    core::DynamicObject,
    runtime::watcher::{self, Event},
};
use tracing::{debug, info};

/// The pause before what was refused is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Watches the rules whenever that is permitted.
pub(super) fn watch(
    api: Api<DynamicObject>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Send + 'static {
    let whenever_permitted = stream::repeat(api).then(|api| async {
        until_permitted(&api).await;
        api
    });
    whenever_permitted.flat_map(move |api| {
        let events = watcher::watcher(api, config.clone());
        // the right may be taken back
        events
            .take_while(|event| ready(!event.as_ref().is_err_and(is_forbidden)))
            .boxed()
    })
}

/// Waits until a list is not refused. Other failures are left to the watch, which tries again.
async fn until_permitted(api: &Api<DynamicObject>) {
    let mut told = false;
    while let Err(kube::Error::Api(status)) = api.list(&ListParams::default()).await {
        if status.code != 403 {
            return;
        }
        let reason = status.message;
        if told {
            debug!(reason, "DestinationRules still ignored");
        } else {
            info!(
                reason,
                "DestinationRules ignored: this node may not read them; to use them, bind a ClusterRole with get, list and watch of destinationrules to the group system:nodes (docs/mesh.md)"
            );
        }
        told = true;
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        _ => return false,
    };
    status.code == 403
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use kube::{Client, client::Body};
    use serde_json::json;
    use testkit::LogBuffer;
    use tracing::instrument::WithSubscriber;
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::edgemesh::destination_rules;

    /// An API that refuses the first lists, and then has one rule.
    fn api(refusals: usize) -> Api<DynamicObject> {
        let asked = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let (code, body) = if asked.fetch_add(1, Ordering::Relaxed) < refusals {
                let message = "destinationrules is forbidden";
                (
                    403,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                    "reason": "Forbidden", "message": message}),
                )
            } else {
                let item = json!({"metadata": {"name": "web", "namespace": "shop"}});
                (
                    200,
                    json!({"kind": "DestinationRuleList", "apiVersion": "networking.istio.io/v1alpha3",
                    "metadata": {"resourceVersion": "1"}, "items": [item]}),
                )
            };
            let response = http::Response::builder()
                .status(code)
                .body(Body::from(body.to_string().into_bytes()));
            ready(response)
        });
        Api::all_with(Client::new(service, "default"), &destination_rules::kind())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_not_be_read_is_told_once_and_read_when_it_may_be() {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let lines = lines.with_filter(tracing_subscriber::filter::LevelFilter::INFO);
        let events = watch(api(3), watcher::Config::default());
        let read = async {
            let mut events = pin!(events);
            loop {
                match events.next().await {
                    Some(Ok(Event::InitApply(rule))) => return rule.metadata.name,
                    Some(Ok(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        let name = read
            .with_subscriber(tracing_subscriber::registry().with(lines))
            .await;
        assert_eq!(name.as_deref(), Some("web"));
        let text = buffer.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains(" INFO ") && text.contains("bind a ClusterRole"),
            "{text}"
        );
    }
}
