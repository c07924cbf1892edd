//! Tables of successive writes by managers, the resulting object and its owners. The first cases are those of the Kubernetes
//! documentation on server-side apply.

use serde_json::json;

use super::*;
use crate::patch::{PatchKind, patch, track_update};

const POD: Target<'_> = Target {
    group: "",
    version: "v1",
    kind: "Pod",
    schema: None,
};
const DEPLOYMENT: Target<'_> = Target {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    schema: None,
};
const CONFIG_MAP: Target<'_> = Target {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    schema: None,
};

/// An object and the clock of its writes.
struct World<'a> {
    target: Target<'a>,
    object: Option<Value>,
    hour: u8,
}

impl<'a> World<'a> {
    fn new(target: Target<'a>) -> Self {
        Self {
            target,
            object: None,
            hour: 0,
        }
    }

    fn options<'o>(manager: &'o str, now: &'o str) -> ApplyOptions<'o> {
        ApplyOptions {
            manager,
            force: false,
            now,
            subresource: "",
            ignored: &["status"],
            versions: None,
        }
    }

    fn now(&mut self) -> String {
        self.hour += 1;
        format!("2026-01-01T{:02}:00:00Z", self.hour)
    }

    fn try_apply(&mut self, manager: &str, force: bool, config: Value) -> Result<(), PatchError> {
        let now = self.now();
        let options = ApplyOptions {
            force,
            ..Self::options(manager, &now)
        };
        let mut body = config;
        let version = Manager::new(&self.target, &options, Operation::Apply).api_version;
        body["apiVersion"] = version.into();
        body["kind"] = self.target.kind.into();
        body["metadata"]["name"] = "x".into();
        self.object = Some(patch(
            PatchKind::Apply,
            &self.target,
            self.object.as_ref(),
            &body,
            &options,
        )?);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, false, config).unwrap();
        self
    }

    fn force(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, true, config).unwrap();
        self
    }

    /// Makes an ordinary write: the current object merged with `change`.
    fn update(&mut self, manager: &str, change: Value) -> &mut Self {
        let now = self.now();
        let options = Self::options(manager, &now);
        let current = self.object.clone().unwrap_or_else(|| json!({}));
        let mut new = patch(
            PatchKind::Merge,
            &self.target,
            Some(&current),
            &change,
            &options,
        )
        .unwrap();
        track_update(&self.target, self.object.as_ref(), &mut new, &options).unwrap();
        self.object = Some(new);
        self
    }

    fn conflict(&mut self, manager: &str, config: Value) -> (String, Vec<Conflict>) {
        match self.try_apply(manager, false, config) {
            Err(PatchError::Conflict { message, conflicts }) => (message, conflicts),
            other => panic!("{other:?}"),
        }
    }

    fn at(&self, pointer: &str) -> &Value {
        self.object
            .as_ref()
            .unwrap()
            .pointer(pointer)
            .unwrap_or(&Value::Null)
    }

    /// Returns (manager, operation, fieldsV1) of each manager.
    fn owners(&self) -> Value {
        let entries = items(self.object.as_ref().unwrap(), "/metadata/managedFields").iter();
        entries
            .map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]]))
            .collect()
    }
}

#[test]
fn an_apply_creates_and_owns_what_it_says() {
    let mut world = World::new(CONFIG_MAP);
    world.apply(
        "kubectl",
        json!({"metadata": {"labels": {"test-label": "test"}}, "data": {"key": "some value"}}),
    );
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "x", "labels": {"test-label": "test"},
            "managedFields": [{
                "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T01:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {"f:key": {}}, "f:metadata": {"f:labels": {"f:test-label": {}}}},
            }],
        },
        "data": {"key": "some value"},
    });
    assert_eq!(world.object, Some(expected));
}

