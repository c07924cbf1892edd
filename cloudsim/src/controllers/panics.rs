//! Panics at one object: a defect that this object reveals. It is logged with the object, which is tried again after growing waits, while
//! the other objects and controllers continue. A panic anywhere else in a task of the cloud still ends the cloud ([`crate::tasks`]).

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    thread,
    time::Duration,
};

use clock::HashMap;

use crate::controllers::reconciler::Action;
use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt;
use parking_lot::Mutex;
use tracing::error;

use super::requeue::due;
use crate::tasks::panic_message;

/// The wait after the first panic at an object; each further one doubles it.
const FIRST_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often the wait is doubled: the longest is 1024 seconds, about that of client-go's controllers.
const MAX_DOUBLINGS: u32 = 10;
/// The number of objects whose panics are counted; above it, counting begins again.
const MAX_OBJECTS: usize = 10_000;

/// How often each object of each controller has panicked since it last did not.
static PANICS: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);

/// Runs `work`, which `controller` does for `object`.
///
/// # Errors
/// If it panics, returns the wait before the object is tried again.
pub(super) async fn catch_panic<T>(
    controller: &str,
    object: &str,
    work: impl Future<Output = T>,
) -> Result<T, Duration> {
    // boxed: it may be large
    let work = AssertUnwindSafe(Box::pin(work));
    record(controller, object, work.catch_unwind().await)
}

/// Does what [`catch_panic`] does for work that does not wait.
///
/// # Errors
/// As there.
pub(super) fn catch_panic_in<T>(
    controller: &str,
    object: &str,
    work: impl FnOnce() -> T,
) -> Result<T, Duration> {
    record(controller, object, catch_unwind(AssertUnwindSafe(work)))
}

fn record<T>(controller: &str, object: &str, done: thread::Result<T>) -> Result<T, Duration> {
    let key = format!("{controller} {object}");
    let panic = match done {
        Ok(done) => {
            PANICS.lock().remove(&key);
            return Ok(done);
        }
        Err(panic) => panic_message(panic.as_ref()),
    };
    let mut panics = PANICS.lock();
    if panics.len() >= MAX_OBJECTS {
        panics.clear();
    }
    let times = panics.entry(key).or_default();
    let wait = FIRST_RETRY_INTERVAL * (1 << (*times).min(MAX_DOUBLINGS));
    *times += 1;
    if due(&format!("{controller} {object} {panic}")).is_some() {
        error!(controller, object, times, panic, retry_in = ?wait,
            "controller panicked at an object; other objects continue; please report this with the log");
    }
    Err(wait)
}

/// Returns `reconcile` with [`catch_panic`] around it.
pub(super) fn catch_panics<K, C, E, F>(
    controller: &'static str,
    reconcile: impl Fn(Arc<K>, Arc<C>) -> F + Send + 'static,
) -> impl Fn(Arc<K>, Arc<C>) -> BoxFuture<'static, Result<Action, E>> + Send + 'static
where
    K: ResourceExt,
    F: Future<Output = Result<Action, E>> + Send + 'static,
    E: 'static,
{
    move |object, context| {
        let name = [object.namespace().unwrap_or_default(), object.name_any()].join("/");
        let reconciling = reconcile(object, context);
        async move {
            let done = catch_panic(controller, name.trim_start_matches('/'), reconciling).await;
            done.unwrap_or_else(|wait| Ok(Action::requeue(wait)))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;
    use testkit::until;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::controllers::{
        informers::{Failure, Triggers, work},
        test_api::TestApi,
        workloads::cluster,
    };

    cluster!(Cluster {
        maps: ConfigMap,
        secrets: Secret
    });

    /// The names of the objects that were reconciled.
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Panics at the first two reconciliations of `bad`.
    async fn reconcile(map: Arc<ConfigMap>, _: Arc<Cluster>) -> Result<Action, Failure> {
        let seen = {
            let mut seen = SEEN.lock();
            seen.push(map.name_any());
            seen.iter().filter(|name| *name == "bad").count()
        };
        assert!(
            map.name_any() != "bad" || seen > 2,
            "bad for the {seen}. time"
        );
        Ok(Action::await_change())
    }

    /// Panics in its trigger at the Secret `bad`; another Secret concerns the map of its name.
    async fn run(cluster: Cluster, stop: CancellationToken) {
        let queue = (cluster.queues.queue("panicking"), cluster.maps.clone());
        let triggers = Triggers::none().and(&cluster.secrets, |change| {
            assert!(change.object.name_any() != "bad", "a bad Secret");
            [kube::runtime::reflector::ObjectRef::from_obj(&ConfigMap {
                metadata: change.object.metadata.clone(),
                ..ConfigMap::default()
            })]
        });
        work(queue, triggers, cluster, reconcile, stop).await;
    }

    #[tokio::test]
    async fn panic_at_one_object_is_retried_and_stops_neither_other_objects_nor_the_controller() {
        let api = TestApi::with("default", run).await;
        let count = |name: &str| SEEN.lock().iter().filter(|seen| *seen == name).count();
        for name in ["bad", "good"] {
            let map = json!({"metadata": {"name": name}});
            api.create("v1", "ConfigMap", "default", map).await;
        }
        until("both maps are reconciled", || {
            count("bad") >= 1 && count("good") == 1
        })
        .await;
        // the waits are one and two seconds
        until("the bad map is tried until it succeeds", || {
            count("bad") == 3
        })
        .await;
        assert!(
            !PANICS
                .lock()
                .keys()
                .any(|key| key.starts_with("panicking "))
        );
        for name in ["bad", "good"] {
            let secret = json!({"metadata": {"name": name}});
            api.create("v1", "Secret", "default", secret).await;
        }
        until("the Secret after the bad one has triggered", || {
            count("good") == 2
        })
        .await;
    }

    #[tokio::test]
    async fn each_panic_at_an_object_doubles_the_wait_up_to_a_limit() {
        let mut waits = Vec::new();
        for _ in 0..13 {
            let done = catch_panic("test", "a", async { panic!("number {}", 7) });
            waits.push(done.await.map(|(): ()| ()).unwrap_err().as_secs());
        }
        let doubled: Vec<u64> = (0..13).map(|times: u32| 1 << times.min(10)).collect();
        assert_eq!(waits, doubled);
        assert_eq!(catch_panic("test", "a", async { 7 }).await, Ok(7));
        assert_eq!(
            catch_panic_in::<()>("test", "a", || panic!("again")),
            Err(FIRST_RETRY_INTERVAL)
        );
    }
}
