//! Checks new pods.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    container,
    faults::{faults, in_range, required, supported},
    sysctl,
};
use crate::{
    cause::Cause,
    names,
    object::{items, text_or_empty},
};

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

pub(super) fn create(pod: &Value) -> Vec<Cause> {
    create_with_claims(pod, &[])
}

/// Checks a pod that gets a volume, of the same name, for each of the claim templates.
pub(super) fn create_with_claims(pod: &Value, claims: &[Value]) -> Vec<Cause> {
    let none = Value::Null;
    let spec = pod.get("spec").unwrap_or(&none);
    let mut causes = volumes(spec);
    causes.extend(containers(spec, claims));
    causes.extend(supported(spec, "spec", "restartPolicy", RESTART_POLICIES));
    causes.extend(supported(spec, "spec", "dnsPolicy", DNS_POLICIES));
    let grace = spec.get("terminationGracePeriodSeconds");
    causes.extend(in_range("spec.terminationGracePeriodSeconds".into(), grace, 0, i64::MAX));
    let deadline = spec.get("activeDeadlineSeconds");
    causes.extend(in_range("spec.activeDeadlineSeconds".into(), deadline, 1, i64::from(i32::MAX)));
    for (key, check) in [
        ("nodeName", names::dns_subdomain as fn(&str) -> Vec<String>),
        ("serviceAccountName", names::dns_subdomain),
        ("priorityClassName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
    ] {
        let text = text_or_empty(spec, &format!("/{key}"));
        if !text.is_empty() {
            causes.extend(faults(&format!("spec.{key}"), text, check(text)));
        }
    }
    causes.extend(super::metadata::labels(spec.get("nodeSelector"), "spec.nodeSelector"));
    causes.extend(tolerations(spec));
    causes.extend(sysctl::sysctls(spec));
    causes
}

fn containers(spec: &Value, claims: &[Value]) -> Vec<Cause> {
    let own = items(spec, "/volumes").iter().map(|volume| text_or_empty(volume, "/name"));
    let claimed = claims.iter().map(|claim| text_or_empty(claim, "/metadata/name"));
    let volumes: HashSet<_> = own.chain(claimed).collect();
    let scope = container::Scope {
        volumes: &volumes,
        host_network: spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false),
    };
    let mut causes = Vec::new();
    let (proper, init) = (items(spec, "/containers"), items(spec, "/initContainers"));
    if proper.is_empty() {
        causes.push(Cause::required("spec.containers", ""));
    }
    let mut taken = HashSet::new();
    for (field, list) in [("containers", proper), ("initContainers", init)] {
        for (index, container) in list.iter().enumerate() {
            let path = format!("spec.{field}[{index}]");
            match text_or_empty(container, "/name") {
                "" => causes.push(Cause::required(format!("{path}.name"), "")),
                name => {
                    causes.extend(faults(&format!("{path}.name"), name, names::dns_label(name)));
                    if !taken.insert(name) {
                        causes.push(Cause::duplicate(format!("{path}.name"), name));
                    }
                }
            }
            causes.extend(container::container(&path, container, &scope));
            let policy = text_or_empty(container, "/restartPolicy");
            if field == "initContainers" && !matches!(policy, "" | "Always") {
                causes.push(Cause::unsupported(format!("{path}.restartPolicy"), &policy.into(), &["Always"]));
            }
        }
    }
    if !items(spec, "/ephemeralContainers").is_empty() {
        causes.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    causes.extend(host_ports(proper));
    causes
}

/// Checks that no two containers use the same port of the host.
fn host_ports(containers: &[Value]) -> Vec<Cause> {
    let mut taken = HashSet::new();
    let mut causes = Vec::new();
    for (at, container) in containers.iter().enumerate() {
        for (index, port) in items(container, "/ports").iter().enumerate() {
            let Some(number) = port.get("hostPort").and_then(Value::as_i64).filter(|number| *number != 0)
            else {
                continue;
            };
            let wanted =
                format!("{}/{}/{number}", text_or_empty(port, "/protocol"), text_or_empty(port, "/hostIP"));
            if taken.contains(&wanted) {
                let field = format!("spec.containers[{at}].ports[{index}].hostPort");
                causes.push(Cause::duplicate(field, &wanted));
            }
            taken.insert(wanted);
        }
    }
    causes
}

fn volumes(spec: &Value) -> Vec<Cause> {
    let volumes = items(spec, "/volumes");
    let (mut causes, mut taken) = (Vec::new(), HashSet::new());
    for (index, volume) in volumes.iter().enumerate() {
        let path = format!("spec.volumes[{index}]");
        match text_or_empty(volume, "/name") {
            "" => causes.push(Cause::required(format!("{path}.name"), "")),
            name => {
                causes.extend(faults(&format!("{path}.name"), name, names::dns_label(name)));
                if !taken.insert(name) {
                    causes.push(Cause::duplicate(format!("{path}.name"), name));
                }
            }
        }
        let mut sources = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        match sources.next() {
            None => causes.push(Cause::required(path.as_str(), "must specify a volume type")),
            Some((source, value)) => causes.extend(volume_source(&format!("{path}.{source}"), source, value)),
        }
        let why = "may not specify more than 1 volume type";
        causes.extend(sources.map(|(source, _)| Cause::forbidden(format!("{path}.{source}"), why)));
    }
    causes
}

fn volume_source(path: &str, source: &str, value: &Value) -> Option<Cause> {
    let key = match source {
        "hostPath" if text_or_empty(value, "/path").split('/').any(|part| part == "..") => {
            let at = text_or_empty(value, "/path").into();
            return Some(Cause::invalid(format!("{path}.path"), &at, "must not contain '..'"));
        }
        "hostPath" => "path",
        "configMap" => "name",
        "secret" => "secretName",
        "persistentVolumeClaim" => "claimName",
        _ => return None,
    };
    required(value, path, key)
}

fn tolerations(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, toleration) in items(spec, "/tolerations").iter().enumerate() {
        let path = format!("spec.tolerations[{index}]");
        let text = |key: &str| text_or_empty(toleration, &format!("/{key}"));
        let (key, operator, value) = (text("key"), text("operator"), text("value"));
        if key.is_empty() {
            if operator != "Exists" {
                let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                causes.push(Cause::invalid(format!("{path}.operator"), &operator.into(), why));
            }
        } else {
            causes.extend(faults(&format!("{path}.key"), key, names::qualified_name(key)));
        }
        match operator {
            "" | "Equal" => {
                causes.extend(faults(&format!("{path}.operator"), value, names::label_value(value)))
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(format!("{path}.operator"), &value.into(), why));
            }
            "Exists" => {}
            other => {
                let field = format!("{path}.operator");
                causes.push(Cause::unsupported(field, &other.into(), &["Equal", "Exists"]));
            }
        }
        if !text("effect").is_empty() {
            causes.extend(supported(
                toleration,
                &path,
                "effect",
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            ));
        }
        let seconds = toleration.get("tolerationSeconds").filter(|seconds| !seconds.is_null());
        if seconds.is_some() && text("effect") != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(format!("{path}.effect"), &text("effect").into(), why));
        }
    }
    causes
}
