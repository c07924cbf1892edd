//! Rows of pods: kubectl's one status combines phase, conditions and the states of all containers.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age,
    cells::{name, since_creation, text_or},
    printer::{AGE, NAME, Printer, default_column, wide},
};
use crate::object::{is_deleting, items, text, text_or_empty};

pub(super) const PRINTER: Printer = Printer {
    columns: &[
        NAME,
        default_column("Ready"),
        default_column("Status"),
        default_column("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells,
};

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summary(pod);
    let sidecars = items(pod, "/spec/initContainers")
        .iter()
        .filter(|container| is_sidecar(container))
        .count();
    let total = items(pod, "/spec/containers").len() + sidecars;
    let first_ip = text(pod, "/status/podIPs/0/ip").filter(|ip| !ip.is_empty());
    vec![
        name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        summary.restarts.text(now).into(),
        since_creation(pod, now),
        first_ip
            .unwrap_or_else(|| text_or(pod, "/status/podIP", "<none>"))
            .into(),
        text_or(pod, "/spec/nodeName", "<none>").into(),
        text_or(pod, "/status/nominatedNodeName", "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let finished =
            text(container, "/lastState/terminated/finishedAt").and_then(|time| time.parse().ok());
        self.last = self.last.max(finished);
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last.filter(|_| self.count != 0) {
            Some(last) => format!(
                "{} ({} ago)",
                self.count,
                age::human(now.duration_since(last).as_secs())
            ),
            None => self.count.to_string(),
        }
    }
}

fn summary(pod: &Value) -> Summary {
    let phase = text_or_empty(pod, "/status/phase");
    let mut reason = text_or(pod, "/status/reason", phase).to_owned();
    let gated = |condition: &Value| {
        text_or_empty(condition, "/type") == "PodScheduled"
            && text_or_empty(condition, "/reason") == "SchedulingGated"
    };
    if items(pod, "/status/conditions").iter().any(gated) {
        reason = "SchedulingGated".into();
    }
    let init = init_summary(pod);
    let (ready, restarts) = match init.reason {
        Some(initialising) if !has_condition(pod, "Initialized") => {
            reason = initialising;
            (init.ready, init.restarts)
        }
        initialising => {
            // A reason of a container below takes precedence.
            reason = initialising.unwrap_or(reason);
            let (ready, restarts) = containers(pod, &mut reason, init.sidecar_restarts);
            (init.ready + ready, restarts)
        }
    };
    if is_deleting(pod) {
        if text_or_empty(pod, "/status/reason") == "NodeLost" {
            reason = "Unknown".into();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            reason = "Terminating".into();
        }
    }
    Summary {
        reason,
        ready,
        restarts,
    }
}

#[derive(Default)]
struct InitSummary {
    /// Why the pod's init containers are not done yet.
    reason: Option<String>,
    ready: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
}

fn init_summary(pod: &Value) -> InitSummary {
    let specs = items(pod, "/spec/initContainers");
    let mut summary = InitSummary::default();
    for (index, container) in items(pod, "/status/initContainerStatuses")
        .iter()
        .enumerate()
    {
        let own_name = text_or_empty(container, "/name");
        let sidecar = specs
            .iter()
            .any(|spec| text_or_empty(spec, "/name") == own_name && is_sidecar(spec));
        summary.restarts.add(container);
        if sidecar {
            summary.sidecar_restarts.add(container);
        }
        let terminated = container.pointer("/state/terminated");
        let waiting = text_or_empty(container, "/state/waiting/reason");
        if terminated.is_some_and(|state| number(state, "exitCode") == 0) {
            continue;
        }
        if sidecar && flag(container, "started") {
            summary.ready += usize::from(flag(container, "ready"));
            continue;
        }
        summary.reason = Some(match terminated {
            Some(state) => format!("Init:{}", termination(state)),
            None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", specs.len()),
        });
        break;
    }
    summary
}

/// Counts the containers that are not init containers; `reason` becomes that of the first of them.
fn containers(pod: &Value, reason: &mut String, mut restarts: Restarts) -> (usize, Restarts) {
    let mut ready = 0;
    for container in items(pod, "/status/containerStatuses").iter().rev() {
        restarts.add(container);
        let waiting = text_or_empty(container, "/state/waiting/reason");
        if !waiting.is_empty() {
            *reason = waiting.to_owned();
        } else if let Some(state) = container.pointer("/state/terminated") {
            *reason = termination(state);
        } else if flag(container, "ready") && container.pointer("/state/running").is_some() {
            ready += 1;
        }
    }
    // A container that succeeded does not make the pod completed while others run.
    if reason == "Completed" && ready > 0 {
        *reason = if has_condition(pod, "Ready") {
            "Running"
        } else {
            "NotReady"
        }
        .to_owned();
    }
    (ready, restarts)
}

fn termination(state: &Value) -> String {
    match (text_or_empty(state, "/reason"), number(state, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| has_condition(pod, text_or_empty(gate, "/conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

fn has_condition(pod: &Value, type_: &str) -> bool {
    let mut conditions = items(pod, "/status/conditions").iter();
    conditions.any(|condition| {
        text_or_empty(condition, "/type") == type_ && text_or_empty(condition, "/status") == "True"
    })
}

fn is_sidecar(container: &Value) -> bool {
    text_or_empty(container, "/restartPolicy") == "Always"
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or_default()
}
