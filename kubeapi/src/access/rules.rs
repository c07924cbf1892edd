//! Matches rules of roles. Pure.

use serde_json::Value;

use super::attributes::Attributes;
use crate::object::items;

/// Reports whether `rule` (a `PolicyRule`) allows the request.
pub fn allows(rule: &Value, wanted: &Attributes) -> bool {
    let has = |field: &str, value: &str| any(rule, field, |own| own == "*" || own == value);
    if !has("/verbs", &wanted.verb) {
        return false;
    }
    if let Some(path) = &wanted.path {
        return any(rule, "/nonResourceURLs", |own| {
            match own.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => own == path,
            }
        });
    }
    let part = wanted.resource.split_once('/').map(|(_, part)| part);
    let is_resource = |own: &str| {
        own == "*"
            || own == wanted.resource
            || part.is_some_and(|part| own.strip_prefix("*/") == Some(part))
    };
    has("/apiGroups", &wanted.group)
        && any(rule, "/resources", is_resource)
        && (items(rule, "/resourceNames").is_empty()
            || any(rule, "/resourceNames", |own| own == wanted.name))
}

/// Reports whether `rule` (a `PolicyRule`) allows `verb` on objects of `group`: of `resource`, such as `pods` or `pods/status`, and
/// `name`, which is empty for collections. For services that evaluate rules of an API server.
pub fn rule_allows(rule: &Value, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let text = str::to_owned;
    let (verb, group, resource, name) = (text(verb), text(group), text(resource), text(name));
    allows(
        rule,
        &Attributes {
            verb,
            group,
            resource,
            name,
            ..Attributes::default()
        },
    )
}

fn any(rule: &Value, field: &str, test: impl Fn(&str) -> bool) -> bool {
    items(rule, field)
        .iter()
        .filter_map(Value::as_str)
        .any(test)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attributes(verb: &str, group: &str, resource: &str, name: &str) -> Attributes {
        let [verb, group, resource, name] = [verb, group, resource, name].map(str::to_owned);
        Attributes {
            verb,
            group,
            resource,
            name,
            ..Attributes::default()
        }
    }

    #[test]
    fn rules_allow_what_they_name() {
        let rule = |groups: &[&str], resources: &[&str], names: &[&str]| json!({"verbs": ["get", "list"], "apiGroups": groups, "resources": resources, "resourceNames": names});
        let pods = attributes("get", "", "pods", "a");
        let log = attributes("get", "", "pods/log", "a");
        let cases = [
            (rule(&[""], &["pods"], &[]), &pods, true),
            (rule(&[""], &["pods"], &[]), &log, false),
            (rule(&[""], &["pods/log"], &[]), &log, true),
            (rule(&[""], &["*/log"], &[]), &log, true),
            (rule(&[""], &["*/status"], &[]), &log, false),
            (rule(&["*"], &["*"], &[]), &log, true),
            (rule(&["apps"], &["pods"], &[]), &pods, false),
            (rule(&[""], &["pods"], &["a"]), &pods, true),
            (rule(&[""], &["pods"], &["b"]), &pods, false),
            (
                rule(&[""], &["pods"], &["a"]),
                &attributes("list", "", "pods", ""),
                false,
            ),
            (
                rule(&[""], &["pods"], &[]),
                &attributes("delete", "", "pods", "a"),
                false,
            ),
            (
                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
                &pods,
                false,
            ),
            (json!({}), &pods, false),
        ];
        for (rule, wanted, expected) in cases {
            assert_eq!(allows(&rule, wanted), expected, "{rule} {wanted:?}");
        }
    }

    #[test]
    fn paths_may_end_in_a_star() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics", "/apis/*"]});
        let cases = [
            ("/metrics", true),
            ("/metrics/a", false),
            ("/apis/apps", true),
            ("/apis", false),
        ];
        for (path, expected) in cases {
            assert_eq!(
                allows(&rule, &Attributes::of_path("GET", path)),
                expected,
                "{path}"
            );
            assert!(!allows(&rule, &Attributes::of_path("PUT", path)), "{path}");
        }
    }
}
