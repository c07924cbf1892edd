//! Measures events sent to many watchers of one collection at a steady rate, in process: how late each delivery is, whether lateness
//! grows, and what it costs.

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::{MissedTickBehavior, interval};

use crate::{Figure, processes::processor_seconds};

const WATCHERS: usize = 1_000;
/// The number of events: twenty seconds of them.
const EVENTS: usize = 2_000;
/// The interval between events: 100 a second.
const PERIOD: Duration = Duration::from_millis(10);
/// How many of the first and of the last events are compared: a growing queue makes the latter later.
const WINDOW: usize = 200;

type Sent = Arc<[OnceLock<Instant>]>;

/// Measures lateness from the request that causes an event until a watcher has its line. The lines are not decoded: that is each
/// client's own work, on its own machine.
pub(crate) async fn steady() -> anyhow::Result<Vec<Figure>> {
    let client = super::api::client().await?;
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    let sent: Sent = (0..EVENTS).map(|_| OnceLock::new()).collect();
    let mut watchers = Vec::with_capacity(WATCHERS);
    for _ in 0..WATCHERS {
        watchers.push(tokio::spawn(lateness(client.clone(), Arc::clone(&sent))));
    }
    let (begun, used) = (Instant::now(), processor_seconds()?);
    let mut ticks = interval(PERIOD);
    // A late tick does not delay those after it.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for (number, sent) in sent.iter().enumerate() {
        ticks.tick().await;
        sent.get_or_init(Instant::now);
        let metadata = ObjectMeta {
            name: Some(format!("map-{number}")),
            ..ObjectMeta::default()
        };
        api.create(
            &PostParams::default(),
            &ConfigMap {
                metadata,
                ..ConfigMap::default()
            },
        )
        .await?;
    }
    let mut late = Vec::with_capacity(WATCHERS * EVENTS);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for watcher in watchers {
        let of_one = watcher.await??;
        first.extend_from_slice(of_one.get(..WINDOW).unwrap_or_default());
        last.extend_from_slice(of_one.get(EVENTS - WINDOW..).unwrap_or_default());
        late.extend(of_one);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cores = (processor_seconds()? - used) / seconds;
    late.sort_unstable();
    let figure = |name: &'static str, value, unit| Figure {
        name: name.into(),
        value,
        unit,
    };
    Ok(vec![
        figure(
            "api.fanout",
            (WATCHERS * EVENTS) as f64 / seconds,
            "events/s",
        ),
        figure("api.fanout.late-p50", at(&late, 0.5), "ms"),
        figure("api.fanout.late-p99", at(&late, 0.99), "ms"),
        figure("api.fanout.late-max", at(&late, 1.0), "ms"),
        figure("api.fanout.late-mean-first-2s", mean(&first), "ms"),
        figure("api.fanout.late-mean-last-2s", mean(&last), "ms"),
        figure("api.fanout.processors", cores, "cores"),
    ])
}

/// Returns how late each event arrives at one watcher, in microseconds.
async fn lateness(client: kube::Client, sent: Sent) -> anyhow::Result<Vec<u32>> {
    let request =
        http::Request::get("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1");
    let lines = client
        .request_stream(request.body(Vec::new())?)
        .await?
        .lines();
    let mut lines = pin!(lines);
    let mut late = Vec::with_capacity(sent.len());
    for sent in sent.iter() {
        let Some(line) = lines.try_next().await? else {
            bail!("a watch has ended")
        };
        if !line.starts_with(r#"{"type":"ADDED""#) {
            bail!("a watch says {line}");
        }
        let sent = sent.get().context("an event came before it was made")?;
        late.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(late)
}

/// Returns the value below which this share of the sorted values lies, in milliseconds.
fn at(sorted: &[u32], share: f64) -> f64 {
    let index = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted
        .get(index)
        .map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

fn mean(micros: &[u32]) -> f64 {
    micros.iter().map(|micros| f64::from(*micros)).sum::<f64>() / micros.len().max(1) as f64 / 1e3
}
