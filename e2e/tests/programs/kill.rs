//! `kill -9` at many points of a churn: after the restart the loop heals to exactly what is desired, containers of pods that
//! stay are the same ones, and nothing is left over.
//!
//! Each round applies a changed ConfigMap and two new pods, deletes the two pods of the round before, and kills somewhere in
//! between: after so many events of a watch, or so many milliseconds. What a person's kubectl could not do while the cloud was
//! away, it does again.
//!
//! The suite takes a few of the points with each victim; `OUTRIGGER_EVERY_POINT=1` takes every point with each.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use e2e::{DesiredPods, Kubectl, Process, Rig, RunningContainer, SeenPod, at, until};

/// When to kill.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// After so many events of pods in this round; there are 12 in all, 3 for a pod that comes and 3 for one that goes.
    Events(usize),
    /// So many milliseconds after the round began.
    Millis(u64),
}

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Agent,
    Cloud,
    Runtime,
}

/// The pods that stay through all rounds.
const STAYING: [&str; 2] = ["stay-a", "stay-b"];

/// Every event of a round, and milliseconds between them: a client starts, asks, and the node works in the meantime.
fn points() -> impl Iterator<Item = Point> {
    let millis = [80, 110, 130, 150, 170, 190, 220, 260, 320];
    (0..12).map(Point::Events).chain(millis.map(Point::Millis))
}

/// Every `step`th point from `first` on, or all of them where they are asked for.
fn share(first: usize, step: usize) -> impl Iterator<Item = Point> {
    let every = env::var_os("OUTRIGGER_EVERY_POINT").is_some();
    let (first, step) = if every { (0, 1) } else { (first, step) };
    points().skip(first).step_by(step)
}

#[test]
fn the_agent_is_killed() -> anyhow::Result<()> {
    churn(&[Victim::Agent], share(0, 8))
}

#[test]
fn the_cloud_is_killed() -> anyhow::Result<()> {
    churn(&[Victim::Cloud], share(2, 8))
}

#[test]
fn the_agent_and_the_cloud_are_killed() -> anyhow::Result<()> {
    churn(&[Victim::Agent, Victim::Cloud], share(4, 8))
}

#[test]
fn the_runtime_is_killed() -> anyhow::Result<()> {
    churn(&[Victim::Runtime], share(6, 8))
}

fn churn(victims: &[Victim], points: impl Iterator<Item = Point>) -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    rig.cloud.kubectl.apply(&manifests(0))?;
    let mut healed = desired_pods(0, "0").wait(&rig)?;
    for (number, point) in points.enumerate() {
        let round = Round {
            number: number + 1,
            point,
            victims,
        };
        healed = round
            .play(&mut rig, &healed)
            .map_err(|error| error.context(format!("{round:?}")))?;
    }
    Ok(())
}

#[derive(Debug)]
struct Round<'a> {
    number: usize,
    point: Point,
    victims: &'a [Victim],
}

