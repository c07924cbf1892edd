//! Tests of [`super`].

use serde_json::json;

use super::*;
use crate::registry::Registry;

const NOW: &str = "2025-06-01T12:00:00Z";

fn after(plural: &str, asked: Option<i64>, object: &Value) -> String {
    let registry = Registry::builtin();
    let kind = registry.find("", "v1", plural).unwrap();
    let asked = Deletion {
        grace: asked,
        policy: None,
    };
    match deletion_effect(kind, &asked, object, NOW.parse().unwrap()) {
        Next::Remove => "gone".to_owned(),
        Next::Same => "same".to_owned(),
        Next::Replace(object) => {
            let metadata = &object["metadata"];
            let end = metadata["deletionTimestamp"].as_str().unwrap();
            let clock = end.strip_prefix("2025-06-01T").unwrap();
            let generation = metadata["generation"]
                .as_i64()
                .map_or("none".to_owned(), |number| number.to_string());
            format!(
                "{clock} {} generation {generation}",
                metadata["deletionGracePeriodSeconds"]
            )
        }
    }
}

fn pod(node: &str, phase: &str, metadata: Value) -> Value {
    let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": 20});
    json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})
}

#[test]
fn pods_get_the_time_that_they_need() {
    let fresh = json!({"generation": 1});
    let held = json!({"generation": 1, "finalizers": ["x/y"]});
    let ending =
        json!({"generation": 2, "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 20});
    let mut held_and_ending = ending.clone();
    held_and_ending["finalizers"] = json!(["x/y"]);
    let cases = [
        (
            "bound",
            pod("n", "Running", fresh.clone()),
            None,
            "12:00:20Z 20 generation 2",
        ),
        (
            "bound, asked",
            pod("n", "Running", fresh.clone()),
            Some(5),
            "12:00:05Z 5 generation 2",
        ),
        (
            "bound, longer than its own",
            pod("n", "Running", fresh.clone()),
            Some(50),
            "12:00:50Z 50 generation 2",
        ),
        (
            "bound, at once",
            pod("n", "Running", fresh.clone()),
            Some(0),
            "gone",
        ),
        (
            "bound, negative",
            pod("n", "Running", fresh.clone()),
            Some(-1),
            "12:00:01Z 1 generation 2",
        ),
        ("unbound", pod("", "Pending", fresh.clone()), None, "gone"),
        (
            "unbound, held",
            pod("", "Pending", held.clone()),
            None,
            "12:00:00Z 0 generation 2",
        ),
        ("over", pod("n", "Succeeded", fresh.clone()), None, "gone"),
        ("over, asked", pod("n", "Failed", fresh), Some(5), "gone"),
        (
            "held, at once",
            pod("n", "Running", held),
            Some(0),
            "12:00:00Z 0 generation 2",
        ),
        ("ending", pod("n", "Running", ending.clone()), None, "same"),
        (
            "ending, longer",
            pod("n", "Running", ending.clone()),
            Some(30),
            "same",
        ),
        (
            "ending, sooner",
            pod("n", "Running", ending.clone()),
            Some(5),
            "11:59:45Z 5 generation 2",
        ),
        (
            "ending, at once",
            pod("n", "Running", ending.clone()),
            Some(0),
            "gone",
        ),
        ("ending, over", pod("n", "Succeeded", ending), None, "same"),
        (
            "ending, held, at once",
            pod("n", "Running", held_and_ending),
            Some(0),
            "11:59:40Z 0 generation 2",
        ),
    ];
    for (case, pod, asked, expected) in cases {
        assert_eq!(after("pods", asked, &pod), expected, "{case}");
    }
}

#[test]
fn other_kinds_wait_for_finalizers_only() {
    let held = json!({"metadata": {"finalizers": ["x/y"]}});
    let ending = json!({"metadata": {"finalizers": ["x/y"], "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}});
    let freed = json!({"metadata": {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}});
    let cases = [
        ("free", json!({"metadata": {}}), "gone"),
        ("held", held, "12:00:00Z 0 generation none"),
        ("ending", ending, "same"),
        ("freed", freed, "gone"),
    ];
    for (case, object, expected) in cases {
        assert_eq!(after("configmaps", Some(30), &object), expected, "{case}");
    }
}

#[test]
fn the_policy_says_who_hears_of_it() {
    let registry = Registry::builtin();
    let kind = registry.find("", "v1", "configmaps").unwrap();
    let cases = [
        (None, json!([]), None),
        (Some(Policy::Background), json!([]), None),
        (
            Some(Policy::Foreground),
            json!([]),
            Some(json!(["foregroundDeletion"])),
        ),
        (
            Some(Policy::Orphan),
            json!(["x/y"]),
            Some(json!(["x/y", "orphan"])),
        ),
        (
            Some(Policy::Orphan),
            json!(["foregroundDeletion"]),
            Some(json!(["orphan"])),
        ),
        (
            Some(Policy::Background),
            json!(["foregroundDeletion", "orphan"]),
            None,
        ),
        (None, json!(["orphan"]), Some(json!(["orphan"]))),
    ];
    for (policy, finalizers, expected) in cases {
        let object = json!({"metadata": {"finalizers": finalizers}});
        let asked = Deletion {
            grace: None,
            policy,
        };
        let left = match deletion_effect(kind, &asked, &object, NOW.parse().unwrap()) {
            Next::Remove => None,
            Next::Same => Some(finalizers.clone()),
            Next::Replace(object) => Some(object["metadata"]["finalizers"].clone()),
        };
        assert_eq!(left, expected, "{policy:?} {finalizers}");
    }
}

#[test]
fn namespaces_wait_until_they_are_empty() {
    let full = json!({"metadata": {}, "spec": {"finalizers": ["kubernetes"]}});
    let empty = json!({"metadata": {}, "spec": {}});
    assert_eq!(
        after("namespaces", None, &full),
        "12:00:00Z null generation none"
    );
    assert_eq!(after("namespaces", None, &empty), "gone");
}
