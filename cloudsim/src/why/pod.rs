//! The steps of a pod, from the API to its containers and back. Pure.
//!
//! Source: <https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/>, and the reasons that the kubelet gives.

use crds::reliablesyncs::ObjectSync;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod, PodCondition, PodStatus};
use kube::ResourceExt;

use super::{
    age, event_time,
    node::NodeFacts,
    step::{Chain, Finding, missing},
};

/// Reasons of a container that waits for its image.
const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];
const IMAGE_FIX: &str = "correct the name of the image or its pull secret, or import the image into the node's container runtime";
/// Reasons of events that tell of volumes.
const VOLUME_REASONS: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];

/// What is known of a pod.
#[derive(Debug, Default)]
pub(super) struct PodFacts {
    /// The pod.
    pub(super) pod: Pod,
    /// Its node; `None` before it is scheduled.
    pub(super) node: Option<NodeFacts>,
    /// The revision that the node has acknowledged.
    pub(super) sync: Option<ObjectSync>,
    /// Events of the pod.
    pub(super) events: Vec<Event>,
    /// Objects that the pod's volumes and variables need and that do not exist or are not ready, with the cause.
    pub(super) needs: Vec<String>,
}

impl PodFacts {
    fn status(&self) -> PodStatus {
        self.pod.status.clone().unwrap_or_default()
    }

    fn phase(&self) -> String {
        self.status().phase.unwrap_or_default()
    }

    fn condition(&self, kind: &str) -> Option<PodCondition> {
        let conditions = self.status().conditions.unwrap_or_default();
        conditions.into_iter().find(|it| it.type_ == kind)
    }

    /// Returns the statuses of all containers, those of init containers first.
    fn containers(&self) -> Vec<ContainerStatus> {
        let status = self.status();
        let all = [status.init_container_statuses, status.container_statuses];
        all.into_iter().flatten().flatten().collect()
    }

    /// Returns the newest message of events with one of these reasons.
    fn event(&self, reasons: &[&str]) -> Option<String> {
        let is_meant = |event: &&Event| {
            let reason = event.reason.as_deref().unwrap_or_default();
            reasons.contains(&reason)
        };
        let newest = self.events.iter().filter(is_meant);
        let newest = newest.max_by_key(|event| event_time(event))?;
        newest.message.clone()
    }

    fn creation(&self, now: Timestamp) -> Finding {
        let created = self.pod.creation_timestamp();
        let mut text = created.map_or_else(String::new, |time| format!("{} ago", age(time.0, now)));
        if let Some(deleted) = &self.pod.metadata.deletion_timestamp {
            text = format!("{text}, deleted with a grace period until {}", deleted.0);
        }
        Ok(text)
    }

    fn scheduling(&self) -> Finding {
        let spec = self.pod.spec.clone().unwrap_or_default();
        if let Some(node) = spec.node_name {
            return Ok(format!("to {node}"));
        }
        let gates = spec.scheduling_gates.unwrap_or_default();
        if let Some(gate) = gates.first() {
            return missing(
                format!("the scheduling gate {} holds it", gate.name),
                "its controller has to remove the gate",
            );
        }
        let scheduler = spec.scheduler_name.unwrap_or_default();
        match self
            .condition("PodScheduled")
            .filter(|it| it.status == "False")
            .and_then(|it| it.message)
        {
            Some(message) => {
                let fix = if self.needs.is_empty() {
                    scheduling_fix(&message)
                } else {
                    "create what is missing; the pod starts by itself then"
                };
                let needs = self.needs.iter().map(|need| format!("; {need}"));
                missing(message + &needs.collect::<String>(), fix)
            }
            None => missing(
                format!("the scheduler {scheduler:?} has not considered it"),
                format!(
                    "check that a scheduler named {scheduler:?} runs; the usual one is default-scheduler"
                ),
            ),
        }
    }

    fn node(&self, node: &NodeFacts, now: Timestamp) -> Finding {
        node.registration(now)?;
        let text = node.connection(now)?;
        node.ready(now)?;
        Ok(format!("{} is Ready; connected {text}", node.name))
    }

