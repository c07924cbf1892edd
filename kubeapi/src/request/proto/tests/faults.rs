//! What is refused, and that nothing panics.

use proptest::prelude::*;

use super::{
    super::{decode, limits::VALUES, schema::Schema},
    RECORDED,
    bodies::{body, bytes, join, number, text},
};

fn fault(body: &[u8]) -> String {
    decode(body).unwrap_err().to_string()
}

fn fault_of(raw: &[u8]) -> String {
    let message = fault(&body("v1", "ConfigMap", raw));
    message
        .strip_prefix("the body is not a valid protobuf of its kind, at ")
        .unwrap_or(&message)
        .to_owned()
}

#[test]
fn an_envelope_is_needed() {
    assert!(fault(b"{}").starts_with("the body does not begin with \"k8s\" and a zero byte"));
    assert!(fault(b"").starts_with("the body does not begin"));
    assert_eq!(
        fault(b"k8s\0"),
        "kind \"\" of \"\" is not known in protobuf: send it as application/json"
    );
    let message = "kind \"Device\" of \"devices.kubeedge.io/v1beta1\" is not known in protobuf: send it as application/json";
    assert_eq!(
        fault(&body("devices.kubeedge.io/v1beta1", "Device", &[])),
        message
    );
    // a message that is no kind
    assert!(fault(&body("v1", "PodSpec", &[])).starts_with("kind \"PodSpec\""));
    let gzip = join(&[b"k8s\0".to_vec(), text(3, "gzip")]);
    assert_eq!(
        fault(&gzip),
        "the envelope contains \"gzip\"; it must contain plain protobuf"
    );
    let truncated =
        "the body is not a valid protobuf of its kind, at the envelope: it ends within a value";
    assert_eq!(fault(b"k8s\0\x12\xff\xff\xff\xff\x0f"), truncated);
}

#[test]
fn faults_say_where_they_are() {
    assert_eq!(
        fault_of(&number(1, 1)),
        "ConfigMap.metadata: a value is of wire type varint instead of length-delimited"
    );
    assert_eq!(
        fault_of(&bytes(1, &[0x0a, 0x05, b'x'])),
        "ObjectMeta: it ends within a value"
    );
    assert_eq!(
        fault_of(&bytes(1, &bytes(1, &[0xff]))),
        "ObjectMeta.name: a string is not UTF-8"
    );
    assert_eq!(
        fault_of(&bytes(1, &text(7, "x"))),
        "ObjectMeta.generation: a value is of wire type length-delimited instead of varint"
    );
    assert_eq!(
        fault_of(&bytes(1, &bytes(17, &bytes(7, &text(1, "{")))))
            .split(": ")
            .next(),
        Some("ManagedFieldsEntry.fieldsV1")
    );
    assert_eq!(
        fault_of(&bytes(1, &bytes(8, &number(1, u64::MAX / 2)))),
        "ObjectMeta.creationTimestamp: a time is out of range"
    );
    assert_eq!(
        fault_of(&bytes(2, &number(1, 1))),
        "ConfigMap.data: a value is of wire type varint instead of length-delimited"
    );
    assert_eq!(fault_of(&[0]), "ConfigMap: 0x0 is not the tag of a field");
    assert_eq!(
        fault_of(&[0x0b]),
        "ConfigMap: 0xb is not the tag of a field"
    );
    assert_eq!(fault_of(&[0xff; 12]), "ConfigMap: an integer does not end");
}

#[test]
fn numbers_that_json_has_not_are_refused() {
    let maximum = join(&[vec![0x49], f64::NAN.to_le_bytes().to_vec()]);
    let raw = bytes(2, &bytes(7, &bytes(4, &bytes(1, &maximum))));
    let message = fault(&body(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &raw,
    ));
    assert!(
        message.ends_with("JSONSchemaProps.maximum: a number is not finite"),
        "{message}"
    );
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth| {
        let schema = (0..depth).fold(Vec::new(), |inner, _| bytes(28, &inner));
        body(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &bytes(2, &bytes(7, &bytes(4, &bytes(1, &schema)))),
        )
    };
    assert!(decode(&nested(90)).is_ok());
    assert!(fault(&nested(200)).ends_with("JSONSchemaProps: it is nested more than 100 deep"));
    assert!(decode(&nested(20_000)).is_err());
}

#[test]
fn small_bodies_do_not_become_large_objects() {
    let empty = bytes(2, &[]);
    let spec = empty.repeat(VALUES);
    let message = fault(&body("v1", "Pod", &bytes(2, &spec)));
    assert!(
        message.ends_with("it has more than 200000 values"),
        "{message}"
    );
}

#[test]
fn a_table_that_is_wrong_is_told() {
    let parse = |text| Schema::parse(&[("t", "t/v1", text)]).map(|_| ());
    assert_eq!(
        parse("kind A\n1 a B\npart B\n1 b string!\n2 c [int32]\n3 .. A"),
        Ok(())
    );
    for line in [
        "1 a Nothing",
        "x a string",
        "1 a",
        "1 a string more",
        "1 a u.B",
        "",
    ] {
        let text: &'static str = format!("kind A\n{line}\npart B").leak();
        assert_eq!(parse(text), Err(line));
    }
    assert_eq!(parse("1 a string"), Err("1 a string"));
}

fn kinds() -> impl Strategy<Value = (&'static str, &'static str)> {
    let mut kinds: Vec<_> = Schema::published_schema()
        .unwrap()
        .kinds
        .keys()
        .copied()
        .collect();
    kinds.sort_unstable();
    proptest::sample::select(kinds)
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(kind in kinds(), raw in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&raw);
        let _ = decode(&join(&[b"k8s\0".to_vec(), raw.clone()]));
        let _ = decode(&body(kind.0, kind.1, &raw));
    }

    #[test]
    fn mutated_bodies_do_not_panic(
        at in 0..RECORDED.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut body = RECORDED[at].1.to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if cut {
            body.truncate(end.index(body.len()));
        }
        let _ = decode(&body);
    }
}
