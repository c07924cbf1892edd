//! Derives a container's health from the results of its probes. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Probe};

use super::ProbeKind;
use crate::observed::{Health, HealthFailure};

/// The results of a container's probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeResults {
    /// Whether the startup probe has succeeded.
    pub(super) started: bool,
    /// The result of the readiness probe, if there is one.
    pub(super) ready: Option<bool>,
    /// The probe whose failures require a restart.
    pub(super) failure: Option<HealthFailure>,
}

impl ProbeResults {
    /// Stores a result and reports whether it changed anything.
    pub(super) fn record(&mut self, kind: ProbeKind, success: bool) -> bool {
        let before = *self;
        match (kind, success) {
            (ProbeKind::Startup, true) => self.started = true,
            (ProbeKind::Startup, false) => self.failure = Some(HealthFailure::Startup),
            (ProbeKind::Liveness, true) => {}
            (ProbeKind::Liveness, false) => self.failure = Some(HealthFailure::Liveness),
            (ProbeKind::Readiness, ready) => self.ready = Some(ready),
        }
        *self != before
    }
}

/// Returns the health of the running container `id`. Until there are results, a container that was running before this agent
/// keeps the values of `last`, its last status.
pub(super) fn health(
    container: &Container,
    id: &str,
    found: Option<&ProbeResults>,
    last: Option<&ContainerStatus>,
) -> Health {
    let same = |last: &&ContainerStatus| {
        last.container_id
            .as_deref()
            .and_then(|full| full.split_once("://"))
            .is_some_and(|(_, own)| own == id)
    };
    let last = last.filter(same);
    let started = container.startup_probe.is_none()
        || found.is_some_and(|found| found.started)
        || last.is_some_and(|last| last.started == Some(true));
    let failure = found.and_then(|found| found.failure);
    let ready = container.readiness_probe.is_none()
        || found
            .and_then(|found| found.ready)
            .unwrap_or_else(|| last.is_some_and(|last| last.ready));
    Health {
        starting: false,
        started,
        ready: started && ready,
        failure,
    }
}

/// Returns the probes that have to run now.
pub(super) fn due<'a>(
    container: &'a Container,
    health: &Health,
    terminating: bool,
) -> impl Iterator<Item = (ProbeKind, &'a Probe)> {
    // A container that is ending does not fail because of that, and one that has to be restarted need not be probed again.
    let may_fail = !terminating && health.failure.is_none();
    let startup = container
        .startup_probe
        .as_ref()
        .filter(|_| may_fail && !health.started);
    let liveness = container
        .liveness_probe
        .as_ref()
        .filter(|_| may_fail && health.started);
    let readiness = container
        .readiness_probe
        .as_ref()
        .filter(|_| health.started);
    let all = [
        (ProbeKind::Startup, startup),
        (ProbeKind::Liveness, liveness),
        (ProbeKind::Readiness, readiness),
    ];
    let starting = health.starting;
    all.into_iter()
        .filter_map(move |(kind, probe)| Some((kind, probe.filter(|_| !starting)?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(probes: &[&str]) -> Container {
        let mut json = json!({"name": "web"});
        for probe in probes {
            json[format!("{probe}Probe")] = json!({"exec": {"command": ["true"]}});
        }
        serde_json::from_value(json).unwrap()
    }

    fn state(
        container: &Container,
        found: Option<ProbeResults>,
        last: Option<(&str, bool)>,
    ) -> (bool, bool) {
        let last = last.map(|(id, good)| ContainerStatus {
            container_id: Some(format!("containerd://{id}")),
            started: Some(good),
            ready: good,
            ..Default::default()
        });
        let health = health(container, "a", found.as_ref(), last.as_ref());
        (health.started, health.ready)
    }

    #[test]
    fn readiness_waits_for_startup_and_survives_the_agent() {
        let (none, all) = (container(&[]), container(&["startup", "readiness"]));
        assert_eq!(state(&none, None, None), (true, true));
        assert_eq!(state(&all, None, None), (false, false));
        assert_eq!(state(&all, None, Some(("a", true))), (true, true));
        assert_eq!(
            state(&all, None, Some(("b", true))),
            (false, false),
            "another container"
        );
        let mut found = ProbeResults::default();
        assert!(found.record(ProbeKind::Startup, true) && !found.record(ProbeKind::Startup, true));
        assert_eq!(state(&all, Some(found), None), (true, false));
        found.record(ProbeKind::Readiness, true);
        assert_eq!(state(&all, Some(found), None), (true, true));
        found.record(ProbeKind::Readiness, false);
        assert_eq!(
            state(&all, Some(found), Some(("a", true))),
            (true, false),
            "newer than the last status"
        );
    }

    #[test]
    fn probes_run_when_their_results_matter() {
        let all = container(&["startup", "readiness", "liveness"]);
        let due = |started, starting, failure, terminating| {
            let health = Health {
                starting,
                started,
                ready: false,
                failure,
            };
            due(&all, &health, terminating)
                .map(|(kind, _)| kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(due(false, false, None, false), [ProbeKind::Startup]);
        assert_eq!(
            due(true, false, None, false),
            [ProbeKind::Liveness, ProbeKind::Readiness]
        );
        assert_eq!(
            due(true, false, Some(HealthFailure::Liveness), false),
            [ProbeKind::Readiness]
        );
        assert_eq!(due(true, false, None, true), [ProbeKind::Readiness]);
        assert_eq!(due(false, false, None, true), []);
        assert_eq!(due(true, true, None, false), []);
    }
}
