//! Prevents privilege escalation: a caller cannot grant by a role or binding what it does not have, unless it may `escalate` or `bind`:
//! <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping>.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::roles;
use crate::Server;
use kubeapi::access::{attributes::Attributes, rules};
use kubeapi::{
    object::{items, metadata, text_or_empty},
    registry::Builtin,
    request::call::Call,
    status::StatusError,
};

/// A rule reduced to one value for each field, without the verb.
type SingleRule = Vec<(&'static str, String)>;

/// The most single permissions (one verb on one resource) of rules that are compared with the caller's: many times those of `admin`.
const MAX_PERMISSIONS: usize = 100_000;

/// Refuses a role or binding that grants more than the caller has: `new`, which is created or replaces `old`.
pub(crate) async fn check(
    api: &Server,
    call: &Call,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    let Some(caller) = call.caller.as_ref().filter(|caller| !caller.is_master()) else {
        return Ok(());
    };
    let Some(builtin) = call.target.kind.builtin.filter(|_| api.enforces_rbac()) else {
        return Ok(());
    };
    let namespace = text_or_empty(new, "/metadata/namespace");
    let wanted = match builtin {
        Builtin::Role | Builtin::ClusterRole => {
            // a create names no object in its path, and therefore is not allowed by rules with `resourceNames`
            attributes(
                "escalate",
                &call.target.kind.plural,
                namespace,
                &call.target.name,
            )
        }
        Builtin::RoleBinding | Builtin::ClusterRoleBinding => {
            let is_role = text_or_empty(new, "/roleRef/kind") == "Role";
            let plural = if is_role { "roles" } else { "clusterroles" };
            attributes(
                "bind",
                plural,
                namespace,
                text_or_empty(new, "/roleRef/name"),
            )
        }
        _ => return Ok(()),
    };
    if old.is_some_and(|old| has_same_content(old, new)) {
        return Ok(());
    }
    let held: Vec<_> = roles::grants(api, caller, namespace)
        .await?
        .into_iter()
        .flat_map(|grant| grant.rules)
        .collect();
    if held.iter().any(|rule| rules::allows(rule, &wanted)) {
        return Ok(());
    }
    let refused = |why: &str| {
        let name = text_or_empty(new, "/metadata/name");
        Err(StatusError::forbidden(&call.target.kind, name, why))
    };
    let given = match builtin {
        Builtin::Role | Builtin::ClusterRole => items(new, "/rules").to_vec(),
        _ => {
            let kind = text_or_empty(new, "/roleRef/kind");
            roles::rules_of(api, kind, &wanted.name, namespace)
                .await?
                .ok_or_else(|| StatusError::no_role(&wanted.resource, &wanted.name))?
        }
    };
    if given.iter().map(permissions).fold(0, usize::saturating_add) > MAX_PERMISSIONS {
        return refused(&format!(
            "the rules consist of more than {MAX_PERMISSIONS} single permissions; use fewer, or \"*\""
        ));
    }
    let missing = missing(&held, &given);
    if missing.is_empty() {
        return match old.into_iter().chain([new]).any(is_aggregated) && !holds_everything(&held) {
            true => refused("must have cluster-admin privileges to use the aggregationRule"),
            false => Ok(()),
        };
    }
    let (user, groups) = (&caller.user, &caller.groups);
    refused(&format!(
        "user {user:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(groups),
        missing.into_iter().collect::<Vec<_>>().join("\n")
    ))
}

/// Reports whether an update changes at most what garbage collection has to change, and the owners of fields. Any other update is
/// checked: a label, too, may grant the rules of a role to those who have an aggregated role.
fn has_same_content(old: &Value, new: &Value) -> bool {
    const UNCHECKED: [&str; 3] = ["ownerReferences", "finalizers", "managedFields"];
    let rest = |object: &Value| {
        let mut object = object.clone();
        let metadata = metadata(&mut object);
        UNCHECKED
            .iter()
            .for_each(|field| drop(metadata.shift_remove(*field)));
        object
    };
    rest(old) == rest(new)
}

/// Reports whether the rules of a role are those of other roles.
fn is_aggregated(role: &Value) -> bool {
    !items(role, "/aggregationRule/clusterRoleSelectors").is_empty()
}

fn holds_everything(held: &[Value]) -> bool {
    let everything = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    missing(held, &everything).is_empty()
}

fn attributes(verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        verb: verb.to_owned(),
        group: roles::GROUP.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: None,
    }
}

