//! Bodies recorded from kubectl against the JSON that it prints of the same objects, bodies made by hand for what kubectl
//! does not send, faults and limits.

mod bodies;
mod faults;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use serde_json::{Value, json};

use self::bodies::{body, bytes, join, number, text};
use super::{MEDIA_TYPE, decode, schema::Schema};
use crate::{registry::Registry, request::body};

/// `name.bin` is what kubectl 1.33 sends, `name.json` what it prints with `--dry-run=client -o json`.
macro_rules! recorded {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_bytes!(concat!("../fixtures/", $name, ".bin")),
            include_str!(concat!("../fixtures/", $name, ".json")),
        )),*]
    };
}

pub(super) const RECORDED: &[(&str, &[u8], &str)] = recorded![
    "autoscaler",
    "binaryconfigmap",
    "clusterrole",
    "clusterroleagg",
    "clusterrolebinding",
    "configmap",
    "cronjob",
    "deployment",
    "externalname",
    "ingress",
    "job",
    "namespace",
    "nodeport",
    "pdb",
    "priorityclass",
    "quota",
    "role",
    "rolebinding",
    "secret",
    "selfsubjectaccessreview",
    "selfsubjectreview",
    "service",
    "serviceaccount",
    "tokenrequest",
];

#[test]
fn what_kubectl_sends_is_what_it_prints() {
    for (name, body, printed) in RECORDED {
        let printed: Value = serde_json::from_str(printed).unwrap();
        assert_eq!(decode(body).unwrap(), printed, "{name}");
    }
}

#[test]
fn a_request_of_this_media_type_is_read() {
    let (_, body, printed) = RECORDED[0];
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))]);
    let object = body::parse(&headers, &Bytes::from_static(body), "Pod").unwrap();
    assert_eq!(object, serde_json::from_str::<Value>(printed).unwrap());
    let error = body::parse(&headers, &Bytes::from_static(b"{}"), "Pod").unwrap_err();
    assert_eq!(error.code, 400);
}

#[test]
fn fields_stand_in_the_order_of_go() {
    let (_, body, printed) = RECORDED
        .iter()
        .find(|(name, ..)| *name == "deployment")
        .unwrap();
    let printed: Value = serde_json::from_str(printed).unwrap();
    assert_eq!(decode(body).unwrap().to_string(), printed.to_string());
}

#[test]
fn every_kind_that_is_served_has_a_message() {
    let schema = Schema::published_schema().unwrap();
    for kind in Registry::builtin().kinds() {
        assert!(
            schema.kind(&kind.api_version(), &kind.kind).is_some(),
            "{} {}",
            kind.api_version(),
            kind.kind
        );
    }
}

#[test]
fn an_empty_message_of_every_kind_is_an_object() {
    for (api_version, kind) in Schema::published_schema().unwrap().kinds.keys() {
        let object = decode(&body(api_version, kind, &[])).unwrap();
        assert_eq!(object["kind"], *kind);
        assert_eq!(object["apiVersion"], *api_version);
    }
    assert_eq!(
        decode(&body("v1", "ConfigMap", &[])).unwrap(),
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"creationTimestamp": null}})
    );
}

#[test]
fn evictions_hold_delete_options() {
    let meta = join(&[text(1, "p"), text(3, "default")]);
    let options = join(&[number(1, 0), bytes(2, &text(1, "u")), text(5, "All")]);
    let raw = join(&[bytes(1, &meta), bytes(2, &options)]);
    assert_eq!(
        decode(&body("policy/v1", "Eviction", &raw)).unwrap(),
        json!({
            "kind": "Eviction",
            "apiVersion": "policy/v1",
            "metadata": {"name": "p", "namespace": "default", "creationTimestamp": null},
            "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]},
        })
    );
}

#[test]
fn delete_options_are_of_every_group() {
    for api_version in ["v1", "apps/v1", "devices.kubeedge.io/v1beta1"] {
        assert_eq!(
            decode(&body(api_version, "DeleteOptions", &text(4, "Foreground"))).unwrap(),
            json!({"kind": "DeleteOptions", "apiVersion": api_version, "propagationPolicy": "Foreground"})
        );
    }
}

#[test]
fn times_have_the_precision_of_their_type() {
    let time = join(&[number(1, 1_700_000_000), number(2, 123_456_789)]);
    let raw = join(&[bytes(1, &bytes(8, &time)), bytes(2, &bytes(3, &time))]);
    let lease = decode(&body("coordination.k8s.io/v1", "Lease", &raw)).unwrap();
    assert_eq!(
        lease["metadata"]["creationTimestamp"],
        "2023-11-14T22:13:20Z"
    );
    assert_eq!(
        lease["spec"],
        json!({"acquireTime": "2023-11-14T22:13:20.123456Z"})
    );
}

