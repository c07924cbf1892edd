//! Security contexts of pods and containers.

use crate::{
    cause::Cause,
    object::names,
    validate::{
        engine::{
            Row,
            Rule::{Between, Check, FormatIfSet, OneOf, Table},
            row,
        },
        formats,
        place::Place,
        sysctl,
    },
};

/// The largest number of a user or group.
const LAST_ID: i64 = i32::MAX as i64;
const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// `securityContext` of a pod.
pub static POD: &[Row] = &[
    row("fsGroup", Between(0, LAST_ID)),
    row("runAsUser", Between(0, LAST_ID)),
    row("runAsGroup", Between(0, LAST_ID)),
    row("supplementalGroups[*]", Between(0, LAST_ID)),
    row("sysctls", Check(sysctl::sysctls)),
    row("fsGroupChangePolicy", OneOf(&["Always", "OnRootMismatch"])),
    row("seccompProfile?", Check(seccomp)),
    row("windowsOptions?", Table(WINDOWS)),
    row("appArmorProfile?", Check(app_armor)),
    row("supplementalGroupsPolicy", OneOf(&["Merge", "Strict"])),
    row("seLinuxChangePolicy", OneOf(&["MountOption", "Recursive"])),
];

/// `securityContext` of a container.
pub static CONTAINER: &[Row] = &[
    row("runAsUser", Between(0, LAST_ID)),
    row("runAsGroup", Between(0, LAST_ID)),
    row("procMount", OneOf(&["Default", "Unmasked"])),
    row("procMount", Check(check_unmasked)),
    row("seccompProfile?", Check(seccomp)),
    row("", Check(escalation)),
    row("windowsOptions?", Table(WINDOWS)),
    row("appArmorProfile?", Check(app_armor)),
];

static WINDOWS: &[Row] = &[
    row("gmsaCredentialSpecName", FormatIfSet(names::dns_subdomain)),
    row("gmsaCredentialSpec", FormatIfSet(credential_spec)),
    row("runAsUserName", FormatIfSet(user_name)),
];

fn credential_spec(text: &str) -> Vec<String> {
    const KIB: usize = 64;
    let why = match text.len() {
        0 => "gmsaCredentialSpec cannot be an empty string".to_owned(),
        length if length > KIB * 1024 => format!("gmsaCredentialSpec size must be under {KIB} KiB"),
        _ => return Vec::new(),
    };
    vec![why]
}

/// The faults of a Windows user: `DOMAIN\user`.
fn user_name(text: &str) -> Vec<String> {
    const DOMAIN_BYTES: usize = 256;
    const USER_BYTES: usize = 104;
    let parts: Vec<_> = text.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        _ if text.is_empty() => return vec!["runAsUserName cannot be an empty string".to_owned()],
        _ if text.chars().any(|char| char.is_ascii_control()) => {
            return vec!["runAsUserName cannot contain control characters".to_owned()];
        }
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut faults = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_BYTES) {
        faults.push(format!(
            "runAsUserName's Domain length must be under {DOMAIN_BYTES} characters"
        ));
    }
    if domain.is_some_and(|domain| !is_domain(domain)) {
        faults
            .push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_BYTES {
        faults.push(format!(
            "runAsUserName's User length must not be longer than {USER_BYTES} characters"
        ));
    }
    if !user.is_empty() && user.chars().all(|char| matches!(char, '.' | ' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|char| "\"/\\:;|=,+*?<>@[]".contains(char)) {
        let why =
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        faults.push(why.to_owned());
    }
    faults
}

/// Whether the name of a Windows domain is one of NetBIOS or of DNS.
fn is_domain(domain: &str) -> bool {
    let is_net_bios = (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|char| "\\/:*?\"<>|".contains(char));
    is_net_bios || names::dns_subdomain(&domain.to_lowercase()).is_empty()
}

fn seccomp(profile: &Place<'_>, causes: &mut Vec<Cause>) {
    let kind = profile.text("type");
    match kind {
        "" => causes.push(Cause::required(
            profile.field("type"),
            "type is required when seccompProfile is set",
        )),
        kind if !PROFILES.contains(&kind) => {
            causes.push(Cause::unsupported(
                profile.field("type"),
                &kind.into(),
                PROFILES,
            ));
        }
        _ => {}
    }
    const FIELD: &str = "localhostProfile";
    if kind != "Localhost" {
        if profile.has(FIELD) {
            let why = "can only be set when seccomp type is Localhost";
            causes.push(profile.invalid(FIELD, profile.value, why));
        }
    } else if profile.has(FIELD) {
        let path = profile.text(FIELD);
        let faults = formats::relative_path(path);
        causes.extend(
            faults
                .iter()
                .map(|why| profile.invalid(FIELD, &path.into(), why)),
        );
    } else {
        causes.push(Cause::required(
            profile.field(FIELD),
            "must be set when seccomp type is Localhost",
        ));
    }
}

fn app_armor(profile: &Place<'_>, causes: &mut Vec<Cause>) {
    const FIELD: &str = "localhostProfile";
    const LONGEST: usize = 4095;
    let missing = "must be set when AppArmor type is Localhost";
    let name = profile.text(FIELD);
    match profile.text("type") {
        "Localhost" if name.trim() != name => {
            causes.push(profile.invalid(FIELD, &name.into(), "must not be padded with whitespace"));
        }
        "Localhost" if name.is_empty() => {
            causes.push(Cause::required(profile.field(FIELD), missing))
        }
        "Localhost" if name.len() > LONGEST => {
            causes.push(Cause::too_long(profile.field(FIELD), LONGEST))
        }
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" if profile.has(FIELD) => {
            let why = "can only be set when AppArmor type is Localhost";
            causes.push(profile.invalid(FIELD, &name.into(), why));
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => causes.push(Cause::required(
            profile.field("type"),
            "type is required when appArmorProfile is set",
        )),
        kind => causes.push(Cause::unsupported(
            profile.field("type"),
            &kind.into(),
            PROFILES,
        )),
    }
}

fn check_unmasked(kind: &Place<'_>, causes: &mut Vec<Cause>) {
    let has_users = kind
        .nearest("spec")
        .get("hostUsers")
        .and_then(serde_json::Value::as_bool)
        == Some(false);
    if kind.value == "Unmasked" && !has_users {
        causes.push(kind.refusal("`hostUsers` must be false to use `Unmasked`"));
    }
}

fn escalation(context: &Place<'_>, causes: &mut Vec<Cause>) {
    if !context.has("allowPrivilegeEscalation") || context.is("allowPrivilegeEscalation") {
        return;
    }
    if context.is("privileged") {
        causes
            .push(context.refusal(
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
    }
    let added = context.child("capabilities", "");
    if added
        .items("add")
        .iter()
        .any(|capability| capability == "CAP_SYS_ADMIN")
    {
        let why =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        causes.push(context.refusal(why));
    }
}

/// Checks the rules between the fields of a pod's `spec` and its security context.
pub fn of_pod(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if spec.is("hostPID") && spec.is("shareProcessNamespace") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(spec.invalid("securityContext.shareProcessNamespace", &true.into(), why));
    }
}

/// Checks the namespaces of a pod with users of its own.
pub fn host_users(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if !spec.has("hostUsers") || spec.is("hostUsers") {
        return;
    }
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.is(field) {
            causes.push(Cause::forbidden(
                spec.field(shown),
                "when `pod.Spec.HostUsers` is false",
            ));
        }
    }
}
