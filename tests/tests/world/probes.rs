//! What a probe finds is in the API at once.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tests::{World, manifests::pod, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// How often the answer changes in one round.
const CHANGES: usize = 5;
/// How many rounds there are at most: a machine that has other things to do has them for a while.
const ROUNDS: usize = 5;
/// From the server's answer to the status in the cloud, through agent and hub; the median of a round counts.
const EFFECT: Duration = Duration::from_millis(100);

/// Says 200 or 503, and when it first said so after a change.
struct Server {
    well: AtomicBool,
    said: Mutex<Option<Instant>>,
}

impl Server {
    async fn run(self: Arc<Self>, listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let status = if self.well.load(Ordering::SeqCst) {
                "200 OK"
            } else {
                "503 Service Unavailable"
            };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            self.said.lock().unwrap().get_or_insert_with(Instant::now);
        }
    }

    fn change(&self, well: bool) {
        self.well.store(well, Ordering::SeqCst);
        *self.said.lock().unwrap() = None;
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probes_answer_is_in_the_status_at_once() {
    let world = World::new(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Arc::new(Server {
        well: AtomicBool::new(true),
        said: Mutex::default(),
    });
    tokio::spawn(server.clone().run(listener));
    let mut manifest = pod("probed", Some("edge-1"));
    manifest["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "failureThreshold": 1});
    world.run(&manifest).await;
    let pods = Api::<Pod>::default_namespaced(world.client());
    let mut watch = pin!(
        watcher(pods, watcher::Config::default())
            .default_backoff()
            .applied_objects()
    );
    let (mut took, mut rounds) = (Vec::new(), Vec::new());
    let mut well = true;
    for _ in 0..ROUNDS * CHANGES {
        well = !well;
        server.change(well);
        let seen = async {
            while let Some(Ok(pod)) = watch.next().await {
                if is_ready(&pod) == well {
                    return Instant::now();
                }
            }
            panic!("the watch has ended");
        };
        let seen = within("the status that follows the probe", seen).await;
        // a probe that got no answer in time is an answer too, and not the server's
        took.extend(server.said.lock().unwrap().map(|said| seen - said));
        if took.len() < CHANGES {
            continue;
        }
        took.sort();
        if took[CHANGES / 2] <= EFFECT {
            return;
        }
        rounds.push(std::mem::take(&mut took));
    }
    panic!("from answer to status: {rounds:?}");
}