#[test]
fn what_another_manager_changed_is_a_conflict_until_forced() {
    let mut world = World::new(CONFIG_MAP);
    let config = || json!({"data": {"key": "some value", "other": "1"}});
    world.apply("kubectl", config()).update(
        "kube-controller-manager",
        json!({"data": {"key": "new value"}}),
    );
    assert_eq!(
        world.owners(),
        json!([
            ["kubectl", "Apply", {"f:data": {"f:other": {}}}],
            ["kube-controller-manager", "Update", {"f:data": {"f:key": {}}}],
        ])
    );
    let (message, conflicts) = world.conflict("kubectl", config());
    let with = r#"conflict with "kube-controller-manager" using v1"#;
    assert_eq!(
        message,
        format!("Apply failed with 1 conflict: {with}: .data.key")
    );
    assert_eq!(
        conflicts,
        [Conflict {
            field: ".data.key".into(),
            message: with.into()
        }]
    );
    world.force("kubectl", config());
    assert_eq!(world.at("/data/key"), "some value");
    assert_eq!(
        world.owners(),
        json!([["kubectl", "Apply", {"f:data": {"f:key": {}, "f:other": {}}}]])
    );
}

#[test]
fn conflicts_are_listed_by_manager() {
    let mut world = World::new(POD);
    world
        .apply(
            "b",
            json!({"spec": {"containers": [{"name": "web", "image": "1"}], "nodeSelector": {"a": "1"}}}),
        )
        .update("c", json!({"metadata": {"finalizers": ["x"], "labels": {"a.io/b": "1"}}}));
    let (message, _) = world.conflict(
        "a",
        json!({"metadata": {"labels": {"a.io/b": "2"}}, "spec": {
            "containers": [{"name": "web", "image": "2"}], "nodeSelector": {"a": "1", "b": "2"}}}),
    );
    insta::assert_snapshot!(message, @r#"
    Apply failed with 3 conflicts: conflicts with "b":
    - .spec.nodeSelector
    - .spec.containers[name="web"].image
    conflicts with "c" using v1:
    - .metadata.labels.a.io/b
    "#);
}

#[test]
fn the_same_value_has_two_owners() {
    let mut world = World::new(DEPLOYMENT);
    world
        .apply("a", json!({"spec": {"replicas": 3}}))
        .apply("b", json!({"spec": {"replicas": 3}}));
    let fields = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(
        world.owners(),
        json!([["a", "Apply", fields], ["b", "Apply", fields]])
    );
    let (message, _) = world.conflict("b", json!({"spec": {"replicas": 4}}));
    assert_eq!(
        message,
        r#"Apply failed with 1 conflict: conflict with "a": .spec.replicas"#
    );
    world.apply("a", json!({"spec": {"paused": true}}));
    assert_eq!(
        (world.at("/spec/replicas"), world.at("/spec/paused")),
        (&json!(3), &json!(true))
    );
    world.apply("b", json!({}));
    assert_eq!(world.at("/spec"), &json!({"paused": true}));
}

/// The documentation's example: an autoscaler takes over `replicas`.
#[test]
fn a_field_can_be_handed_over() {
    let mut world = World::new(DEPLOYMENT);
    world.apply("user", json!({"spec": {"replicas": 3, "paused": false}}));
    world.update("autoscaler", json!({"spec": {"replicas": 5}}));
    world.apply("user", json!({"spec": {"paused": false}}));
    assert_eq!(world.at("/spec/replicas"), 5);
}

/// Each case: two applies of the pod's spec by one manager with an update by another in between; then the resulting spec.
#[test]
fn what_is_no_longer_applied_goes() {
    for (what, first, update, second, expected) in [
        (
            "a scalar, while others stay",
            json!({"hostname": "a", "subdomain": "b"}),
            json!({}),
            json!({"subdomain": "b"}),
            json!({"subdomain": "b"}),
        ),
        (
            "a container with all that is in it",
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
            json!({"dnsPolicy": "Default"}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "b", "image": "2"}], "dnsPolicy": "Default"}),
        ),
        (
            "one of two ports of the same number",
            json!({"containers": [{"name": "a", "ports": [
                {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]}]}),
            json!({}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]}),
        ),
        (
            "not what somebody else changed",
            json!({"hostname": "a", "subdomain": "b"}),
            json!({"hostname": "c"}),
            json!({"subdomain": "b"}),
            json!({"hostname": "c", "subdomain": "b"}),
        ),
        (
            "a part whose other fields somebody else owns",
            json!({"securityContext": {"runAsUser": 1}, "hostname": "a"}),
            json!({"securityContext": {"fsGroup": 2}}),
            json!({"hostname": "a"}),
            json!({"securityContext": {"fsGroup": 2}, "hostname": "a"}),
        ),
        (
            "a list that is a whole",
            json!({"tolerations": [{"key": "a"}], "hostname": "a"}),
            json!({}),
            json!({"hostname": "a"}),
            json!({"hostname": "a"}),
        ),
        (
            "by null",
            json!({"hostname": "a", "subdomain": "b"}),
            json!({}),
            json!({"hostname": null, "subdomain": "b"}),
            json!({"subdomain": "b"}),
        ),
    ] {
        let mut world = World::new(POD);
        world
            .apply("a", json!({ "spec": first }))
            .update("b", json!({ "spec": update }));
        world.apply("a", json!({ "spec": second }));
        assert_eq!(world.at("/spec"), &expected, "{what}");
    }
}

