//! Tests the tables of rules: each file in `rules/` lists changes to a valid object, and the faults of what they make of it.
//!
//! A line is a change, or several, as `/json/pointer = value`; a line with `#` names the kind; the indented lines are the faults, in
//! the words of Kubernetes; `…` stands for the rest of one.

use serde_json::{Value, json};

use super::{creation_causes, examples::example, update_causes};

/// What objects are changed from has a little more than a new one.
fn stored_object(plural: &str) -> Value {
    let mut object = example(plural);
    let more = match plural {
        "services" => {
            json!({"/spec/clusterIP": "10.0.0.1", "/spec/clusterIPs": ["10.0.0.1"], "/spec/ipFamilies": ["IPv4"]})
        }
        "nodes" => {
            json!({"/spec": {"providerID": "a", "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})
        }
        "configmaps" => json!({"/immutable": true, "/data": {"a": "b"}}),
        "secrets" => json!({"/immutable": true, "/data": {"a": "QQ=="}}),
        "jobs" => json!({"/spec/completions": 2}),
        "persistentvolumes" => json!({"/spec/nodeAffinity":
            {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}),
        "certificatesigningrequests" => {
            json!({"/status": {"conditions": [{"type": "Approved", "status": "True"}]}})
        }
        "storageclasses" => json!({"/parameters": {"a": "b"}}),
        _ => json!({}),
    };
    for (pointer, value) in more.as_object().unwrap() {
        set(&mut object, pointer, value.clone());
    }
    object
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let mut at = object;
    for step in parent.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    match (key.parse::<usize>(), value) {
        (Ok(index), value) => at[index] = value,
        (Err(_), Value::Null) => {
            at.as_object_mut().unwrap().remove(key);
        }
        (Err(_), value) => at[key] = value,
    }
}

fn change_object(mut object: Value, line: &str) -> Value {
    for change in line.split(" ; ") {
        let (pointer, value) = change.split_once(" = ").unwrap();
        set(
            &mut object,
            pointer,
            serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}")),
        );
    }
    object
}

/// Checks that each change in the table is refused, for the faults that are listed below it.
fn check(table: &str, faults: impl Fn(&str, &str) -> Vec<String>) {
    let (mut plural, mut accepted, mut differing) = ("", Vec::new(), Vec::new());
    let mut lines = table.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("# ") {
            plural = kind;
            continue;
        }
        let found: Vec<_> = faults(plural, line)
            .iter()
            .map(|fault| fault.replace('\n', "\\n"))
            .collect();
        let mut expected = Vec::new();
        while let Some(fault) = lines.next_if(|line| line.starts_with(' ')) {
            expected.push(fault.trim_start().to_owned());
        }
        if found.is_empty() {
            accepted.push(format!("{plural} {line}"));
        }
        let is_same = |(found, expected): (&String, &String)| match expected.strip_suffix('…') {
            Some(start) => found.starts_with(start),
            None => found == expected,
        };
        if found.len() != expected.len() || !found.iter().zip(&expected).all(is_same) {
            differing.push(format!("{plural} {line}\n{found:#?}\n{expected:#?}"));
        }
    }
    assert!(accepted.is_empty(), "{accepted:#?}");
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn new(plural: &str, line: &str) -> Vec<String> {
    creation_causes(plural, change_object(example(plural), line))
}

#[test]
fn new_pods_have_rules() {
    check(include_str!("rules/pods.txt"), new);
}

#[test]
fn new_core_objects_have_rules() {
    check(include_str!("rules/core.txt"), new);
}

#[test]
fn new_workloads_have_rules() {
    check(include_str!("rules/workloads.txt"), new);
}

#[test]
fn new_objects_of_other_groups_have_rules() {
    check(include_str!("rules/cluster.txt"), new);
}

#[test]
fn some_of_an_object_stays() {
    let change = |plural: &str, line: &str| {
        let old = stored_object(plural);
        update_causes(plural, old.clone(), change_object(old, line))
    };
    check(include_str!("rules/changes.txt"), change);
}

#[test]
fn valid_objects_are_accepted_and_may_stay_as_they_are() {
    for table in [
        include_str!("rules/pods.txt"),
        include_str!("rules/core.txt"),
        include_str!("rules/workloads.txt"),
        include_str!("rules/cluster.txt"),
    ] {
        for plural in table.lines().filter_map(|line| line.strip_prefix("# ")) {
            assert_eq!(
                creation_causes(plural, example(plural)),
                Vec::<String>::new(),
                "{plural}"
            );
            assert_eq!(
                update_causes(plural, stored_object(plural), stored_object(plural)),
                Vec::<String>::new(),
                "{plural}"
            );
        }
    }
}
