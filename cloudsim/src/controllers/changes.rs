//! Watches only that something of a kind has changed, and not what.

use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};

/// Yields an item whenever objects of a kind may have changed.
pub(super) fn changes<K>(client: Client) -> impl Stream<Item = ()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let all = Api::<PartialObjectMeta<K>>::all(client);
    let events = watcher(all, watcher::Config::default()).default_backoff();
    events.filter_map(async |event| {
        let has_changed = matches!(
            event,
            Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone)
        );
        has_changed.then_some(())
    })
}
