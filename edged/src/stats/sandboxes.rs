//! Networks and processes of pods, reported by the runtime or read from the kernel.
//!
//! containerd 1.6 answers ListPodSandboxStats only if every sandbox has a cgroup parent, and fails otherwise: with
//! `cgroupsPerQOS: false`, or while pods run that were created so. Then the same values are read from the kernel, starting from
//! the first process of each sandbox, which its status reports.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clock::Instant;
use futures::future::join_all;
use jiff::Timestamp;
use wire::cri;

use super::{
    Stats, machine, pods,
    summary::{NetworkStats, PodStats},
};
use crate::cgroups::CGROUP_ROOT;

/// Delay before a runtime that has returned an error is asked again.
const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(600);

/// Usage of a pod's sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SandboxStats {
    /// Network; `None` on the host's network.
    pub(super) network: Option<NetworkStats>,
    /// Number of processes.
    pub(super) processes: Option<u64>,
}

/// Cached properties of sandboxes.
#[derive(Debug, Default)]
pub(super) struct SandboxCache {
    /// When the runtime last returned an error.
    refused: Option<Instant>,
    /// First process of each sandbox, by sandbox id; it is the same as long as the sandbox exists.
    pids: BTreeMap<String, u32>,
}

impl Stats {
    /// Returns the usage of these pods' sandboxes, by sandbox id.
    pub(super) async fn sandbox_stats(
        &self,
        pods: &[PodStats],
        now: Timestamp,
    ) -> HashMap<String, SandboxStats> {
        let mut cache = self.sandboxes.lock().await;
        if cache
            .refused
            .is_none_or(|at| at.elapsed() > REFUSED_RETRY_DELAY)
        {
            match self.runtime.sandbox_stats().await {
                Ok(all) => return all.into_iter().filter_map(from_runtime).collect(),
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "failed to read pod usage from the runtime; reading control groups"
                    );
                    cache.refused = Some(Instant::now());
                }
            }
        }
        cache
            .pids
            .retain(|id, _| pods.iter().any(|pod| pod.id == *id));
        let new = pods.iter().filter(|pod| !cache.pids.contains_key(&pod.id));
        let requests = join_all(
            new.map(async |pod| (pod.id.clone(), self.runtime.sandbox_pid(&pod.id).await)),
        );
        let pids = requests.await.into_iter();
        cache
            .pids
            .extend(pids.filter_map(|(id, pid)| Some((id, pid.ok().flatten()?))));
        let seen = pods.iter().filter_map(|pod| {
            let pid = cache.pids.get(&pod.id)?;
            let containers = pod.containers.iter().map(|container| container.id.as_str());
            Some((pod.id.clone(), from_kernel(*pid, &pod.id, containers, now)))
        });
        seen.collect()
    }
}

/// Converts the runtime's statistics.
fn from_runtime(stats: cri::PodSandboxStats) -> Option<(String, SandboxStats)> {
    let linux = stats.linux?;
    let network = linux.network.as_ref().and_then(pods::network);
    let processes = linux
        .process
        .and_then(|all| pods::value(all.process_count.as_ref()));
    Some((stats.attributes?.id, SandboxStats { network, processes }))
}

/// Reads from the kernel the usage of the sandbox `id`, whose first process is `pid`, and of its containers.
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
    let groups = machine::read_text(&of_process("cgroup"));
    let count = |container: &str| {
        // both forms of group names, `<id>` and `cri-containerd-<id>.scope`, contain nothing else of the sandbox
        let file = pids_file(&groups, Path::new(CGROUP_ROOT))?;
        let file = file.to_str()?.replace(id, container);
        machine::read_text(&file).trim().parse::<u64>().ok()
    };
    SandboxStats {
        network: network
            .and_then(|_| machine::network(&of_process("net/dev"), &of_process("net/route"), now)),
        processes: std::iter::once(id)
            .chain(containers)
            .filter_map(count)
            .reduce(u64::saturating_add),
    }
}

/// Returns the path below `root` of the file with the number of processes, given the text of `/proc/<pid>/cgroup`. Supports
/// versions 1 and 2.
fn pids_file(groups: &str, root: &Path) -> Option<PathBuf> {
    let mut lines = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let (controllers, group) = lines
        .clone()
        .find(|(controllers, _)| {
            controllers
                .split(',')
                .any(|controller| controller == "pids")
        })
        .or_else(|| lines.find(|(controllers, _)| controllers.is_empty()))?;
    let root = if controllers.is_empty() {
        root.to_owned()
    } else {
        root.join(controllers)
    };
    Some(
        root.join(group.trim_start_matches('/'))
            .join("pids.current"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_found() {
        let root = Path::new("/cg");
        for (groups, file) in [
            (
                "9:name=systemd:/\n8:pids:/k8s.io/abc\n0::/\n",
                Some("/cg/pids/k8s.io/abc/pids.current"),
            ),
            (
                "0::/kubepods.slice/cri-abc.scope\n",
                Some("/cg/kubepods.slice/cri-abc.scope/pids.current"),
            ),
            ("4:memory:/x\n", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(
                pids_file(groups, root).as_deref(),
                file.map(Path::new),
                "{groups}"
            );
        }
    }
}
