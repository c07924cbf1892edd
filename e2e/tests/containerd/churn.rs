//! `kill -9` of the agent, of the runtime, and of both, at random moments while pods come and go.
//!
//! `OUTRIGGER_CHURN_SECONDS` makes it longer, `OUTRIGGER_CHURN_PODS` has more pods in it, `OUTRIGGER_CHURN_SEED` repeats a run; they
//! stand in what it prints.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{
    AGENT, RunningContainer, at,
    containerd::{RealRig, Traces},
    until, until_within,
};
use serde_json::{Value, json};
use testkit::{LONG_TIMEOUT, Random};
use wire::cri::{ContainerState, PodSandboxState};

use crate::case::{apply, leaves_nothing_of, pod};

/// How many pods there are at any time where nobody says otherwise.
const PODS: u64 = 12;
/// How many of them stay from the beginning to the end.
const STEADY: usize = 4;
/// How many go and come in one step, at most.
const STEP: u64 = 4;
/// Milliseconds between two steps, at most.
const PAUSE: u64 = 500;
/// One step in so many comes with a kill.
const KILLS: u64 = 2;
/// How long the churn lasts where nobody says otherwise.
const SECONDS: u64 = 7;
/// Where the random moments begin where nobody says otherwise.
const SEED: u64 = 1;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victims {
    Agent,
    Both,
}

#[test]
fn pods_that_come_and_go_survive_kills_of_the_agent() -> anyhow::Result<()> {
    churn(Victims::Agent)
}

#[test]
fn pods_that_come_and_go_survive_kills_of_agent_and_runtime() -> anyhow::Result<()> {
    churn(Victims::Both)
}

fn churn(victims: Victims) -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let pods = usize::try_from(setting("OUTRIGGER_CHURN_PODS", PODS)?)?;
    let mut churn = Churn::new(setting("OUTRIGGER_CHURN_SEED", SEED)?, pods, victims);
    churn.add_pods(&rig, churn.pods)?;
    churn.rest(&rig)?;
    churn.note_running(&rig)?;
    let end = Instant::now() + Duration::from_secs(setting("OUTRIGGER_CHURN_SECONDS", SECONDS)?);
    while Instant::now() < end {
        churn.step(&mut rig)?;
    }
    churn.rest(&rig)?;
    churn.tell(&rig)?;
    leaves_nothing_of(&rig, LONG_TIMEOUT, churn.part())?;
    churn.tell_left(&rig)
}

/// What was done so far, and what should be there.
struct Churn {
    random: Random,
    seed: u64,
    /// How many pods there are at any time.
    pods: usize,
    victims: Victims,
    /// The names of the pods that should be there, the steady ones first.
    wanted: Vec<String>,
    /// How many pods there ever were.
    made: usize,
    kills: BTreeMap<&'static str, usize>,
    /// Every container that was seen running.
    ran: BTreeSet<RunningContainer>,
}

impl Churn {
    fn new(seed: u64, pods: usize, victims: Victims) -> Self {
        Self {
            random: Random::new(seed),
            seed,
            pods,
            victims,
            wanted: Vec::new(),
            made: 0,
            kills: BTreeMap::new(),
            ran: BTreeSet::new(),
        }
    }

    /// What of the machine the agent answers for.
    fn part(&self) -> fn(Traces) -> Traces {
        match self.victims {
            Victims::Agent => Traces::of_tasks,
            Victims::Both => Traces::alive,
        }
    }

