//! The operating system of a pod, and what Windows pods may set.

use serde_json::Value;

use crate::{cause::Cause, validate::place::Place};

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Fields of a pod that a Windows pod cannot have.
const OF_POD: [&str; 15] = [
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];
/// Fields of a security context that a container of a Windows pod cannot have.
const OF_CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks `os`.
pub fn operating_system(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let os = spec.child("os", "os");
    if os.value.is_null() {
        return;
    }
    match os.text("name") {
        "" => causes.push(Cause::required(os.field("name"), "cannot be empty")),
        "linux" => {
            let why = "windows options cannot be set for a linux pod";
            forbid(
                spec,
                &["securityContext.windowsOptions"],
                &["windowsOptions"],
                why,
                causes,
            );
        }
        "windows" => forbid(
            spec,
            &OF_POD,
            &OF_CONTAINER,
            "cannot be set for a windows pod",
            causes,
        ),
        other => causes.push(Cause::unsupported(
            os.path(),
            &other.into(),
            &["linux", "windows"],
        )),
    }
}

fn forbid(
    spec: &Place<'_>,
    of_pod: &[&str],
    of_container: &[&str],
    why: &str,
    causes: &mut Vec<Cause>,
) {
    let is_set =
        |value: Option<&Value>| value.is_some_and(|value| !value.is_null() && *value != false);
    for field in of_pod {
        if is_set(spec.value.pointer(&format!("/{}", field.replace('.', "/")))) {
            causes.push(Cause::forbidden(spec.field(field), why));
        }
    }
    for list in LISTS {
        for (index, container) in spec.items(list).iter().enumerate() {
            for field in of_container {
                if container
                    .pointer(&format!("/securityContext/{field}"))
                    .is_some_and(|value| !value.is_null())
                {
                    let field = spec.field(&format!("{list}[{index}].securityContext.{field}"));
                    causes.push(Cause::forbidden(field, why));
                }
            }
        }
    }
}

/// Checks that either all containers are processes of a Windows host, or none is.
pub fn host_process(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const OPTION: &str = "/securityContext/windowsOptions/hostProcess";
    let of_pod = spec.value.pointer(OPTION).and_then(Value::as_bool);
    let (mut count, mut processes) = (0, 0);
    for list in LISTS {
        for (index, container) in spec.items(list).iter().enumerate() {
            count += 1;
            let own = container.pointer(OPTION).and_then(Value::as_bool);
            processes += usize::from(own.or(of_pod).unwrap_or(false));
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let field = format!("{list}[{index}].securityContext.windowsOptions.hostProcess");
                let why = format!(
                    "pod hostProcess value must be identical if both are specified, was {of_pod}"
                );
                causes.push(spec.invalid(&field, &own.into(), &why));
            }
        }
    }
    if processes == 0 {
        return;
    }
    if processes != count {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        causes.push(Cause::invalid(spec.path(), &"".into(), why));
    }
    if !spec.is("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        causes.push(spec.invalid("hostNetwork", &false.into(), why));
    }
}
