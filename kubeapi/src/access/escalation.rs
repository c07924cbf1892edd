//! Prevents privilege escalation: a caller cannot grant by a role or binding what it does not have, unless it may `escalate` or `bind`:
//! <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping>.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{attributes::Attributes, roles, rules};
use crate::{
    Api,
    call::Call,
    object::{items, text_or_empty},
    registry::Builtin,
    status::StatusError,
};

/// A rule reduced to one value for each field, without the verb.
type SingleRule = Vec<(&'static str, String)>;

/// Refuses an update from `old` to `new` that grants more than the caller has.
pub(crate) async fn check(
    api: &Api,
    call: &Call,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    let Some(caller) = call.caller.as_ref().filter(|caller| !caller.is_master()) else { return Ok(()) };
    let Some(builtin) = call.target.kind.builtin.filter(|_| api.enforces_rbac()) else { return Ok(()) };
    let is_same = |fields: &[&str]| {
        old.is_some_and(|old| fields.iter().all(|field| old.get(*field) == new.get(*field)))
    };
    let namespace = text_or_empty(new, "/metadata/namespace");
    let wanted = match builtin {
        Builtin::Role | Builtin::ClusterRole if is_same(&["rules", "aggregationRule"]) => return Ok(()),
        Builtin::Role | Builtin::ClusterRole => {
            asked("escalate", &call.target.kind.plural, namespace, new, "/metadata/name")
        }
        Builtin::RoleBinding | Builtin::ClusterRoleBinding if is_same(&["subjects", "roleRef"]) => {
            return Ok(());
        }
        Builtin::RoleBinding | Builtin::ClusterRoleBinding => {
            let is_role = text_or_empty(new, "/roleRef/kind") == "Role";
            asked("bind", if is_role { "roles" } else { "clusterroles" }, namespace, new, "/roleRef/name")
        }
        _ => return Ok(()),
    };
    let held: Vec<_> =
        roles::grants(api, caller, namespace).await?.into_iter().flat_map(|grant| grant.rules).collect();
    if held.iter().any(|rule| rules::allows(rule, &wanted)) {
        return Ok(());
    }
    let refused = |why: &str| {
        let name = text_or_empty(new, "/metadata/name");
        Err(StatusError::forbidden(&call.target.kind, name, why))
    };
    let given = match builtin {
        Builtin::ClusterRole if new.get("aggregationRule").is_some_and(|rule| !rule.is_null()) => {
            let everything = [
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
            ];
            if !missing(&held, &everything).is_empty() {
                return refused("must have cluster-admin privileges to use the aggregationRule");
            }
            Vec::new()
        }
        Builtin::Role | Builtin::ClusterRole => items(new, "/rules").to_vec(),
        _ => {
            let kind = text_or_empty(new, "/roleRef/kind");
            roles::rules_of(api, kind, &wanted.name, namespace)
                .await?
                .ok_or_else(|| StatusError::no_role(&wanted.resource, &wanted.name))?
        }
    };
    let missing = missing(&held, &given);
    if missing.is_empty() {
        return Ok(());
    }
    let (user, groups) = (&caller.user, &caller.groups);
    refused(&format!(
        "user {user:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(groups),
        missing.into_iter().collect::<Vec<_>>().join("\n")
    ))
}

fn asked(verb: &str, resource: &str, namespace: &str, object: &Value, name: &str) -> Attributes {
    Attributes {
        verb: verb.to_owned(),
        group: roles::GROUP.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: text_or_empty(object, name).to_owned(),
        path: None,
    }
}

/// Returns the parts of `given` that no rule in `held` covers, formatted as by the API server.
fn missing(held: &[Value], given: &[Value]) -> BTreeSet<String> {
    let mut missing: Vec<(SingleRule, Vec<String>)> = Vec::new();
    for (place, verb) in given.iter().flat_map(single) {
        if held.iter().any(|rule| covers(rule, &place, &verb)) {
            continue;
        }
        match missing.iter_mut().find(|(known, _)| *known == place && place.len() > 1) {
            Some((_, verbs)) => verbs.push(verb),
            None => missing.push((place, vec![verb])),
        }
    }
    let text = |(place, verbs): (SingleRule, Vec<String>)| {
        let named =
            |(field, value): &(&str, String)| format!("{field}:{}", quoted(std::slice::from_ref(value)));
        let mut parts: Vec<_> = place.iter().map(named).collect();
        parts.push(format!("Verbs:{}", quoted(&verbs)));
        format!("{{{}}}", parts.join(", "))
    };
    missing.into_iter().map(text).collect()
}

/// Splits a rule into single rules, each with a verb.
fn single(rule: &Value) -> Vec<(SingleRule, String)> {
    let texts = |field| -> Vec<String> {
        items(rule, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut places: Vec<_> =
        texts("/nonResourceURLs").into_iter().map(|url| vec![("NonResourceURLs", url)]).collect();
    for group in texts("/apiGroups") {
        for resource in texts("/resources") {
            let place = vec![("APIGroups", group.clone()), ("Resources", resource)];
            let names = texts("/resourceNames");
            if names.is_empty() {
                places.push(place);
            } else {
                places.extend(
                    names.into_iter().map(|name| [place.clone(), vec![("ResourceNames", name)]].concat()),
                );
            }
        }
    }
    let verbs = texts("/verbs");
    let with_verbs =
        places.into_iter().flat_map(|place| verbs.iter().map(move |verb| (place.clone(), verb.clone())));
    with_verbs.collect()
}

/// Reports whether `rule` covers the single rule. A star there needs a star here.
fn covers(rule: &Value, place: &[(&str, String)], verb: &str) -> bool {
    let of = |wanted: &str| {
        place.iter().find(|(field, _)| *field == wanted).map(|(_, value)| value.clone()).unwrap_or_default()
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
fn quoted(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_by_place() {
        let rule = |groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs});
        let held = [rule(&[""], &["pods"], &[], &["get", "list"]), rule(&["apps"], &["*"], &[], &["*"])];
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
            let found =
                missing(&held, std::slice::from_ref(&given)).into_iter().collect::<Vec<_>>().join("\n");
            assert_eq!(found, expected, "{given}");
        }
    }
}
