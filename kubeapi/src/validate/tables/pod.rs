//! Pods and pod templates.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{MIRROR, items, names, text_or_empty},
    validate::{
        engine::{
            Row,
            Rule::{
                Always, Between, Check, Choice, Format, FormatIfSet, Labels, MaxItems, Name,
                NonNegative, OneOf, Present, Required, Table, Unique,
            },
            row,
        },
        formats, metadata,
        place::Place,
        repeats::repeats_by,
    },
};

use super::{affinity, annotations, container, resources, security, volume};

/// The most containers of a pod, of each kind.
const MAX_CONTAINERS: usize = 256;
/// The most volumes of a pod.
const MAX_VOLUMES: usize = 1024;

/// A pod.
pub static POD: &[Row] = &[
    row("metadata.annotations", Check(mirror)),
    row("", Check(annotations::of_pod)),
    row("spec", Table(SPEC)),
    row("spec", Check(token_without_account)),
    row("spec.containers[*]", Table(container::IMAGE)),
    row("spec.initContainers[*]", Table(container::IMAGE)),
];

/// A new pod.
pub static NEW_POD: &[Row] = &[
    row("spec", Check(new_pod)),
    row("", Check(annotations::agree_with_fields)),
];

/// A pod template.
pub static TEMPLATE: &[Row] = &[
    row("metadata>.labels", Labels),
    row("metadata>.annotations", Check(metadata::annotations)),
    row("", Check(annotations::of_template)),
    row("spec", Table(SPEC)),
    row("", Check(annotations::agree_with_fields)),
    row("spec.ephemeralContainers", Check(no_ephemeral)),
];

/// The `spec` of a pod.
pub static SPEC: &[Row] = &[
    row("terminationGracePeriodSeconds", Present("")),
    row("terminationGracePeriodSeconds", NonNegative),
    row("volumes", MaxItems(MAX_VOLUMES)),
    row("volumes[*]", Table(volume::VOLUME)),
    row("volumes", Unique("name")),
    row("volumes", Check(created_claims)),
    row("resourceClaims[*]", Table(RESOURCE_CLAIM)),
    row("resourceClaims", Unique("name")),
    row("containers", Required("")),
    row("containers", MaxItems(MAX_CONTAINERS)),
    row("containers[*]", Table(container::CONTAINER)),
    row("containers", Check(container::host_ports)),
    row("initContainers", MaxItems(MAX_CONTAINERS)),
    row("initContainers[*]", Table(container::INIT)),
    row("ephemeralContainers", MaxItems(MAX_CONTAINERS)),
    row("ephemeralContainers[*]", Table(container::EPHEMERAL)),
    row("", Check(container::names)),
    row("", Check(container::targets)),
    row("", Check(resources::of_pod)),
    row("", Check(container::host_network)),
    row("restartPolicy", Choice(&["Always", "OnFailure", "Never"])),
    row(
        "dnsPolicy",
        Choice(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ),
    row("nodeSelector", Labels),
    row("securityContext?", Table(security::POD)),
    row("", Check(security::of_pod)),
    row("affinity?", Table(affinity::AFFINITY)),
    row("", Check(dns)),
    row(
        "readinessGates[*].conditionType",
        Always(names::qualified_name),
    ),
    row("schedulingGates[*].name>", Always(names::qualified_name)),
    row("schedulingGates", Check(gates)),
    row("topologySpreadConstraints[*]", Table(affinity::SPREAD)),
    row("topologySpreadConstraints", Check(affinity::check_repeated)),
    row("", Check(super::windows::host_process)),
    row("", Check(security::host_users)),
    row("serviceAccountName", Format(names::dns_subdomain)),
    row("nodeName", Format(names::dns_subdomain)),
    row("activeDeadlineSeconds", Between(1, i32::MAX as i64)),
    row("hostname", Format(names::dns_label)),
    row("subdomain", Format(names::dns_label)),
    row("tolerations[*]", Table(affinity::TOLERATION)),
    row("hostAliases[*]", Table(HOST_ALIAS)),
    row("priorityClassName", Format(names::dns_subdomain)),
    row("runtimeClassName", FormatIfSet(names::dns_subdomain)),
    row(
        "preemptionPolicy",
        OneOf(&["PreemptLowerPriority", "Never"]),
    ),
    row("overhead", Check(resources::overhead)),
    row("", Check(super::windows::operating_system)),
];

static HOST_ALIAS: &[Row] = &[
    row("ip", Always(formats::ip)),
    row("hostnames[*]", Always(names::dns_subdomain)),
];

static RESOURCE_CLAIM: &[Row] = &[
    row("name", Name(names::dns_label)),
    row("", Check(one_claim)),
    row("resourceClaimName", FormatIfSet(names::dns_subdomain)),
    row(
        "resourceClaimTemplateName",
        FormatIfSet(names::dns_subdomain),
    ),
];

fn mirror(annotations: &Place<'_>, causes: &mut Vec<Cause>) {
    let pod = annotations.object();
    if annotations.has(MIRROR) && text_or_empty(pod, "/spec/nodeName").is_empty() {
        let field = format!("{}[{MIRROR}]", annotations.path());
        let why = "must set spec.nodeName if mirror pod annotation is set";
        causes.push(Cause::invalid(field, annotations.get(MIRROR), why));
    }
}

fn new_pod(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if !spec.items("ephemeralContainers").is_empty() {
        causes.push(Cause::forbidden(
            spec.field("ephemeralContainers"),
            "cannot be set on create",
        ));
    }
    if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden(spec.field("nodeName"), why));
    }
    let annotations = spec.object().pointer("/metadata/annotations");
    let is_mirror = annotations.is_some_and(|annotations| annotations.get(MIRROR).is_some());
    if is_mirror && !spec.items("resourceClaims").is_empty() {
        let why = "mirror pods must not reference resource claims";
        causes.push(Cause::forbidden(spec.field("resourceClaims"), why));
    }
}

