//! Deployments, replica sets, stateful sets, daemon sets, replication controllers and controller revisions.

use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::names,
    validate::{
        change::{Change, Kept, change, same},
        engine::{
            Row,
            Rule::{
                Absent, AtMostAll, Check, Format, IntOrPercent, NonNegative, Present, Required,
                Selector, Supported, Table,
            },
            row,
        },
        labels,
        numbers::is_zero,
        place::Place,
    },
};

use kubeapi::validate::tables::pod;

pub(super) static DEPLOYMENT: &[Row] = &[
    row("spec.replicas", NonNegative),
    row("spec.selector", Present("")),
    row("spec.selector?", Selector),
    row("spec.selector?", Check(not_empty)),
    row("spec", Check(matches_template)),
    row("spec.template", Table(pod::TEMPLATE)),
    row("spec.template.spec.restartPolicy", Supported(ALWAYS)),
    row(
        "spec.template.spec.activeDeadlineSeconds",
        Absent("activeDeadlineSeconds in ReplicaSet is not Supported"),
    ),
    row("spec.strategy", Check(deployment_strategy)),
    row("spec.minReadySeconds", NonNegative),
    row("spec.revisionHistoryLimit", NonNegative),
    row("spec.progressDeadlineSeconds", NonNegative),
    row("spec", Check(progress)),
];

pub(super) static REPLICA_SET: &[Row] = &[
    row("spec.replicas", NonNegative),
    row("spec.minReadySeconds", NonNegative),
    row("spec.selector", Present("")),
    row("spec.selector?", Selector),
    row("spec.selector?", Check(not_empty)),
    row("spec", Check(matches_template)),
    row("spec.template", Table(pod::TEMPLATE)),
    row("spec.template.spec.restartPolicy", Supported(ALWAYS)),
    row(
        "spec.template.spec.activeDeadlineSeconds",
        Absent("activeDeadlineSeconds in ReplicaSet is not Supported"),
    ),
];

pub(super) static STATEFUL_SET: &[Row] = &[
    row("spec.podManagementPolicy", Required("")),
    row("spec.podManagementPolicy", Format(pod_management)),
    row("spec.updateStrategy", Check(stateful_strategy)),
    row(
        "spec.persistentVolumeClaimRetentionPolicy?.whenDeleted",
        Supported(RETENTION),
    ),
    row(
        "spec.persistentVolumeClaimRetentionPolicy?.whenScaled",
        Supported(RETENTION),
    ),
    row("spec.replicas", NonNegative),
    row("spec.minReadySeconds", NonNegative),
    row("spec.revisionHistoryLimit", NonNegative),
    row("spec.ordinals?.start", NonNegative),
    row("spec.serviceName", Format(names::dns_label)),
    row("spec.selector", Present("")),
    row("spec.selector?", Selector),
    row("spec.selector?", Check(not_empty)),
    row("spec", Check(matches_template)),
    row("spec.template", Table(pod::TEMPLATE)),
    row("spec.template.spec.restartPolicy", Supported(ALWAYS)),
    row(
        "spec.template.spec.activeDeadlineSeconds",
        Absent("activeDeadlineSeconds in StatefulSet is not Supported"),
    ),
];

pub(super) static DAEMON_SET: &[Row] = &[
    row("spec.selector?", Selector),
    row("spec", Check(matches_template)),
    row("spec.selector?", Check(not_empty)),
    row("spec.template", Table(pod::TEMPLATE)),
    row("spec.template.spec.restartPolicy", Supported(ALWAYS)),
    row(
        "spec.template.spec.activeDeadlineSeconds",
        Absent("activeDeadlineSeconds in DaemonSet is not Supported"),
    ),
    row("spec.minReadySeconds", NonNegative),
    row("spec.updateStrategy", Check(daemon_strategy)),
    row("spec.revisionHistoryLimit", NonNegative),
];

pub(super) static REPLICATION_CONTROLLER: &[Row] = &[
    row("spec.minReadySeconds", NonNegative),
    row("spec.selector", Required("")),
    row("spec.replicas", NonNegative),
    row("spec.template", Present("")),
    row("spec", Check(map_matches_template)),
    row("spec.template?", Table(pod::TEMPLATE)),
    row("spec.template?.spec.restartPolicy", Supported(ALWAYS)),
    row(
        "spec.template?.spec.activeDeadlineSeconds",
        Absent("activeDeadlineSeconds in ReplicationController is not Supported"),
    ),
];

pub(super) static POD_TEMPLATE: &[Row] = &[row("template", Table(pod::TEMPLATE))];
pub(super) static CONTROLLER_REVISION: &[Row] = &[
    row("data", Present("data is mandatory")),
    row("revision", NonNegative),
];

static ROLLING: &[Row] = &[
    row("maxUnavailable", IntOrPercent),
    row("maxSurge", IntOrPercent),
];
static AT_MOST_ALL: &[Row] = &[row("maxUnavailable", AtMostAll), row("maxSurge", AtMostAll)];
static STATEFUL_ROLLING: &[Row] = &[
    row("partition", NonNegative),
    row("maxUnavailable", IntOrPercent),
    row("maxUnavailable?", Check(not_zero)),
    row("maxUnavailable", AtMostAll),
];

const ALWAYS: &[&str] = &["Always"];
const RETENTION: &[&str] = &["Retain", "Delete"];
const OF_STATEFUL_SETS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const MUTABLE_OF_STATEFUL_SETS: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) static SELECTOR_STAYS: &[Change] = &[change("spec.selector", Kept::Same)];
pub(super) static STATEFUL_SET_CHANGES: &[Change] =
    &[change("spec", Kept::Check(stateful_spec_stays))];
