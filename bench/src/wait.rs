//! Waits for a state of the API by its watches.

use std::{collections::HashSet, fmt::Debug, pin::pin, time::Instant};

use anyhow::Context;
use futures::TryStreamExt;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use testkit::LONG_TIMEOUT;

/// Waits until `count` objects are as wanted.
pub(crate) async fn until<K>(
    api: Api<K>,
    count: usize,
    wanted: impl Fn(&K) -> bool,
) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    when(api, [count], wanted).await.map(|_| ())
}

/// Waits until each of these numbers of objects is as wanted, and returns when each was reached.
pub(crate) async fn when<K, const N: usize>(
    api: Api<K>,
    counts: [usize; N],
    wanted: impl Fn(&K) -> bool,
) -> anyhow::Result<[Instant; N]>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let counting = async {
        let mut objects = pin!(
            watcher::watcher(api, watcher::Config::default())
                .default_backoff()
                .applied_objects()
        );
        let (mut seen, mut reached) = (HashSet::new(), [Instant::now(); N]);
        for (count, reached) in counts.into_iter().zip(&mut reached) {
            while seen.len() < count {
                let object = objects.try_next().await?.context("the watch has ended")?;
                let place = (object.namespace(), object.name_any());
                match wanted(&object) {
                    true => seen.insert(place),
                    false => seen.remove(&place),
                };
            }
            *reached = Instant::now();
        }
        anyhow::Ok(reached)
    };
    tokio::time::timeout(LONG_TIMEOUT, counting)
        .await
        .with_context(|| format!("not reached within {LONG_TIMEOUT:?}"))?
}

/// Waits until no object is left.
pub(crate) async fn until_gone<K>(api: Api<K>) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let emptying = async {
        let mut events = pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
        let (mut left, mut is_known) = (HashSet::new(), false);
        while let Some(event) = events.try_next().await? {
            match event {
                watcher::Event::Init => left.clear(),
                watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                    left.insert(object.name_any());
                }
                watcher::Event::InitDone => is_known = true,
                watcher::Event::Delete(object) => {
                    left.remove(&object.name_any());
                }
            }
            if is_known && left.is_empty() {
                break;
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LONG_TIMEOUT, emptying)
        .await
        .with_context(|| format!("something is left after {LONG_TIMEOUT:?}"))?
}
