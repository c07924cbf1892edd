//! What pods use as a whole: networks and processes. The runtime says it, or the kernel where the runtime does not.
//!
//! containerd 1.6 answers ListPodSandboxStats only where every sandbox has a control group above it, and not at all otherwise:
//! with `cgroupsPerQOS: false`, or while pods run that were made so.
//! Then the first process of each sandbox, of which its status tells, is the way to the same figures.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures::future::join_all;
use jiff::Timestamp;
use wire::cri;

use super::{
    Stats, machine, pods,
    summary::{NetworkStats, PodStats},
};
use crate::edged::groups::HIERARCHIES;

/// A runtime that has refused is asked again after this.
const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(600);

/// What a pod uses as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SandboxStats {
    /// None on the host's network.
    pub(super) network: Option<NetworkStats>,
    /// How many there are.
    pub(super) processes: Option<u64>,
}

/// What is remembered of sandboxes.
#[derive(Debug, Default)]
pub(super) struct Sandboxes {
    /// When the runtime refused to say.
    refused: Option<Instant>,
    /// The first process of each sandbox, by id; the same as long as the sandbox lives.
    pids: BTreeMap<String, u32>,
}

impl Stats {
    /// What these pods use, by the id of their sandboxes.
    pub(super) async fn of_sandboxes(
        &self,
        pods: &[PodStats],
        now: Timestamp,
    ) -> HashMap<String, SandboxStats> {
        let mut known = self.sandboxes.lock().await;
        if known.refused.is_none_or(|at| at.elapsed() > REFUSED_RETRY_DELAY) {
            match self.runtime.sandbox_stats().await {
                Ok(all) => return all.into_iter().filter_map(from_runtime).collect(),
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "the kernel is asked what pods use"
                    );
                    known.refused = Some(Instant::now());
                }
            }
        }
        known.pids.retain(|id, _| pods.iter().any(|pod| pod.id == *id));
        let new = pods.iter().filter(|pod| !known.pids.contains_key(&pod.id));
        let asked = join_all(new.map(async |pod| (pod.id.clone(), self.runtime.sandbox_pid(&pod.id).await)));
        let told = asked.await.into_iter();
        known.pids.extend(told.filter_map(|(id, pid)| Some((id, pid.ok().flatten()?))));
        let seen = pods.iter().filter_map(|pod| {
            let pid = known.pids.get(&pod.id)?;
            let containers = pod.containers.iter().map(|container| container.id.as_str());
            Some((pod.id.clone(), from_kernel(*pid, &pod.id, containers, now)))
        });
        seen.collect()
    }
}

/// What the runtime says.
fn from_runtime(stats: cri::PodSandboxStats) -> Option<(String, SandboxStats)> {
    let linux = stats.linux?;
    let network = linux.network.as_ref().and_then(pods::network);
    let processes = linux.process.and_then(|all| pods::value(all.process_count.as_ref()));
    Some((stats.attributes?.id, SandboxStats { network, processes }))
}

/// What the kernel says of the sandbox `id`, whose first process is `pid`, and of its containers.
fn from_kernel<'a>(
    pid: u32,
    id: &'a str,
    containers: impl Iterator<Item = &'a str>,
    now: Timestamp,
) -> SandboxStats {
    let of_process = |file: &str| format!("/proc/{pid}/{file}");
    let space = |path: &str| fs::read_link(path).ok();
    let own = space(&of_process("ns/net"));
    let network = own.filter(|own| space("/proc/self/ns/net").is_some_and(|host| host != *own));
    let groups = machine::text(&of_process("cgroup"));
    let count = |container: &str| {
        // both names of groups, `<id>` and `cri-containerd-<id>.scope`, have nothing else of the sandbox in them
        let file = pids_file(&groups, Path::new(HIERARCHIES))?;
        let file = file.to_str()?.replace(id, container);
        machine::text(&file).trim().parse::<u64>().ok()
    };
    SandboxStats {
        network: network
            .and_then(|_| machine::network(&of_process("net/dev"), &of_process("net/route"), now)),
        processes: std::iter::once(id).chain(containers).filter_map(count).reduce(u64::saturating_add),
    }
}

/// The file below `root` that has the number of processes, by the text of a process' `/proc/<pid>/cgroup`; version 1 and 2.
fn pids_file(groups: &str, root: &Path) -> Option<PathBuf> {
    let mut lines = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let (controllers, group) = lines
        .clone()
        .find(|(controllers, _)| controllers.split(',').any(|controller| controller == "pids"))
        .or_else(|| lines.find(|(controllers, _)| controllers.is_empty()))?;
    let root = if controllers.is_empty() { root.to_owned() } else { root.join(controllers) };
    Some(root.join(group.trim_start_matches('/')).join("pids.current"))
}

/// The pid in what a runtime tells of a sandbox when it is asked for everything.
pub(crate) fn pid_in(info: &BTreeMap<String, String>) -> Option<u32> {
    let info: serde_json::Value = serde_json::from_str(info.get("info")?).ok()?;
    u32::try_from(info.get("pid")?.as_u64()?).ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_found() {
        let root = Path::new("/cg");
        for (groups, file) in [
            ("9:name=systemd:/\n8:pids:/k8s.io/abc\n0::/\n", Some("/cg/pids/k8s.io/abc/pids.current")),
            ("0::/kubepods.slice/cri-abc.scope\n", Some("/cg/kubepods.slice/cri-abc.scope/pids.current")),
            ("4:memory:/x\n", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(pids_file(groups, root).as_deref(), file.map(Path::new), "{groups}");
        }
    }

    #[test]
    fn a_pid_is_read_from_what_runtimes_tell() {
        let info = |text: &str| [("info".to_owned(), text.to_owned())].into();
        assert_eq!(pid_in(&info(r#"{"pid": 4711, "processStatus": "running"}"#)), Some(4711));
        for text in ["", "{}", "[]", r#"{"pid": 0}"#, r#"{"pid": -1}"#, r#"{"pid": 1e30}"#, r#"{"pid": "1"}"#]
        {
            assert_eq!(pid_in(&info(text)), None, "{text}");
        }
        assert_eq!(pid_in(&BTreeMap::new()), None);
    }
}