fn no_ephemeral(list: &Place<'_>, causes: &mut Vec<Cause>) {
    if !list.list().is_empty() {
        causes.push(Cause::forbidden(
            list.path(),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

fn token_without_account(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if !spec.text("serviceAccountName").is_empty() {
        return;
    }
    for (at, volume) in spec.items("volumes").iter().enumerate() {
        for (index, source) in items(volume, "/projected/sources").iter().enumerate() {
            if source
                .get("serviceAccountToken")
                .is_some_and(Value::is_object)
            {
                let field = format!("volumes[{at}].projected.sources[{index}].serviceAccountToken");
                let why = "must not be specified when serviceAccountName is not set";
                causes.push(Cause::forbidden(spec.field(&field), why));
            }
        }
    }
}

/// Checks that no volume refers to a claim that the pod itself creates.
fn created_claims(volumes: &Place<'_>, causes: &mut Vec<Cause>) {
    let is_pod = volumes.nearest("template").is_null();
    let pod = text_or_empty(volumes.object(), "/metadata/name");
    if !is_pod || pod.is_empty() {
        return;
    }
    let claim = |volume: &Value| format!("{pod}-{}", text_or_empty(volume, "/name"));
    let ephemeral = |volume: &&Value| volume.get("ephemeral").is_some_and(Value::is_object);
    let created: HashSet<_> = volumes.list().iter().filter(ephemeral).map(claim).collect();
    for (index, volume) in volumes.list().iter().enumerate() {
        let place = volumes.item(index, volume);
        let used = text_or_empty(volume, "/persistentVolumeClaim/claimName");
        if created.contains(used) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            causes.push(place.invalid("persistentVolumeClaim.claimName", &used.into(), why));
        }
        if ephemeral(&volume) {
            let (name, claim) = (place.text("name"), claim(volume));
            let faults = names::dns_subdomain(&claim)
                .into_iter()
                .map(|why| format!("PVC name {claim:?}: {why}"));
            causes.extend(faults.map(|why| place.invalid("name", &name.into(), &why)));
        }
    }
}

fn one_claim(claim: &Place<'_>, causes: &mut Vec<Cause>) {
    let why = match (
        claim.has("resourceClaimName"),
        claim.has("resourceClaimTemplateName"),
    ) {
        (true, true) => {
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        }
        (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        _ => return,
    };
    causes.push(claim.refusal(why));
}

fn gates(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let name = |gate| text_or_empty(gate, "/name");
    for (index, gate) in repeats_by(list.list(), name) {
        causes.push(Cause::duplicate(list.item(index, gate).path(), name(gate)));
    }
}

fn dns(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    const SERVERS: usize = 3;
    const SEARCHES: usize = 32;
    const SEARCH_BYTES: usize = 2048;
    let config = spec.child("dnsConfig", "dnsConfig");
    let (servers, searches) = (config.items("nameservers"), config.items("searches"));
    if spec.text("dnsPolicy") == "None" {
        if config.value.is_null() {
            return causes.push(Cause::required(
                config.path(),
                "must provide `dnsConfig` when `dnsPolicy` is None",
            ));
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return causes.push(Cause::required(config.field("nameservers"), why));
        }
    }
    if servers.len() > SERVERS {
        let why = format!("must not have more than {SERVERS} nameservers");
        causes.push(config.invalid("nameservers", config.get("nameservers"), &why));
    }
    crate::validate::engine::check(DNS_SERVERS, &config, causes);
    if searches.len() > SEARCHES {
        let why = format!("must not have more than {SEARCHES} search paths");
        causes.push(config.invalid("searches", config.get("searches"), &why));
    }
    let bytes: usize = searches
        .iter()
        .map(|search| search.as_str().map_or(0, str::len) + 1)
        .sum();
    if bytes > SEARCH_BYTES + 1 {
        let why = format!(
            "must not have more than {SEARCH_BYTES} characters (including spaces) in the search list"
        );
        causes.push(config.invalid("searches", config.get("searches"), &why));
    }
    crate::validate::engine::check(DNS_SEARCHES, &config, causes);
}

static DNS_SERVERS: &[Row] = &[row("nameservers[*]", Always(formats::ip))];
static DNS_SEARCHES: &[Row] = &[
    row("searches[*]", Always(formats::search_domain)),
    row("options[*].name>", Required("must not be empty")),
];