#[test]
fn zero_values_stay_where_pointers_or_required_fields_are() {
    // hostNetwork is a plain bool, shareProcessNamespace a pointer
    let spec = join(&[number(11, 0), number(27, 0), number(4, 0)]);
    let pod = decode(&body("v1", "Pod", &bytes(2, &spec))).unwrap();
    let expected = json!({"containers": null, "terminationGracePeriodSeconds": 0, "shareProcessNamespace": false});
    assert_eq!(pod["spec"], expected);
}

#[test]
fn a_message_in_parts_is_joined_and_the_last_scalar_counts() {
    let part = |field: Vec<u8>| bytes(1, &field);
    let raw = join(&[
        part(text(1, "first")),
        part(text(3, "ns")),
        part(text(1, "last")),
    ]);
    let object = decode(&body("v1", "ConfigMap", &raw)).unwrap();
    assert_eq!(
        object["metadata"],
        json!({"name": "last", "namespace": "ns", "creationTimestamp": null})
    );
}

#[test]
fn integers_come_packed_and_one_by_one() {
    // supplementalGroups of a pod's securityContext
    let context = join(&[
        number(4, 1),
        bytes(4, &[2, 0xac, 0x02]),
        number(4, u64::MAX),
    ]);
    let pod = decode(&body("v1", "Pod", &bytes(2, &bytes(14, &context)))).unwrap();
    assert_eq!(
        pod["spec"]["securityContext"],
        json!({"supplementalGroups": [1, 2, 300, -1]})
    );
}

#[test]
fn unknown_fields_are_skipped() {
    let unknown = [
        number(900, 7),
        text(901, "x"),
        join(&[vec![0xb5, 0x38], vec![0; 4]]),
    ]
    .concat();
    let raw = join(&[
        unknown.clone(),
        bytes(2, &join(&[text(1, "a"), text(2, "b"), unknown])),
    ]);
    assert_eq!(
        decode(&body("v1", "ConfigMap", &raw)).unwrap()["data"],
        json!({"a": "b"})
    );
}

#[test]
fn inline_messages_lend_their_fields_to_the_outer_object() {
    // a probe's handler, and a port that is a name
    let get = join(&[
        text(1, "/"),
        bytes(2, &join(&[number(1, 1), text(3, "http")])),
    ]);
    let probe = join(&[bytes(1, &bytes(2, &get)), number(3, 5)]);
    let container = join(&[text(1, "c"), bytes(10, &probe)]);
    let pod = decode(&body("v1", "Pod", &bytes(2, &bytes(2, &container)))).unwrap();
    assert_eq!(
        pod["spec"]["containers"][0],
        json!({"name": "c", "resources": {}, "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "timeoutSeconds": 5}})
    );
}

#[test]
fn schemas_of_definitions_keep_their_unions_and_json() {
    let double = |number: u32, value: f64| {
        join(&[vec![(number << 3) as u8 | 1], value.to_le_bytes().to_vec()])
    };
    let property = |name: &str, of: &[u8]| bytes(29, &join(&[text(1, name), bytes(2, of)]));
    let schema = join(&[
        text(5, "object"),
        property(
            "a",
            &join(&[
                bytes(8, &text(1, "{\"x\":[1]}")),
                double(9, 2.0),
                double(11, 0.5),
            ]),
        ),
        property("b", &bytes(24, &bytes(1, &text(5, "string")))),
        property("c", &bytes(30, &number(1, 1))),
        property(
            "d",
            &bytes(30, &join(&[number(1, 1), bytes(2, &text(5, "integer"))])),
        ),
        property("e", &join(&[vec![0xb0, 0x02, 1]])),
        property(
            "f",
            &bytes(32, &join(&[text(1, "k"), bytes(2, &text(2, "other"))])),
        ),
    ]);
    let version = join(&[
        text(1, "v1"),
        bytes(4, &bytes(1, &schema)),
        bytes(5, &bytes(1, &[])),
    ]);
    let raw = bytes(2, &bytes(7, &version));
    let definition = decode(&body(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &raw,
    ))
    .unwrap();
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    assert_eq!(
        version["schema"]["openAPIV3Schema"],
        json!({"type": "object", "properties": {
            "a": {"default": {"x": [1]}, "maximum": 2, "minimum": 0.5},
            "b": {"items": {"type": "string"}},
            "c": {"additionalProperties": true},
            "d": {"additionalProperties": {"type": "integer"}},
            "e": {"x-kubernetes-preserve-unknown-fields": true},
            "f": {"dependencies": {"k": ["other"]}},
        }})
    );
}