    /// Checks that the node has the pod.
    fn delivery(&self, node: &NodeFacts) -> Finding {
        if !node.is_edge() {
            return Ok("the kubelet reads it from the API server".to_owned());
        }
        let held = self
            .sync
            .as_ref()
            .map(|sync| sync.status.clone().unwrap_or_default());
        let queue = node.session.as_ref().map_or(0, |session| session.queue);
        let waiting = format!(
            "{} in the queue to {}",
            wire::text::count(queue, "message"),
            node.name
        );
        const WAIT: &str = "wait for some seconds; if it stays, run `edge-agent check` on the node (its disk may be full), and look for failures of \
             this node in the log of the cloud";
        match held.map(|status| status.object_resource_version.unwrap_or_default()) {
            None => missing(format!("not sent to {}; {waiting}", node.name), WAIT),
            Some(revision) if revision.is_empty() || revision == "0" => missing(
                format!(
                    "sent to {}, which has not acknowledged it; {waiting}",
                    node.name
                ),
                WAIT,
            ),
            Some(revision) => Ok(format!(
                "{} has acknowledged revision {revision}",
                node.name
            )),
        }
    }

    /// Checks that the node has not refused or evicted the pod.
    fn admission(&self) -> Finding {
        let status = self.status();
        let held = self.condition("HeldUpgrade");
        if self.phase() == "Pending" && held.is_some_and(|it| it.status == "True") {
            let (name, namespace) = (
                self.pod.name_any(),
                self.pod.namespace().unwrap_or_default(),
            );
            return missing(
                "it is held by its annotation edge.kubeedge.io/hold-upgrade until somebody releases it on the node",
                format!("run `edge-agent ctl unhold -n {namespace} {name}` on the node"),
            );
        }
        match (self.phase().as_str(), status.reason) {
            ("Failed", Some(reason)) => missing(
                format!(
                    "{reason}: {}",
                    status.message.as_deref().unwrap_or("no message")
                ),
                match reason.as_str() {
                    "Evicted" => {
                        "free the resource that the message names on the node (`edge-agent check` shows it); then delete the pod, and \
                         create it again unless a controller does"
                    }
                    _ => {
                        "the node refused or ended it, and does not start it again: delete the pod and create it again, with requests \
                         that fit"
                    }
                },
            ),
            _ => Ok("the node has not refused it".to_owned()),
        }
    }

    fn objects(&self) -> Finding {
        if let Some(need) = self.needs.first() {
            return missing(need, "create it; the pod starts by itself then");
        }
        match self.event(&VOLUME_REASONS) {
            Some(message) if !self.has_started() => {
                let fix = cure(
                    &message,
                    "correct the volume in the pod's spec, or what it names on the node",
                );
                missing(message, fix)
            }
            _ => Ok("the ConfigMaps, Secrets and volumes that it names exist".to_owned()),
        }
    }