pub(super) static REVISION_CHANGES: &[Change] = &[change("data", Kept::Same)];

fn pod_management(policy: &str) -> Vec<String> {
    let is_known = matches!(policy, "OrderedReady" | "Parallel");
    (!is_known)
        .then(|| "must be 'OrderedReady' or 'Parallel'".to_owned())
        .into_iter()
        .collect()
}

fn not_zero(amount: &Place<'_>, causes: &mut Vec<Cause>) {
    if is_zero(amount.value) {
        causes.push(amount.refusal("cannot be 0"));
    }
}

fn not_empty(selector: &Place<'_>, causes: &mut Vec<Cause>) {
    if !labels::is_empty(selector.value) {
        return;
    }
    let kind = match selector.object().get("kind").and_then(Value::as_str) {
        Some("StatefulSet") => "statefulset",
        Some("DaemonSet") => "daemonset",
        _ => "deployment",
    };
    causes.push(selector.refusal(&format!("empty selector is invalid for {kind}")));
}

/// Checks that a workload selects the pods of its own template.
pub(super) fn matches_template(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let (selector, labels) = (
        spec.get("selector"),
        spec.pointer("/template/metadata/labels"),
    );
    let why = match spec.object().get("kind").and_then(Value::as_str) {
        Some("Deployment" | "ReplicaSet") => Some("invalid label selector"),
        _ => None,
    };
    match labels::selects(selector, labels) {
        Some(true) => {}
        Some(false) => {
            let why = "`selector` does not match template `labels`";
            causes.push(spec.invalid("template.metadata.labels", labels, why));
        }
        None => causes.extend(why.map(|why| spec.invalid("selector", selector, why))),
    }
}

fn map_matches_template(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let labels = spec.pointer("/template/metadata/labels");
    if spec.has("template") && !labels::includes(labels, spec.get("selector")) {
        let why = "`selector` does not match template `labels`";
        causes.push(spec.invalid("template.metadata.labels", labels, why));
    }
}

fn deployment_strategy(strategy: &Place<'_>, causes: &mut Vec<Cause>) {
    let rolling = strategy.child("rollingUpdate", "rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if !rolling.value.is_null() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                causes.push(Cause::forbidden(rolling.path(), why));
            }
        }
        "RollingUpdate" if rolling.value.is_null() => {
            causes.push(Cause::required(
                rolling.path(),
                "this should be defaulted and never be nil",
            ));
        }
        "RollingUpdate" => {
            kubeapi::validate::engine::check(ROLLING, &rolling, causes);
            if is_zero(rolling.get("maxUnavailable")) && is_zero(rolling.get("maxSurge")) {
                let value = rolling.get("maxUnavailable");
                causes.push(rolling.invalid(
                    "maxUnavailable",
                    value,
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            let (unavailable, _) = AT_MOST_ALL.split_at(1);
            kubeapi::validate::engine::check(unavailable, &rolling, causes);
        }
        _ => causes.push(Cause::unsupported(
            strategy.path(),
            strategy.value,
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn stateful_strategy(strategy: &Place<'_>, causes: &mut Vec<Cause>) {
    let rolling = strategy.child("rollingUpdate", "rollingUpdate");
    match strategy.text("type") {
        "" => causes.push(Cause::required(strategy.path(), "")),
        "OnDelete" if !rolling.value.is_null() => {
            causes.push(rolling.refusal("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => kubeapi::validate::engine::check(STATEFUL_ROLLING, &rolling, causes),
        _ => causes.push(strategy.refusal("must be 'RollingUpdate' or 'OnDelete'")),
    }
}

fn daemon_strategy(strategy: &Place<'_>, causes: &mut Vec<Cause>) {
    let rolling = strategy.child("rollingUpdate", "rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.value.is_null() => {
            causes.push(Cause::required(rolling.path(), ""))
        }
        "RollingUpdate" => {
            kubeapi::validate::engine::check(ROLLING, &rolling, causes);
            kubeapi::validate::engine::check(AT_MOST_ALL, &rolling, causes);
            match (
                is_zero(rolling.get("maxUnavailable")),
                is_zero(rolling.get("maxSurge")),
            ) {
                (false, false) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    causes.push(rolling.invalid("maxSurge", rolling.get("maxSurge"), why));
                }
                (true, true) => {
                    causes.push(Cause::required(
                        rolling.field("maxUnavailable"),
                        "cannot be 0 when maxSurge is 0",
                    ));
                }
                _ => {}
            }
        }
        _ => causes.push(Cause::unsupported(
            strategy.path(),
            strategy.value,
            &["RollingUpdate", "OnDelete"],
        )),
    }
}

fn progress(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let Some(deadline) = spec.number("progressDeadlineSeconds") else {
        return;
    };
    if deadline <= spec.number("minReadySeconds").unwrap_or_default() {
        let why = "must be greater than minReadySeconds";
        causes.push(spec.invalid("progressDeadlineSeconds", &deadline.into(), why));
    }
}

fn stateful_spec_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let fixed = |spec: &Value| {
        let mut spec = spec.as_object().cloned().unwrap_or_default();
        spec.retain(|key, _| !MUTABLE_OF_STATEFUL_SETS.contains(&key.as_str()));
        Value::Object(spec)
    };
    if !same(&fixed(old), &fixed(new)) {
        causes.push(Cause::forbidden("spec", OF_STATEFUL_SETS));
    }
}
