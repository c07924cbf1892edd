//! `/metrics/probes`: outcomes of probes, under the kubelet's names. Pure.

use kubeapi::describe::exposition::{Label, Text, number};

use crate::probes::ProbeCounts;

/// Returns the page.
pub(super) fn page(probes: &[ProbeCounts]) -> String {
    let mut text = Text::default();
    let mut family = text.counter(
        "prober_probe_total",
        "Cumulative number of a liveness, readiness or startup probe for a container by result.",
    );
    for one in probes {
        let kind = one.kind.to_string();
        for (result, count) in [
            ("successful", one.successful),
            ("failed", one.failed),
            ("unknown", one.unknown),
        ] {
            if count > 0 {
                let labels: [Label<'_>; 6] = [
                    ("container", &one.container),
                    ("namespace", &one.namespace),
                    ("pod", &one.pod),
                    ("pod_uid", &one.uid),
                    ("probe_type", &kind),
                    ("result", result),
                ];
                family.sample(&labels, number(count));
            }
        }
    }
    let mut family = text.histogram(
        "prober_probe_duration_seconds",
        "Duration in seconds for a probe response.",
    );
    for one in probes {
        let kind = one.kind.to_string();
        let labels: [Label<'_>; 4] = [
            ("container", &one.container),
            ("namespace", &one.namespace),
            ("pod", &one.pod),
            ("probe_type", &kind),
        ];
        family.buckets(&labels, &one.took);
    }
    text.into_string()
}