    fn has_ended(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.phase().as_str())
    }

    fn has_started(&self) -> bool {
        let mut containers = self.containers().into_iter();
        containers.any(|it| it.container_id.is_some_and(|id| !id.is_empty()))
    }

    fn network(&self) -> Finding {
        match self.event(&["FailedCreatePodSandBox"]) {
            Some(message) if !self.has_started() => {
                let fix = cure(
                    &message,
                    "run `edge-agent check` on the node: it checks the runtime and the pod network",
                );
                missing(message, fix)
            }
            _ => Ok(self.status().pod_ip.map_or_else(
                || "no failure was reported".to_owned(),
                |address| format!("address {address}"),
            )),
        }
    }

    fn image(&self) -> Finding {
        for container in self.containers() {
            let Some(waiting) = container.state.and_then(|state| state.waiting) else {
                continue;
            };
            let reason = waiting.reason.unwrap_or_default();
            if IMAGE_REASONS.contains(&reason.as_str()) {
                let message = waiting.message.unwrap_or_default();
                let (image, name) = (&container.image, &container.name);
                return missing(
                    format!("{reason} of {image} for container {name}: {message}"),
                    cure(&message, IMAGE_FIX),
                );
            }
        }
        // between two attempts, no container waits for its image
        match self.event(&["Failed"]) {
            Some(message) if !self.has_started() && message.contains("pull") => {
                let fix = cure(&message, IMAGE_FIX);
                missing(message, fix)
            }
            _ => Ok("no container waits for its image".to_owned()),
        }
    }

    fn start(&self) -> Finding {
        if self.phase() == "Succeeded" {
            return Ok("all containers have ended with code 0".to_owned());
        }
        let containers = self.containers();
        if containers.is_empty() {
            return missing(
                "the node has reported nothing about its containers",
                "wait for some seconds; then run `edge-agent status` on the node, and read its log",
            );
        }
        for container in &containers {
            let name = &container.name;
            let state = container.state.clone().unwrap_or_default();
            let last = container.last_state.clone().unwrap_or_default().terminated;
            if let Some(waiting) = state.waiting {
                let reason = waiting.reason.unwrap_or_default();
                let (message, ended) = (waiting.message.unwrap_or_default(), last.as_ref());
                let ended = ended.map_or_else(String::new, |it| {
                    let why = it.reason.as_deref().unwrap_or("ended");
                    let message = it.message.as_deref().map(|text| format!(": {text}"));
                    let message = message.unwrap_or_default();
                    format!("; before: {why}, exit code {}{message}", it.exit_code)
                });
                let liveness = self.event(&["Unhealthy"]).filter(|message| {
                    message.starts_with("Liveness") || message.starts_with("Startup")
                });
                let ended = match &liveness {
                    Some(message) => format!("{ended}; {message}"),
                    None => ended,
                };
                let fix = match reason.as_str() {
                    "CrashLoopBackOff" if liveness.is_some() => format!(
                        "correct the liveness or startup probe of container {name}, or find out why it does not answer: `kubectl logs {} \
                         --previous -c {name}`",
                        self.pod.name_any()
                    ),
                    "CrashLoopBackOff" => format!(
                        "read its output: `kubectl logs {} --previous -c {name}`",
                        self.pod.name_any()
                    ),
                    "PodInitializing" => "an init container has not ended; read its log".to_owned(),
                    "CreateContainerConfigError" => {
                        "correct what the container's variables and mounts name".to_owned()
                    }
                    _ => "wait for some seconds; then read the events of the pod with `kubectl describe`"
                        .to_owned(),
                };
                let text = format!("container {name} waits: {reason} {message}{ended}");
                let fix = cure(&text, &fix);
                return missing(text.trim_end(), fix);
            }
            let failed = state.terminated.filter(|it| it.exit_code != 0);
            if let Some(ended) = failed {
                return missing(
                    format!(
                        "container {name} has ended: {}, exit code {}",
                        ended.reason.as_deref().unwrap_or("Error"),
                        ended.exit_code
                    ),
                    format!(
                        "read its output: `kubectl logs {} -c {name}`",
                        self.pod.name_any()
                    ),
                );
            }
        }
        let restarts: i32 = containers.iter().map(|it| it.restart_count).sum();
        Ok(match restarts {
            0 => "all containers run".to_owned(),
            _ => format!(
                "all containers run, after {}",
                wire::text::count(usize::try_from(restarts).unwrap_or_default(), "restart")
            ),
        })
    }

    fn ready(&self) -> Finding {
        if self.phase() == "Succeeded" {
            return Ok("completed".to_owned());
        }
        match self.condition("Ready") {
            Some(ready) if ready.status == "True" => Ok("all containers are ready".to_owned()),
            Some(ready) => missing(
                self.event(&["Unhealthy"])
                    .or(ready.message)
                    .unwrap_or_else(|| "not all containers are ready".to_owned()),
                "correct the readiness probe, or what the container needs to become ready",
            ),
            None => missing(
                "the node has not reported whether it is ready",
                "wait for some seconds; then run `edge-agent status` on the node",
            ),
        }
    }

    /// Checks that a deleted pod goes.
    fn removal(&self, node: Option<&NodeFacts>) -> Finding {
        let finalizers = self.pod.finalizers();
        if !finalizers.is_empty() {
            return missing(
                format!("finalizers keep it: {}", finalizers.join(", ")),
                "their controller has to remove them",
            );
        }
        missing(
            match node {
                Some(node) => format!("{} has not confirmed the end of its containers", node.name),
                None => "it is still in the API".to_owned(),
            },
            "wait for the grace period; if the node has lost its data or never returns: `kubectl delete --force --grace-period 0`",
        )
    }
}

