//! Calls that are cut off at random moments, as those of an agent that is killed, or because containerd itself is: what it has lost
//! sight of since then ends all the same, and nothing of it is left.
//!
//! `OUTRIGGER_CUT_OFF_SEED` repeats a run at other moments.

use std::{
    collections::BTreeMap,
    env, fs,
    future::Future,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{
    at,
    containerd::{Containerd, RawCri, RealRig, Traces},
    group_root, pod_group, until,
};
use testkit::{PROCESS_TIMEOUT, Random};
use tokio::{task::JoinSet, time::timeout};
use tonic::{Response, Status, transport::Channel};
use wire::cri::{self, runtime_service_client::RuntimeServiceClient};

use crate::case::leaves_nothing_of;

/// How many pods are begun at the same time.
const PODS: u64 = 24;
/// Milliseconds until a call is cut off, at most: as long as it takes when so many are made.
const SANDBOX: u64 = 1500;
const START: u64 = 400;
/// How often the runtime is killed …
const ROUNDS: u64 = 2;
/// … while so many containers are started.
const STARTS: u64 = 12;

/// One pod, and when its calls are cut off.
#[derive(Clone)]
struct Begun {
    sandbox: cri::PodSandboxConfig,
    sandbox_for: Duration,
    start_for: Duration,
}

impl Begun {
    /// Labelled and placed as the agent does it.
    fn new(rig: &RealRig, number: u64, random: &mut Random) -> anyhow::Result<Self> {
        let (name, uid) = (
            format!("cut-{number}"),
            format!("6f1b0f8e-7d1c-4f43-9f0e-{number:012}"),
        );
        let logs: PathBuf = rig.logs().join(format!("default_{name}_{uid}"));
        fs::create_dir_all(&logs)?;
        let mut sandbox = RawCri::sandbox_config(&name, &logs);
        let labels = [
            ("name", name),
            ("namespace", "default".to_owned()),
            ("uid", uid.clone()),
        ];
        sandbox.labels = labels
            .map(|(label, value)| (format!("io.kubernetes.pod.{label}"), value))
            .into();
        let group = pod_group(&group_root(rig.directory.path()), "besteffort", &uid);
        sandbox.linux.get_or_insert_default().cgroup_parent = group;
        // of every third pod the sandbox
        let sandbox_for = if number.is_multiple_of(3) {
            random.below(SANDBOX)
        } else {
            PROCESS_TIMEOUT.as_millis() as u64
        };
        let start_for = Duration::from_millis(random.below(START));
        Ok(Self {
            sandbox,
            sandbox_for: Duration::from_millis(sandbox_for),
            start_for,
        })
    }

    /// The same with a sandbox that is made to its end.
    fn uncut(self) -> Self {
        Self {
            sandbox_for: PROCESS_TIMEOUT,
            ..self
        }
    }

    /// As far as it comes.
    async fn run(self, client: RuntimeServiceClient<Channel>) -> Result<(), Status> {
        let start_for = self.start_for;
        let (mut client, container_id) = Box::pin(self.create_container(client)).await?;
        cut_after(
            start_for,
            client.start_container(cri::StartContainerRequest { container_id }),
        )
        .await
        .map(drop)
    }

    /// A container that is not started yet, and the client.
    async fn create_container(
        self,
        mut client: RuntimeServiceClient<Channel>,
    ) -> Result<(RuntimeServiceClient<Channel>, String), Status> {
        let config = Some(self.sandbox.clone());
        let request = cri::RunPodSandboxRequest {
            config,
            ..Default::default()
        };
        let pod_sandbox_id = cut_after(self.sandbox_for, client.run_pod_sandbox(request))
            .await?
            .pod_sandbox_id;
        let mut config = RawCri::container_config("main", &["sleep", "1000000"]);
        config.labels = self.sandbox.labels.clone();
        config
            .labels
            .insert("io.kubernetes.container.name".to_owned(), "main".to_owned());
        let (config, sandbox_config) = (Some(config), Some(self.sandbox));
        let request = cri::CreateContainerRequest {
            pod_sandbox_id,
            config,
            sandbox_config,
        };
        let container_id = client
            .create_container(request)
            .await?
            .into_inner()
            .container_id;
        Ok((client, container_id))
    }
}

async fn start(
    mut client: RuntimeServiceClient<Channel>,
    container_id: String,
) -> Result<(), Status> {
    client
        .start_container(cri::StartContainerRequest { container_id })
        .await
        .map(drop)
}

/// Given up after so long; the runtime is told that nobody waits for the answer.
async fn cut_after<T>(
    after: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    let answer = timeout(after, call).await;
    answer
        .unwrap_or_else(|_| Err(Status::cancelled("cut off")))
        .map(Response::into_inner)
}

// printed on purpose: how much there was to be ended
#[allow(clippy::print_stderr)]
fn tell(rig: &RealRig, seed: u64) -> anyhow::Result<()> {
    let mut states = BTreeMap::new();
    let listed = rig.containerd.raw_cri.list(None)?;
    for container in &listed {
        *states.entry(container.state().as_str_name()).or_insert(0) += 1;
    }
    let (ready, _) = rig.containerd.cri.sandboxes()?;
    let running = rig.containerd.cri.running()?.len() + ready.len();
    let alive = rig.containerd.traces()?.alive().bundles.len();
    eprintln!("--- cut off: seed {seed}, {states:?}; {running} run in CRI, {alive} run in truth");
    Ok(())
}

// printed on purpose, as above
#[allow(clippy::print_stderr)]
fn tell_ended(log: &str) {
    let count = |words: &str| log.matches(words).count();
    let (tasks, processes) = (
        count("lost container task stopped"),
        count("killing a process without a container"),
    );
    eprintln!("--- cut off: {tasks} lost tasks and {processes} processes were ended");
}

/// Chance, from a seed that may be given.
fn chance() -> (u64, Random) {
    let seed = env::var("OUTRIGGER_CUT_OFF_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    (seed, Random::new(seed))
}

/// Does all of it at the same time; what came to its end.
fn all<T: Send + 'static, W: Future<Output = Result<T, Status>> + Send + 'static>(
    raw_cri: &RawCri,
    work: impl Fn(RuntimeServiceClient<Channel>) -> Vec<W>,
) -> anyhow::Result<Vec<T>> {
    let finished = raw_cri.runtime(async |client| {
        let mut begun = JoinSet::new();
        for one in work(client) {
            begun.spawn(one);
        }
        Ok(Response::new(
            begun.join_all().await.into_iter().flatten().collect(),
        ))
    });
    finished.context("the calls are made")
}

#[test]
fn calls_that_are_cut_off_leave_nothing() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.node.process.kill()?;
    let (seed, mut random) = chance();
    let pods = (0..PODS)
        .map(|number| Begun::new(&rig, number, &mut random))
        .collect::<Result<Vec<_>, _>>()?;
    let finished = all(&rig.containerd.raw_cri, |client| {
        pods.iter()
            .map(|pod| pod.clone().run(client.clone()))
            .collect()
    });
    ensure!(finished?.len() < PODS as usize, "no call was cut off");
    tell(&rig, seed)?;
    rig.node.process.start_again()?;
    leaves_nothing_of(&rig, PROCESS_TIMEOUT, Traces::of_tasks)?;
    tell_ended(&rig.node.process.log());
    let groups = rig.containerd.traces()?.pod_groups;
    ensure!(groups.is_empty(), "control groups of pods: {groups:?}");
    Ok(())
}

#[test]
fn what_a_runtime_that_is_killed_was_starting_leaves_nothing_that_runs() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    rig.node.process.kill()?;
    let (seed, mut random) = chance();
    for round in 0..ROUNDS {
        let numbers = round * STARTS..(round + 1) * STARTS;
        let pods = numbers.map(|number| Ok(Begun::new(&rig, number, &mut random)?.uncut()));
        let pods = pods.collect::<anyhow::Result<Vec<_>>>()?;
        let made = all(&rig.containerd.raw_cri, |client| {
            pods.iter()
                .map(|pod| pod.clone().create_container(client.clone()))
                .collect()
        })?;
        let kill_at = Instant::now() + Duration::from_millis(random.below(START));
        let Containerd {
            raw_cri, process, ..
        } = &mut rig.containerd;
        thread::scope(|scope| {
            let starting = scope.spawn(|| {
                all(raw_cri, |_| {
                    made.iter()
                        .map(|(client, id)| start(client.clone(), id.clone()))
                        .collect()
                })
            });
            at(kill_at);
            let killed = process.kill();
            // whatever came of it
            drop(starting.join());
            killed
        })?;
        rig.containerd.start_again()?;
        until("the runtime", || rig.containerd.cri.running())?;
    }
    tell(&rig, seed)?;
    rig.node.process.start_again()?;
    leaves_nothing_of(&rig, PROCESS_TIMEOUT, Traces::alive)?;
    tell_ended(&rig.node.process.log());
    // and so no process that has not become a container's
    let groups = rig.containerd.traces()?.pod_groups;
    ensure!(groups.is_empty(), "control groups of pods: {groups:?}");
    Ok(())
}