    /// Makes new pods, with a volume on disk and one in memory.
    fn add_pods(&mut self, rig: &RealRig, count: usize) -> anyhow::Result<()> {
        let names: Vec<_> = (self.made..self.made + count)
            .map(|number| format!("churn-{number}"))
            .collect();
        self.made += count;
        let spec = json!({
            "containers": [{"volumeMounts": [
                {"name": "disk", "mountPath": "/disk"},
                {"name": "memory", "mountPath": "/memory"},
            ]}],
            "volumes": [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}],
        });
        apply(
            rig,
            &names
                .iter()
                .map(|name| pod(name, &spec))
                .collect::<Vec<_>>(),
        )?;
        self.wanted.extend(names);
        Ok(())
    }

    /// A few pods go, as many come, and perhaps something dies: at once, or a little later.
    fn step(&mut self, rig: &mut RealRig) -> anyhow::Result<()> {
        let count = 1 + self.random.below(STEP) as usize;
        let gone: Vec<_> = (0..count)
            .map(|_| {
                let index =
                    STEADY + self.random.below((self.wanted.len() - STEADY) as u64) as usize;
                self.wanted.remove(index)
            })
            .collect();
        let mut delete = vec!["delete", "pod", "--wait=false"];
        delete.extend(gone.iter().map(String::as_str));
        rig.cloud.kubectl.run(&delete)?;
        self.add_pods(rig, count)?;
        at(Instant::now() + Duration::from_millis(self.random.below(PAUSE)));
        if self.random.below(KILLS) == 0 {
            self.kill(rig)?;
        }
        Ok(())
    }

    /// Both start again in the order of chance: an agent that is first finds no runtime.
    fn kill(&mut self, rig: &mut RealRig) -> anyhow::Result<()> {
        self.note_running(rig)?;
        // in turn, so that a short run has all of them; when, is chance
        let (agent, runtime, what) = match (self.victims, self.kills.values().sum::<usize>() % 3) {
            (Victims::Agent, _) | (_, 0) => (true, false, "agent"),
            (_, 1) => (true, true, "both"),
            _ => (false, true, "containerd"),
        };
        *self.kills.entry(what).or_default() += 1;
        if agent {
            rig.node.process.kill()?;
        }
        if runtime {
            rig.containerd.process.kill()?;
        }
        let first = self.random.below(2) == 0;
        if agent && first {
            rig.node.process.start_again()?;
        }
        if runtime {
            rig.containerd.start_again()?;
        }
        if agent && !first {
            rig.node.process.start_again()?;
        }
        Ok(())
    }

    fn note_running(&mut self, rig: &RealRig) -> anyhow::Result<()> {
        // its CRI part answers only a moment after the rest
        self.ran
            .extend(until("the runtime", || rig.containerd.cri.running())?);
        Ok(())
    }

    /// Waits until just the wanted pods run, and nothing of any other is left.
    fn rest(&self, rig: &RealRig) -> anyhow::Result<()> {
        until_within(LONG_TIMEOUT, "just the wanted pods", || self.compare(rig)).with_context(
            || {
                format!(
                    "seed {}, {} pods so far, kills: {:?}",
                    self.seed, self.made, self.kills
                )
            },
        )
    }

    fn compare(&self, rig: &RealRig) -> anyhow::Result<()> {
        // the cheap question first: this is asked often
        let running = rig.containerd.cri.running()?;
        ensure!(
            running.len() == self.pods,
            "{} containers run",
            running.len()
        );
        let pods = rig.cloud.pods()?;
        let wanted: BTreeSet<_> = self.wanted.iter().collect();
        let names: BTreeSet<_> = pods.keys().collect();
        ensure!(
            names == wanted,
            "too many: {:?}, too few: {:?}",
            &names - &wanted,
            &wanted - &names
        );
        for (name, pod) in &pods {
            let status = &pod["status"]["containerStatuses"][0];
            ensure!(
                status["ready"] == true,
                "{name} is not ready: {}",
                pod["status"]
            );
        }
        let uids: BTreeSet<_> = pods.values().map(uid).collect();
        let of_api: BTreeSet<_> = pods
            .values()
            .map(|pod| RealRig::container_id(pod, "main"))
            .collect::<Result<_, _>>()?;
        let of_runtime: BTreeSet<_> = running.iter().map(|one| one.id.clone()).collect();
        ensure!(
            of_api == of_runtime,
            "running in the API {of_api:?}, in the runtime {of_runtime:?}"
        );
        let lost: Vec<_> = self
            .ran
            .difference(&running)
            .filter(|one| uids.contains(&one.pod_uid))
            .collect();
        ensure!(
            lost.is_empty(),
            "containers of pods that stay were replaced: {lost:?}"
        );
        let (ready, dead) = rig.containerd.cri.sandboxes()?;
        ensure!(
            ready.iter().eq(&uids),
            "sandboxes of {ready:?}, pods {uids:?}"
        );
        let strangers: Vec<_> = dead.iter().filter(|uid| !uids.contains(*uid)).collect();
        ensure!(
            strangers.is_empty(),
            "dead sandboxes of other pods: {strangers:?}"
        );
        let on_disk = entries(&rig.node.pods)?;
        ensure!(on_disk == uids, "volumes of {on_disk:?}, pods {uids:?}");
        let logs: BTreeSet<_> = entries(&rig.logs())?
            .iter()
            .filter_map(|name| Some(name.rsplit_once('_')?.1.to_owned()))
            .collect();
        ensure!(logs == uids, "logs of {logs:?}, pods {uids:?}");
        let traces = rig.containerd.traces()?;
        let mut known = of_runtime;
        let sandboxes = rig.containerd.raw_cri.sandboxes(None)?.into_iter();
        let ready = sandboxes.filter(|sandbox| sandbox.state() == PodSandboxState::SandboxReady);
        known.extend(ready.map(|sandbox| sandbox.id));
        let lost = (&traces.inhabited - &known, &known - &traces.inhabited);
        ensure!(
            traces.inhabited == known,
            "runs and is not known, or is known and does not run: {lost:?}"
        );
        self.whole(traces)
    }

    /// One sandbox and one container for each pod, and what belongs to them.
    fn whole(&self, traces: Traces) -> anyhow::Result<()> {
        let pods = self.pods;
        let mut right: BTreeMap<_, _> = [
            ("bundles", 2 * pods),
            ("control groups", 2 * pods),
            ("shims", pods),
        ]
        .into();
        if self.victims == Victims::Agent {
            right.extend([
                ("interfaces", pods),
                ("network namespaces", pods),
                ("addresses", pods),
            ]);
        }
        let counts = self.part()(traces).counts();
        let wrong: Vec<_> = right
            .iter()
            .filter(|(what, right)| counts[*what] != **right)
            .collect();
        ensure!(
            wrong.is_empty(),
            "not as many as there should be: {wrong:?}, but {counts:?}"
        );
        Ok(())
    }

    /// What a containerd that was killed has left to itself.
    // printed on purpose, as above
    #[allow(clippy::print_stderr)]
    fn tell_left(&self, rig: &RealRig) -> anyhow::Result<()> {
        let ended = logs(rig)?
            .matches("lost by the runtime is still running")
            .count();
        let traces = rig.containerd.traces()?;
        eprintln!(
            "--- churn: nothing of any pod is left; the agent has ended {ended} that containerd had lost; containerd has left to \
             itself: {:?}",
            traces.counts()
        );
        Ok(())
    }

    /// A start that was cut off leaves a container that never ran, and is the only reason for a restart.
    // printed on purpose: the figures of a long run
    #[allow(clippy::print_stderr)]
    fn tell(&self, rig: &RealRig) -> anyhow::Result<()> {
        let mut cut_off = 0;
        for container in rig.containerd.raw_cri.list(None)? {
            let status = rig.containerd.raw_cri.status(&container.id)?;
            if status.state() != ContainerState::ContainerRunning {
                let name = &container.labels["io.kubernetes.pod.name"];
                ensure!(
                    status.started_at == 0,
                    "a container of {name} has ended: {status:?}"
                );
                cut_off += 1;
            }
        }
        let pods = rig.cloud.pods()?;
        let restarts: i64 = pods
            .values()
            .filter_map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_i64())
            .sum();
        eprintln!(
            "--- churn: seed {}, {} pods, kills {:?}, {} containers seen running; of the {} at the end, \
             {restarts} starts were made again, {cut_off} dead are kept",
            self.seed,
            self.made,
            self.kills,
            self.ran.len(),
            self.pods
        );
        Ok(())
    }
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn entries(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("{}", directory.display()))?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// What the agent has said since its first start.
fn logs(rig: &RealRig) -> anyhow::Result<String> {
    let of_agent = |name: &String| name.starts_with(AGENT) && name.ends_with(".log");
    let names = entries(rig.directory.path())?.into_iter().filter(of_agent);
    names
        .map(|name| Ok(fs::read_to_string(rig.directory.path().join(name))?))
        .collect()
}

fn setting(name: &str, default: u64) -> anyhow::Result<u64> {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{name} is {text:?}, not a number")),
        Err(_) => Ok(default),
    }
}