/// Reasons of the scheduler that are faults of a node, with their fix. The node itself is not named.
/// Source: kube-scheduler's plugins `nodeunschedulable` and `tainttoleration`, and the taints of the node lifecycle controller.
const NODE_FAULTS: [(&[&str], &str); 3] = [
    (
        &[
            "were not ready",
            "kubernetes.io/not-ready",
            "kubernetes.io/unreachable",
            "kubernetes.io/network-unavailable",
        ],
        "`kubectl get nodes` lists the nodes, and `cloudsim why node/NAME` shows why one is not Ready",
    ),
    (
        &["-pressure"],
        "free memory, disk space or processes on the node: `cloudsim why node/NAME` and `edge-agent check` on it show more",
    ),
    (
        &["were unschedulable", "kubernetes.io/unschedulable"],
        "allow new pods on the node: `kubectl uncordon NAME`",
    ),
];

/// Returns the fix of a pod that the scheduler cannot place, by its message. If no node fits for several reasons, the first is meant
/// that a person can remove without changing the pod.
fn scheduling_fix(message: &str) -> &'static str {
    const OTHER: &str = "add a node that fits, or change requests, nodeSelector, affinity or tolerations of the pod";
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let found = NODE_FAULTS.iter().find(|(parts, _)| has(parts));
    found.map_or(OTHER, |(_, fix)| fix)
}

/// Returns the cure of a known cause in the text, or else this one.
fn cure(text: &str, otherwise: &str) -> String {
    wire::pod_cause(text).map_or_else(|| otherwise.to_owned(), |known| known.cure.to_owned())
}

/// Returns the steps of a pod.
pub(super) fn chain(facts: &PodFacts, now: Timestamp) -> Chain {
    let mut chain = Chain::default();
    let is_deleted = facts.pod.metadata.deletion_timestamp.is_some();
    chain.step("created", || facts.creation(now));
    if !is_deleted || facts.node.is_some() {
        chain.step("scheduled", || facts.scheduling());
    }
    // it is final, whatever the node does now
    let is_refused = !is_deleted && facts.admission().is_err();
    if is_refused {
        chain.step("admitted", || facts.admission());
    }
    if let Some(node) = &facts.node {
        chain.step("node", || facts.node(node, now));
        chain.step("delivered", || facts.delivery(node));
    }
    if is_deleted {
        chain.step("removed", || facts.removal(facts.node.as_ref()));
        return chain;
    }
    if !is_refused {
        chain.step("admitted", || facts.admission());
    }
    chain.step("objects", || facts.objects());
    chain.step("network", || facts.network());
    chain.step("image", || facts.image());
    chain.step("started", || facts.start());
    chain.step("ready", || facts.ready());
    if let Some(node) = &facts.node
        && !facts.has_ended()
    {
        chain.step("streams", || node.streams(now));
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fix_of_an_unscheduled_pod_depends_on_the_reason() {
        const ALL: &str = "0/1 nodes are available: 1 ";
        for (reason, part) in [
            ("node(s) were not ready.", "cloudsim why node/NAME"),
            (
                "node(s) had untolerated taint {node.kubernetes.io/unreachable: }.",
                "cloudsim why node/NAME",
            ),
            (
                "node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }.",
                "free memory, disk space",
            ),
            ("node(s) were unschedulable.", "kubectl uncordon"),
            ("Insufficient cpu.", "add a node that fits"),
            (
                "node(s) had untolerated taint {example.com/gpu: }.",
                "add a node that fits",
            ),
        ] {
            let fix = scheduling_fix(&format!("{ALL}{reason}"));
            assert!(fix.contains(part), "{reason}: {fix}");
        }
    }
}