impl Round<'_> {
    fn play(
        &self,
        rig: &mut Rig,
        before: &BTreeMap<String, SeenPod>,
    ) -> anyhow::Result<BTreeMap<String, SeenPod>> {
        let kubectl = rig.cloud.kubectl.clone();
        let watch = Watch::start(&kubectl, rig, before.len())?;
        let at_kill = thread::scope(|scope| {
            let begun = Instant::now();
            let person = scope.spawn(|| self.ask(&kubectl));
            let killed = self.kill(rig, &watch, begun, || person.is_finished());
            let asked = person
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            asked.and(killed)
        })?;
        let content = self.number.to_string();
        let healed = desired_pods(self.number, &content).wait(rig)?;
        for name in STAYING {
            ensure!(
                before[name] == healed[name],
                "{name} was {:?} and is {:?}",
                before[name],
                healed[name]
            );
        }
        for pod in healed.values() {
            let ran = at_kill
                .iter()
                .filter(|container| container.pod_uid == pod.uid);
            for container in ran {
                ensure!(
                    pod.containers.contains(&container.id),
                    "{container:?} ran before, and now {pod:?}"
                );
            }
        }
        self.settle(rig)?;
        Ok(healed)
    }

    /// What the person wants in this round, stubbornly.
    fn ask(&self, kubectl: &Kubectl) -> anyhow::Result<()> {
        let manifests = manifests(self.number);
        until("apply", || kubectl.apply(&manifests))?;
        let [a, b] = coming(self.number - 1);
        let delete = [
            "delete",
            "pod",
            &a,
            &b,
            "--wait=false",
            "--ignore-not-found",
        ];
        until("delete", || kubectl.run(&delete)).map(drop)
    }

    /// Kills at the point, or when everything was asked and no more events may come, and starts again. Answers what ran then.
    fn kill(
        &self,
        rig: &mut Rig,
        watch: &Watch,
        begun: Instant,
        asked: impl Fn() -> bool,
    ) -> anyhow::Result<BTreeSet<RunningContainer>> {
        match self.point {
            Point::Millis(millis) => at(begun + Duration::from_millis(millis)),
            Point::Events(count) => until("the event", || match watch.events() {
                seen if seen >= count => Ok(()),
                // events that follow each other quickly may be told as one
                _ if asked() && begun.elapsed() > Duration::from_secs(2) => Ok(()),
                seen => Err(seen),
            })?,
        }
        let ran = rig.runtime.cri.running()?;
        for victim in self.victims {
            victim.process(rig).kill()?;
        }
        for victim in self.victims.iter().rev() {
            victim.process(rig).start_again()?;
            victim.process(rig).wait_for(victim.sign())?;
        }
        Ok(ran)
    }

    /// An agent that has lost its cloud again and again waits longer and longer, and should; a new one begins anew. Its orderly
    /// end is seen on the way.
    fn settle(&self, rig: &mut Rig) -> anyhow::Result<()> {
        if matches!(self.victims, [Victim::Cloud]) {
            let status = rig.node.process.terminate()?;
            ensure!(status.success(), "the agent ended with {status}");
            rig.node.process.start_again()?;
            rig.node.process.wait_for("connected")?;
        }
        Ok(())
    }
}

impl Victim {
    fn process(self, rig: &mut Rig) -> &mut Process {
        match self {
            Self::Agent => &mut rig.node.process,
            Self::Cloud => &mut rig.cloud.process,
            Self::Runtime => &mut rig.runtime.process,
        }
    }

    /// What it says when it runs.
    fn sign(self) -> &'static str {
        match self {
            Self::Agent => "edge-agent started",
            Self::Cloud => "is ready",
            Self::Runtime => "serves CRI v1",
        }
    }
}

/// `kubectl get pods -w`, and how many lines it prints for what is there at its start.
struct Watch {
    process: Process,
    before: usize,
}

impl Watch {
    fn start(kubectl: &Kubectl, rig: &Rig, pods: usize) -> anyhow::Result<Self> {
        let watch = Self {
            process: kubectl.start(
                &["get", "pods", "--watch", "--no-headers"],
                rig.directory.path(),
            )?,
            before: pods,
        };
        until("the watch", || {
            if watch.lines() >= pods {
                Ok(())
            } else {
                Err(watch.lines())
            }
        })?;
        Ok(watch)
    }

    fn lines(&self) -> usize {
        self.process.log().lines().count()
    }

    fn events(&self) -> usize {
        self.lines().saturating_sub(self.before)
    }
}

fn coming(round: usize) -> [String; 2] {
    [format!("come-{round}-a"), format!("come-{round}-b")]
}

fn desired_pods(round: usize, content: &str) -> DesiredPods<'_> {
    let names = STAYING
        .map(str::to_owned)
        .into_iter()
        .chain(coming(round))
        .collect();
    DesiredPods {
        names,
        file: ("/etc/settings/round", content),
    }
}

fn manifests(round: usize) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{round: \"{round}\"}}\n"
    );
    for name in STAYING.map(str::to_owned).into_iter().chain(coming(round)) {
        text += &format!(
            "---\n\
             apiVersion: v1\n\
             kind: Pod\n\
             metadata: {{name: {name}}}\n\
             spec:\n\
             \x20 containers:\n\
             \x20 - name: main\n\
             \x20   image: busybox:1.36\n\
             \x20   volumeMounts: [{{name: settings, mountPath: /etc/settings}}]\n\
             \x20 volumes:\n\
             \x20 - name: settings\n\
             \x20   configMap: {{name: settings}}\n"
        );
    }
    text
}
