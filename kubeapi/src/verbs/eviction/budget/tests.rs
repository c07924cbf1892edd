//! Tests of [`super`].

use super::*;

fn budget(policy: &str, status: Value) -> Value {
    json!({"metadata": {"name": "b", "generation": 2}, "spec": {"unhealthyPodEvictionPolicy": policy}, "status": status})
}

fn pod(ready: bool) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
}

#[test]
fn a_pod_may_go_counts_or_stays() {
    let status = |healthy: i64, desired: i64, allowed: i64| json!({"observedGeneration": 2, "currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed});
    let failed = json!({"observedGeneration": 2, "disruptionsAllowed": 0,
        "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}]});
    const KEPT: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
    for (policy, status, ready, expected) in [
        ("", status(3, 2, 1), true, Ok(true)),
        (
            "",
            status(2, 2, 0),
            true,
            Err((
                429,
                "The disruption budget b needs 2 healthy pods and has 2 currently",
            )),
        ),
        (
            "",
            status(3, 2, 0),
            true,
            Err((
                429,
                "The disruption budget b does not allow evicting pods currently",
            )),
        ),
        (
            "",
            status(1, 2, 0),
            false,
            Err((
                429,
                "The disruption budget b needs 2 healthy pods and has 1 currently",
            )),
        ),
        ("", status(2, 2, 0), false, Ok(false)),
        ("IfHealthyBudget", status(2, 2, 0), false, Ok(false)),
        (
            "IfHealthyBudget",
            status(0, 0, 0),
            false,
            Err((
                429,
                "The disruption budget b needs 0 healthy pods and has 0 currently",
            )),
        ),
        ("AlwaysAllow", status(0, 2, 0), false, Ok(false)),
        (
            "AlwaysAllow",
            status(2, 2, 0),
            true,
            Err((
                429,
                "The disruption budget b needs 2 healthy pods and has 2 currently",
            )),
        ),
        (
            "",
            failed,
            true,
            Err((
                429,
                "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
            )),
        ),
        (
            "",
            json!({"observedGeneration": 1, "disruptionsAllowed": 1}),
            true,
            Err((
                429,
                "The disruption budget b is still being processed by the server.",
            )),
        ),
        (
            "",
            status(0, 2, -1),
            true,
            Err((403, "pdb disruptions allowed is negative")),
        ),
    ] {
        let found = counts("b", &budget(policy, status.clone()), &pod(ready));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{policy} {status}"),
            (Err(found), Err((code, text))) => {
                let found = found.body();
                assert_eq!(found["code"], code);
                assert!(found.to_string().contains(text), "{found} {text}");
                assert!(code != 429 || found["message"] == KEPT);
            }
            (found, _) => panic!("{policy} {status}: {found:?}"),
        }
    }
}

#[test]
fn what_is_taken_is_noted() {
    let conditions =
        json!([{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"}]);
    let budget = budget(
        "",
        json!({"disruptionsAllowed": 1, "conditions": conditions}),
    );
    let taken = add_disrupted(budget, "web-0", "2025-06-01T00:00:00Z");
    assert_eq!(
        taken["status"],
        json!({"disruptionsAllowed": 0, "disruptedPods": {"web-0": "2025-06-01T00:00:00Z"}, "conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "lastTransitionTime": "2025-06-01T00:00:00Z"}]})
    );
}
