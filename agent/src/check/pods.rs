//! Check `pods`: no pod waits, or why.

use wire::pod_cause;

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::status::PodState;

/// The cures of waiting pods whose message has no known cause, by the state of the pod.
const CURES: [(&str, &str); 9] = [
    ("ImagePullBackOff", PULL),
    ("ErrImagePull", PULL),
    (
        "ErrImageNeverPull",
        "import the image (`ctr -n k8s.io images import FILE`), or change imagePullPolicy",
    ),
    ("InvalidImageName", "correct the image in the pod"),
    (
        "CrashLoopBackOff",
        "the program ends: `kubectl logs POD --previous` shows its output",
    ),
    (
        "CreateContainerConfigError",
        "correct what the message names in the pod",
    ),
    (
        "CreateContainerError",
        "correct what the message names; `journalctl -u containerd` has the runtime's error",
    ),
    (
        "RunContainerError",
        "correct the command and mounts of the container; the message names the fault",
    ),
    (
        "Terminating",
        "the message names what holds it; `journalctl -u containerd` has the runtime's errors",
    ),
];
/// The cure of an image that cannot be pulled.
const PULL: &str = "check the image's name, the registry from this machine (`ctr -n k8s.io images pull IMAGE`) and the pod's imagePullSecrets";
/// The cure in all other states.
const OTHER: &str = "`kubectl describe pod POD` shows the events; `journalctl -u edge-agent` and `journalctl -u containerd` show the errors of \
                     this machine";

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    match inputs.agent_status().await {
        Ok(status) => match status.failed.first() {
            Some(why) => {
                let cure = "the check runtime shows whether the container runtime responds";
                CheckResult::warning(format!("pods are unknown: {why}"), cure).into()
            }
            None => judge(&status.pods),
        },
        Err(result) => result.into(),
    }
}

fn judge(pods: &[PodState]) -> Finding {
    let waiting = pods.iter().filter(|pod| pod.waiting).map(|pod| {
        let what = format!(
            "{}/{}: {} {}",
            pod.namespace, pod.name, pod.state, pod.message
        );
        let of_state = CURES.iter().find(|(state, _)| *state == pod.state);
        let cure = match pod_cause(&pod.message) {
            Some(known) => known.to_string(),
            None => {
                let pod = format!("{} --namespace {}", pod.name, pod.namespace);
                of_state
                    .map_or(OTHER, |(_, cure)| cure)
                    .replace("POD", &pod)
            }
        };
        CheckResult::warning(what.trim(), cure)
    });
    let count = wire::text::count(pods.len(), "pod");
    Finding::combine(
        waiting.collect(),
        CheckResult::Passed(format!("{count}, none waiting")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_pods_are_named_with_reason_and_cure() {
        let pod = |name: &str, state: &str, waiting: bool| PodState {
            namespace: "default".into(),
            name: name.into(),
            state: state.into(),
            waiting,
            message: "because".into(),
            ..PodState::default()
        };
        let none = judge(&[pod("a", "Running", false)]).result;
        assert_eq!(none, CheckResult::Passed("1 pod, none waiting".into()));
        for (state, _) in CURES.iter().chain([&("Pending", "")]) {
            let found = judge(&[pod("a", "Running", false), pod("b", state, true)]).result;
            let (what, cure) = found.texts();
            assert_eq!(what, format!("default/b: {state} because"));
            assert!(cure.is_some_and(|cure| !cure.is_empty()), "{state}");
        }
    }
}
