//! Watches only that something of a kind has changed, and not what.

use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource,
    core::{ObjectMeta, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};

/// Yields an item whenever objects of a kind may have changed.
pub(super) fn changes<K>(client: Client) -> impl Stream<Item = ()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    changed_objects::<K>(client).map(drop)
}

/// Yields the metadata of each object of a kind that has changed or is deleted, and `None` if any may have changed.
pub(super) fn changed_objects<K>(client: Client) -> impl Stream<Item = Option<ObjectMeta>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let all = Api::<PartialObjectMeta<K>>::all(client);
    let events = watcher(all, watcher::Config::default()).default_backoff();
    events.filter_map(async |event| match event {
        Ok(watcher::Event::Apply(object) | watcher::Event::Delete(object)) => {
            Some(Some(object.metadata))
        }
        Ok(watcher::Event::InitDone) => Some(None),
        Ok(watcher::Event::Init | watcher::Event::InitApply(_)) | Err(_) => None,
    })
}