/// Returns the parts of `given` that no rule in `held` covers, formatted as by the API server.
fn missing(held: &[Value], given: &[Value]) -> BTreeSet<String> {
    let mut missing: BTreeMap<(SingleRule, Option<String>), Vec<String>> = BTreeMap::new();
    for (place, verb) in given.iter().flat_map(single) {
        if !held.iter().any(|rule| covers(rule, &place, &verb)) {
            // the verbs of a path are listed one by one
            let own = (place.len() == 1).then(|| verb.clone());
            missing.entry((place, own)).or_default().push(verb);
        }
    }
    let text = |((place, _), verbs): ((SingleRule, Option<String>), Vec<String>)| {
        let named = |(field, value): &(&str, String)| {
            format!("{field}:{}", quote(std::slice::from_ref(value)))
        };
        let mut parts: Vec<_> = place.iter().map(named).collect();
        parts.push(format!("Verbs:{}", quote(&verbs)));
        format!("{{{}}}", parts.join(", "))
    };
    missing.into_iter().map(text).collect()
}

/// Counts the single rules of a rule, each with a verb.
fn permissions(rule: &Value) -> usize {
    let count = |field| items(rule, field).len();
    let resources = count("/apiGroups").saturating_mul(count("/resources"));
    let places = resources
        .saturating_mul(count("/resourceNames").max(1))
        .saturating_add(count("/nonResourceURLs"));
    places.saturating_mul(count("/verbs"))
}

/// Splits a rule into single rules, each with a verb.
fn single(rule: &Value) -> Vec<(SingleRule, String)> {
    let texts = |field| -> Vec<String> {
        items(rule, field)
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let mut places: Vec<_> = texts("/nonResourceURLs")
        .into_iter()
        .map(|url| vec![("NonResourceURLs", url)])
        .collect();
    for group in texts("/apiGroups") {
        for resource in texts("/resources") {
            let place = vec![("APIGroups", group.clone()), ("Resources", resource)];
            let names = texts("/resourceNames");
            if names.is_empty() {
                places.push(place);
            } else {
                places.extend(
                    names
                        .into_iter()
                        .map(|name| [place.clone(), vec![("ResourceNames", name)]].concat()),
                );
            }
        }
    }
    let verbs = texts("/verbs");
    let with_verbs = places
        .into_iter()
        .flat_map(|place| verbs.iter().map(move |verb| (place.clone(), verb.clone())));
    with_verbs.collect()
}

/// Reports whether `rule` covers the single rule. A star there needs a star here.
fn covers(rule: &Value, place: &[(&str, String)], verb: &str) -> bool {
    let of = |wanted: &str| {
        place
            .iter()
            .find(|(field, _)| *field == wanted)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };
    let url = of("NonResourceURLs");
    let wanted = Attributes {
        verb: verb.to_owned(),
        group: of("APIGroups"),
        resource: of("Resources"),
        name: of("ResourceNames"),
        path: (!url.is_empty()).then_some(url),
        namespace: String::new(),
    };
    rules::allows(rule, &wanted)
}

/// Formats a list of texts as Go's `%q`.
fn quote(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_by_place() {
        let rule = |groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs});
        let held = [
            rule(&[""], &["pods"], &[], &["get", "list"]),
            rule(&["apps"], &["*"], &[], &["*"]),
        ];
        let cases = [
            (rule(&[""], &["pods"], &["one"], &["get"]), ""),
            (rule(&["apps"], &["deployments"], &[], &["delete"]), ""),
            (
                rule(&[""], &["pods"], &[], &["get", "watch", "delete"]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#,
            ),
            (
                rule(&["*"], &["pods"], &[], &["get"]),
                r#"{APIGroups:["*"], Resources:["pods"], Verbs:["get"]}"#,
            ),
            (
                rule(&[""], &["secrets"], &["a", "b"], &["get"]),
                "{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}",
            ),
            (
                json!({"nonResourceURLs": ["/metrics"], "verbs": ["get", "post"]}),
                "{NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/metrics\"], Verbs:[\"post\"]}",
            ),
        ];
        for (given, expected) in cases {
            let found = missing(&held, std::slice::from_ref(&given))
                .into_iter()
                .collect::<Vec<_>>()
                .join("\n");
            assert_eq!(found, expected, "{given}");
        }
    }
}
