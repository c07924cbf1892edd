//! When probes run, how many results count, and how soon the cloud sees what came of them.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::{
        atomic::Ordering,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, ensure};
use e2e::{containerd::RealRig, until};
use serde_json::json;
use testkit::PROCESS_TIMEOUT;

use crate::{
    case::{apply, leaves_nothing, pod},
    server::{Answer, HttpServer},
};

/// How many changes are measured.
const CHANGES: usize = 6;
/// The most that half of the changes may take to the cloud: ten times what they take on a machine that does nothing else.
const SOON: Duration = Duration::from_secs(1);

/// Lines of kubectl that nobody has read yet: more than a test makes.
const LINES: usize = 1024;

/// What kubectl prints of a pod whenever it changes, with the time at which it did.
struct Watch {
    kubectl: Child,
    seen: Receiver<(SystemTime, String)>,
}

impl Watch {
    fn start(rig: &RealRig, pod: &str, path: &str) -> anyhow::Result<Self> {
        let form = format!("jsonpath={{{path}}}{{\"\\n\"}}");
        let mut command = rig
            .cloud
            .kubectl
            .command(&["get", "pod", pod, "-w", "-o", &form]);
        let mut kubectl = command.stdout(Stdio::piped()).spawn()?;
        let out = kubectl.stdout.take().context("kubectl has no output")?;
        let (sender, seen) = mpsc::sync_channel(LINES);
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // fails when the test has ended
                let _ = sender.send((SystemTime::now(), line));
            }
        });
        Ok(Self { kubectl, seen })
    }

    /// When it printed this first from now on.
    fn wait(&self, text: &str) -> anyhow::Result<SystemTime> {
        loop {
            let (at, line) = self
                .seen
                .recv_timeout(PROCESS_TIMEOUT)
                .with_context(|| format!("never printed: {text}"))?;
            if line == text {
                return Ok(at);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // both fail only where it has ended already
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

/// When the runtime says that a container started and ended.
fn life_span(rig: &RealRig, id: &str) -> anyhow::Result<[SystemTime; 2]> {
    let status = rig.containerd.raw_cri.status(id)?;
    let time = |nanoseconds: i64| -> anyhow::Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds.try_into()?))
    };
    Ok([time(status.started_at)?, time(status.finished_at)?])
}

fn count(answers: &[Answer], well: bool, before: SystemTime) -> usize {
    answers
        .iter()
        .filter(|answer| answer.well == well && answer.at <= before)
        .count()
}

#[test]
// what was measured is for people who look
#[allow(clippy::print_stderr)]
fn what_a_probe_finds_is_seen_in_the_cloud_at_once() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let server = HttpServer::start()?;
    let probe = json!({"httpGet": {"port": server.port}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 30});
    apply(
        &rig,
        &[pod(
            "probed",
            &json!({"hostNetwork": true, "containers": [{"readinessProbe": probe}]}),
        )],
    )?;
    let watch = Watch::start(&rig, "probed", ".status.containerStatuses[0].ready")?;
    watch.wait("true")?;
    let mut took = Vec::new();
    for change in 0..CHANGES {
        let well = change % 2 == 1;
        let before = SystemTime::now();
        server.well.store(well, Ordering::SeqCst);
        let seen = watch.wait(&well.to_string())?;
        let answers = server.answers("");
        let first = answers
            .iter()
            .find(|answer| answer.well == well && answer.at >= before);
        took.push(seen.duration_since(first.context("no answer")?.at)?);
    }
    took.sort();
    eprintln!("from the answer of what is probed to kubectl: {took:?}");
    ensure!(took[CHANGES / 2] < SOON, "{took:?}");
    leaves_nothing(&rig)
}

#[test]
fn probes_begin_after_their_delay_and_count_to_their_thresholds() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let (ready, alive) = (HttpServer::start()?, HttpServer::start()?);
    let probe = |server: &HttpServer, delay: u32| {
        json!({"httpGet": {"port": server.port}, "periodSeconds": 1, "timeoutSeconds": 30,
            "initialDelaySeconds": delay, "failureThreshold": 3})
    };
    let mut slow = probe(&ready, 3);
    slow["successThreshold"] = 2.into();
    let on_node = |probe: &str, what| json!({"hostNetwork": true, "containers": [{probe: what}]});
    apply(
        &rig,
        &[
            pod("ready", &on_node("readinessProbe", slow)),
            pod("alive", &on_node("livenessProbe", probe(&alive, 2))),
        ],
    )?;
    let watch = Watch::start(&rig, "ready", ".status.containerStatuses[0].ready")?;
    let at = watch.wait("true")?;
    ensure!(
        count(&ready.answers(""), true, at) >= 2,
        "too few successes: {:?}",
        ready.answers("")
    );
    ready.well.store(false, Ordering::SeqCst);
    let at = watch.wait("false")?;
    ensure!(
        count(&ready.answers(""), false, at) >= 3,
        "too few failures: {:?}",
        ready.answers("")
    );
    let first = until("a first probe", || {
        alive.answers("").first().cloned().ok_or("none")
    })?;
    alive.well.store(false, Ordering::SeqCst);
    let restarted = rig.wait_pod("alive", |pod| {
        if pod["status"]["containerStatuses"][0]["restartCount"] == 1 {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })?;
    let last =
        &restarted["status"]["containerStatuses"][0]["lastState"]["terminated"]["containerID"];
    let id = last
        .as_str()
        .and_then(|id| id.strip_prefix("containerd://"))
        .context("no last container")?;
    let [started, ended] = life_span(&rig, id)?;
    // who is condemned is not probed any more: the number is exact
    let failures = count(&alive.answers(""), false, ended);
    ensure!(
        failures == 3,
        "{failures} failures condemned it: {:?}",
        alive.answers("")
    );
    let container = RealRig::container_id(&rig.pod("ready")?.context("it is gone")?, "main")?;
    let [other, _] = life_span(&rig, &container)?;
    for (start, first, delay) in [
        (started, Some(first), 2),
        (other, ready.answers("").first().cloned(), 3),
    ] {
        let waited = first.context("no probe")?.at.duration_since(start)?;
        ensure!(
            waited >= Duration::from_secs(delay),
            "the first probe came after {waited:?}"
        );
    }
    leaves_nothing(&rig)
}
