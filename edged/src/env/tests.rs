//! Tests of [`super`].

use serde_json::json;

use super::*;
use crate::references::Fetched;

fn objects() -> Objects {
    let mut objects = Objects::default();
    let data = |pairs: &[(&str, &[u8])]| {
        Fetched::Found(std::sync::Arc::new(
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.to_vec()))
                .collect(),
        ))
    };
    objects.insert(
        Reference::ConfigMap("cm".into()),
        data(&[("level", b"debug"), ("bad=name", b"x"), ("raw", &[0xff])]),
    );
    objects.insert(
        Reference::Secret("pw".into()),
        data(&[("password", b"hunter2")]),
    );
    objects.insert(Reference::ConfigMap("gone".into()), Fetched::Missing);
    objects.insert(
        Reference::Secret("far".into()),
        Fetched::Unavailable("the cloud is not connected".into()),
    );
    objects
}

/// Variables of a service.
const SERVICES: [(&str, &str); 2] = [("DB_HOST", "10.0.0.9"), ("ME", "service")];

fn env_of(container: serde_json::Value) -> Result<Vec<(String, String)>, String> {
    let mut container: Container = serde_json::from_value(container).unwrap();
    container.name = "c".into();
    let pod =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": []}}))
            .unwrap();
    let downward = Downward {
        pod: &pod,
        host_ips: &[],
        pod_ips: &[],
        allocatable: Default::default(),
    };
    let services = SERVICES
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let environment =
        build(&container, services, &objects(), &downward).map_err(|error| error.to_string())?;
    Ok(environment
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

#[test]
fn variables_are_in_order_and_later_ones_see_earlier_ones() {
    let got = env_of(json!({
        "name": "c",
        "envFrom": [{"prefix": "CM_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "none", "optional": true}}],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(CM_level)-$(NONE)-$$(A)-$x$"},
            {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "pw", "key": "password"}}},
            {"name": "SKIP", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "k", "optional": true}}},
            {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "A", "value": "2"},
            {"name": "EMPTY"},
            {"name": "URL", "value": "tcp://$(DB_HOST)"}
        ]
    }))
    .unwrap();
    let wanted = [
        ("DB_HOST", "10.0.0.9"),
        ("ME", "p"),
        ("CM_level", "debug"),
        ("A", "2"),
        ("B", "1-debug-$(NONE)-$(A)-$x$"),
        ("PW", "hunter2"),
        ("EMPTY", ""),
        ("URL", "tcp://10.0.0.9"),
    ];
    assert_eq!(
        got,
        wanted.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn expand_all_fails_on_undefined_variables() {
    let container =
        json!({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}]});
    let environment = literals(&serde_json::from_value(container).unwrap());
    assert_eq!(
        environment.expand_all("$(B)/$$(C)").as_deref(),
        Some("12/$(C)")
    );
    assert_eq!(environment.expand_all("$(B)/$(C)"), None);
}

#[test]
fn what_is_not_there_is_named() {
    for (env, wanted) in [
        (
            json!({"configMapKeyRef": {"name": "gone", "key": "k"}}),
            "configmap \"gone\" not found",
        ),
        (
            json!({"secretKeyRef": {"name": "pw", "key": "user"}}),
            "couldn't find key user in secret \"pw\"",
        ),
        (
            json!({"configMapKeyRef": {"name": "cm", "key": "raw"}}),
            "key raw in configmap \"cm\" is not UTF-8 text",
        ),
        (
            json!({"secretKeyRef": {"name": "far", "key": "k", "optional": true}}),
            "secret \"far\" is not on this node and cannot be fetched now: the cloud is not connected",
        ),
    ] {
        assert_eq!(
            env_of(json!({"name": "c", "env": [{"name": "X", "valueFrom": env}]})).unwrap_err(),
            wanted
        );
    }
    let from = json!({"name": "c", "envFrom": [{"configMapRef": {"name": "gone"}}]});
    assert_eq!(env_of(from).unwrap_err(), "configmap \"gone\" not found");
}

#[test]
fn what_is_optional_may_be_missing() {
    let from = |optional: bool| json!({"envFrom": [{"configMapRef": {"name": "gone", "optional": optional}}]});
    let secret = |name: &str, key: &str| json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": key, "optional": true}}}]});
    let both = json!({"envFrom": [{"prefix": "P_", "secretRef": {"name": "pw"}}, {"secretRef": {"name": "no", "optional": true}}]});
    let named = |container| {
        env_of(container).map(|all| all.into_iter().skip(SERVICES.len()).collect::<Vec<_>>())
    };
    assert_eq!(named(from(true)), Ok(vec![]));
    assert!(
        named(from(false))
            .unwrap_err()
            .contains("configmap \"gone\" not found")
    );
    assert_eq!(named(secret("no", "x")), Ok(vec![]));
    assert_eq!(named(secret("pw", "x")), Ok(vec![]));
    assert_eq!(
        named(both),
        Ok(vec![("P_password".into(), "hunter2".into())])
    );
}
