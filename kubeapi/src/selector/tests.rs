//! Tests of [`super`].

use serde_json::{Value, json};

use super::Selection;
use crate::registry::Registry;

fn selection(
    plural: &str,
    labels: Option<&str>,
    fields: Option<&str>,
) -> Result<Selection, String> {
    let registry = Registry::builtin();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    Selection::parse(kind, labels, fields).map_err(|error| {
        let body = error.body();
        assert_eq!(body["code"], 400);
        body["message"].as_str().unwrap().to_owned()
    })
}

fn labelled_object() -> Value {
    json!({"metadata": {"name": "a", "labels": {"app": "web", "tier": "front", "empty": "", "n": "5", "in": "x"}}})
}

#[test]
fn label_selectors_match_as_in_kubernetes() {
    let cases = [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        (" app = web , tier = front ", true),
        ("app=other", false),
        ("app!=other", true),
        ("absent!=x", true),
        ("app!=web", false),
        ("app", true),
        ("absent", false),
        ("!absent", true),
        ("!app", false),
        ("app in (web, db)", true),
        ("app in (db)", false),
        ("app notin (db)", true),
        ("absent notin (db)", true),
        ("app notin (web,db)", false),
        ("empty=", true),
        ("empty in (,)", true),
        ("app in (,web)", true),
        ("app=web,tier in (back)", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app>4", false),
        ("absent<4", false),
        ("in=x", true),
        ("in in (x)", true),
        ("example.com/key", false),
    ];
    for (text, expected) in cases {
        let selection =
            selection("pods", Some(text), None).unwrap_or_else(|why| panic!("{text:?}: {why}"));
        assert_eq!(selection.matches(&labelled_object()), expected, "{text:?}");
    }
}

#[test]
fn bad_label_selectors_are_refused_in_the_servers_words() {
    let messages: Vec<_> = [
        "app in",
        "app in web",
        "app in (web",
        "app in ()",
        "app in (=)",
        "app web",
        "app=web tier=front",
        "app=web,",
        "=web",
        "app==!",
        "n>x",
        "a/b/c=d",
        "-app=x",
        "app=-x",
        "app in (ok,-x)",
        "!",
        "(",
    ]
    .into_iter()
    .map(|text| {
        format!(
            "{text}\n    {}",
            selection("pods", Some(text), None).unwrap_err()
        )
    })
    .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn field_selectors_match_as_in_kubernetes() {
    let pod = json!({
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"nodeName": "edge-1", "hostNetwork": true, "restartPolicy": "Always"},
        "status": {"phase": "Running"},
    });
    let pending = json!({"metadata": {"name": "b,c", "namespace": "ns"}, "spec": {}});
    let node = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"name": "a", "kind": "Pod"},
        "reportingComponent": "agent", "type": "Normal"});
    let cases = [
        ("pods", &pod, "", true),
        ("pods", &pod, "metadata.name=a", true),
        ("pods", &pod, "metadata.name==b", false),
        ("pods", &pod, "metadata.name!=b,metadata.namespace=ns", true),
        (
            "pods",
            &pod,
            "spec.nodeName=edge-1,status.phase!=Failed",
            true,
        ),
        ("pods", &pod, "spec.host=edge-1", true),
        ("pods", &pod, "spec.hostNetwork=true", true),
        ("pods", &pending, "spec.hostNetwork=false", true),
        ("pods", &pending, "spec.nodeName=", true),
        ("pods", &pending, "spec.nodeName!=", false),
        ("pods", &pending, r"metadata.name=b\,c", true),
        ("nodes", &node, "spec.unschedulable=true", true),
        ("nodes", &pending, "spec.unschedulable=false", true),
        (
            "events",
            &event,
            "involvedObject.name=a,involvedObject.kind=Pod",
            true,
        ),
        ("events", &event, "source=agent,type=Normal", true),
        ("configmaps", &pod, "metadata.name=a", true),
        ("secrets", &json!({"type": "Opaque"}), "type=Opaque", true),
    ];
    for (plural, object, text, expected) in cases {
        let selection =
            selection(plural, None, Some(text)).unwrap_or_else(|why| panic!("{text:?}: {why}"));
        assert_eq!(selection.matches(object), expected, "{plural} {text:?}");
    }
}

#[test]
fn bad_field_selectors_are_refused_in_the_servers_words() {
    let cases = [
        (
            "pods",
            "spec.foo=bar",
            "field label not supported: spec.foo",
        ),
        (
            "nodes",
            "metadata.namespace=x",
            "field label not supported: metadata.namespace",
        ),
        (
            "configmaps",
            "data.x=y",
            "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "pods",
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "pods",
            "a!b,c=d",
            "invalid selector: 'a!b,c=d'; can't understand 'a!b'",
        ),
        (
            "pods",
            r"metadata.name=a\x",
            r"invalid field selector: invalid escape sequence: \x",
        ),
        (
            "pods",
            "metadata.name=a=b",
            "invalid field selector: unescaped character in value: 61",
        ),
    ];
    for (plural, text, expected) in cases {
        assert_eq!(
            selection(plural, None, Some(text)).unwrap_err(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn no_selector_selects_everything() {
    assert!(
        !selection("pods", None, Some("metadata.name!=a"))
            .unwrap()
            .is_everything()
    );
    assert!(Selection::default().is_everything());
    assert!(
        selection("pods", Some(""), Some(""))
            .unwrap()
            .is_everything()
    );
}