#[test]
fn nothing_of_the_metadata_goes_with_the_last_label() {
    let mut world = World::new(POD);
    world.apply(
        "a",
        json!({"metadata": {"labels": {"a": "1"}, "creationTimestamp": null}}),
    );
    let metadata = world.object.as_mut().unwrap()["metadata"]
        .as_object_mut()
        .unwrap();
    metadata.insert("uid".into(), "u".into());
    metadata.insert("creationTimestamp".into(), "2026-01-01T00:00:00Z".into());
    metadata.insert("resourceVersion".into(), "7".into());
    world.apply("a", json!({"metadata": {"creationTimestamp": null}}));
    let left = json!({"name": "x", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7"});
    assert_eq!(world.at("/metadata"), &left);
}

#[test]
fn lists_keep_the_order_of_the_configuration() {
    let mut world = World::new(POD);
    let containers = |names: &[&str]| {
        let list: Vec<_> = names
            .iter()
            .map(|name| json!({"name": name, "image": "1"}))
            .collect();
        json!({"spec": {"containers": list}})
    };
    world
        .apply("a", containers(&["a", "c"]))
        .apply("b", containers(&["b"]))
        .apply("a", containers(&["c", "d", "a"]));
    let names: Vec<_> = world
        .at("/spec/containers")
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(names, ["c", "b", "d", "a"]);
}

#[test]
fn values_of_a_set_have_owners_of_their_own() {
    let mut world = World::new(POD);
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    world
        .apply("a", finalizers(json!(["a", "both"])))
        .apply("b", finalizers(json!(["b", "both"])));
    assert_eq!(world.at("/metadata/finalizers"), &json!(["a", "b", "both"]));
    world.apply("a", finalizers(json!([])));
    assert_eq!(world.at("/metadata/finalizers"), &json!(["b", "both"]));
    world.apply("b", json!({}));
    assert_eq!(world.at("/metadata/finalizers"), &Value::Null);
}

#[test]
fn an_apply_that_changes_nothing_leaves_even_the_times() {
    let mut world = World::new(POD);
    let config = || json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a", "image": "1"}]}});
    world
        .apply("a", config())
        .update("b", json!({"spec": {"hostname": "h"}}));
    let before = world.object.clone();
    world
        .apply("a", config())
        .update("b", json!({"spec": {"hostname": "h"}}));
    assert_eq!(world.object, before);
}

#[test]
fn a_defined_kind_has_the_structure_of_its_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "twins": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "mode"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "mode": {"type": "string", "default": "rw"}}},
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "points": {"type": "array", "items": {"type": "object"}},
        "address": {"type": "object", "x-kubernetes-map-type": "atomic"},
    }}}});
    let target = Target {
        group: "devices.kubeedge.io",
        version: "v1beta1",
        kind: "Device",
        schema: Some(&schema),
    };
    let mut world = World::new(target);
    world.apply(
        "a",
        json!({"spec": {"twins": [{"name": "t", "value": 1}], "tags": ["x"], "points": [{"name": "p"}], "address": {"a": 1}}}),
    );
    world.update("b", json!({"spec": {"free": {"inside": 1}}}));
    let fields = json!({"f:spec": {
        "f:twins": {r#"k:{"mode":"rw","name":"t"}"#: {".": {}, "f:name": {}, "f:value": {}}},
        "f:tags": {r#"v:"x""#: {}}, "f:points": {}, "f:address": {},
    }});
    let free = json!({"f:spec": {"f:free": {".": {}, "f:inside": {}}}});
    assert_eq!(
        world.owners(),
        json!([["a", "Apply", fields], ["b", "Update", free]])
    );
    world.apply(
        "c",
        json!({"spec": {"twins": [{"name": "t", "mode": "rw", "value": 1}, {"name": "t", "mode": "r"}]}}),
    );
    assert_eq!(world.at("/spec/twins").as_array().unwrap().len(), 2);
    let (message, _) = world.conflict("c", json!({"spec": {"address": {"b": 2}}}));
    assert_eq!(
        message,
        r#"Apply failed with 1 conflict: conflict with "a": .spec.address"#
    );
}

#[test]
fn ordinary_writes_own_what_they_change() {
    let mut world = World::new(POD);
    world.update(
        "kubectl-create",
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "1"}},
            "spec": {"containers": [{"name": "a", "image": "1", "resources": {}}]}, "status": {"phase": "Pending"}}),
    );
    let item = json!({".": {}, "f:name": {}, "f:image": {}, "f:resources": {}});
    let containers = json!({"f:containers": {r#"k:{"name":"a"}"#: item}});
    assert_eq!(
        world.owners(),
        json!([["kubectl-create", "Update", {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": containers}]]),
        "neither the name nor, here, the status"
    );
    let hour = world.hour;
    world.update(
        "other",
        json!({"metadata": {"labels": {"a": null, "b": "2"}, "resourceVersion": "5"}}),
    );
    assert_eq!(
        world.owners(),
        json!([
            ["kubectl-create", "Update", {"f:metadata": {"f:labels": {}}, "f:spec": containers}],
            ["other", "Update", {"f:metadata": {"f:labels": {"f:b": {}}}}],
        ])
    );
    let times: Vec<_> = items(world.object.as_ref().unwrap(), "/metadata/managedFields")
        .iter()
        .map(|e| &e["time"])
        .collect();
    assert_eq!(
        times,
        [
            &json!(format!("2026-01-01T{hour:02}:00:00Z")),
            &json!(format!("2026-01-01T{:02}:00:00Z", hour + 1))
        ]
    );
    world.update("other", json!({"metadata": {"managedFields": null}}));
    assert_eq!(
        world.owners().as_array().unwrap().len(),
        2,
        "leaving them out means nothing"
    );
    world.update("other", json!({"metadata": {"managedFields": [{}]}}));
    assert_eq!(
        world.at("/metadata/managedFields"),
        &Value::Null,
        "this resets them"
    );
}

#[test]
fn a_subresource_has_managers_of_its_own() {
    let mut world = World::new(POD);
    world.apply(
        "a",
        json!({"spec": {"hostname": "h"}, "status": {"phase": "Failed"}}),
    );
    let old = world.object.clone().unwrap();
    let mut new = old.clone();
    new["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let options = ApplyOptions {
        subresource: "status",
        ignored: &["spec"],
        ..World::options("a", "2026-01-01T09:00:00Z")
    };
    track_update(&POD, Some(&old), &mut new, &options).unwrap();
    let entry = json!({
        "manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T09:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:conditions": {".": {}, r#"k:{"type":"Ready"}"#: {".": {}, "f:status": {}, "f:type": {}}}}},
        "subresource": "status",
    });
    assert_eq!(new["metadata"]["managedFields"][1], entry);
    world.object = Some(new);
    assert_eq!(
        world.at("/status/phase"),
        &Value::Null,
        "an apply to the object writes no status"
    );
    world.apply("a", json!({}));
    assert_eq!(world.at("/status/conditions/0/status"), "True");
    let missing = patch(PatchKind::Apply, &POD, None, &json!({}), &options);
    assert_eq!(missing, Err(PatchError::Missing));
}

#[test]
fn many_updaters_are_put_together() {
    let mut world = World::new(CONFIG_MAP);
    world.apply("applier", json!({"data": {"z": "1"}}));
    for number in 0..15 {
        world.update(
            &format!("m{number:02}"),
            json!({"data": {format!("k{number:02}"): "1"}}),
        );
    }
    let owners = world.owners();
    let names: Vec<_> = owners
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| owner[0].as_str().unwrap())
        .collect();
    let recent: Vec<_> = (6..15).map(|number| format!("m{number:02}")).collect();
    assert_eq!(names[..2], ["applier", "ancient-changes"]);
    assert_eq!(names[2..], recent);
    let ancient: Map<_, _> = (0..6)
        .map(|number| (format!("f:k{number:02}"), json!({})))
        .collect();
    assert_eq!(owners[1][2], json!({ "f:data": ancient }));
}

#[test]
fn what_is_no_configuration_is_refused() {
    let pod = |extra: Value| {
        let mut body =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "n"}});
        crate::object::as_map(&mut body).extend(crate::object::as_map(&mut extra.clone()).clone());
        body
    };
    let bodies = [
        json!([]),
        json!({"kind": "Pod"}),
        json!({"apiVersion": "v1"}),
        pod(json!({"apiVersion": "v2"})),
        pod(json!({"kind": "Node"})),
        pod(json!({"metadata": {"managedFields": [{"manager": "x"}]}})),
        pod(json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}})),
        pod(json!({"metadata": {"finalizers": ["a", "a"]}})),
    ];
    let refusals = bodies.map(|body| {
        match patch(
            PatchKind::Apply,
            &POD,
            None,
            &body,
            &World::options("a", "2026-01-01T00:00:00Z"),
        ) {
            Err(PatchError::BadRequest(why)) => why,
            other => panic!("{body}: {other:?}"),
        }
    });
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    error decoding YAML: the configuration is no object
    invalid object type: /, Kind=Pod
    invalid object type: /v1, Kind=
    invalid object type: /v2, Kind=Pod
    invalid object type: /v1, Kind=Node
    metadata.managedFields must be nil
    failed to create typed patch object (n/x; /v1, Kind=Pod): .spec.containers: duplicate entries for key [name="a"]
    failed to create typed patch object (/; /v1, Kind=Pod): .metadata.finalizers: duplicate entries for key [="a"]
    "#);
}

#[test]
fn damaged_entries_hurt_nobody() {
    let mut world = World::new(CONFIG_MAP);
    world.apply("a", json!({"data": {"k": "1"}}));
    let entries = &mut world.object.as_mut().unwrap()["metadata"]["managedFields"];
    let fields = json!({"f:data": {"f:k": {}, "nonsense": {}, "k:nonsense": {}, "f:x": 1}});
    entries.as_array_mut().unwrap().extend([
        json!(1),
        json!({"manager": "b", "operation": "Jump", "fieldsV1": {}}),
        json!({"manager": "c", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}),
    ]);
    world.force("a", json!({"data": {"k": "2"}}));
    assert_eq!(
        world.owners(),
        json!([["a", "Apply", {"f:data": {"f:k": {}}}]])
    );
}

mod client_side;
mod properties;
