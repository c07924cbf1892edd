//! Tests of [`super`].

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::{Down, Message, Up};

/// Returns a path that the resource's pattern describes.
fn sample(resource: &Resource) -> ResourcePath {
    match resource {
        Resource::Device(_) => resource.device_path("ns/d"),
        other => other
            .pattern()
            .replace(['{', '}'], "")
            .replace("type", "thing")
            .into(),
    }
}

/// Returns a message of each operation of a kind.
fn samples<F>(kind: &MessageKind<F>) -> Vec<Message> {
    let content = match kind.content {
        [Content::Only(text) | Content::Text(text)] => json!(text),
        [Content::OnlyNull] => Value::Null,
        _ => json!({"a": 1}),
    };
    let mut route = kind.route();
    route.resource = sample(&kind.resource);
    let operations = if kind.operations.is_empty() {
        vec![Operation::Other("Any".into())]
    } else {
        kind.operations.to_vec()
    };
    let message = |operation| {
        let route = Route {
            operation,
            ..route.clone()
        };
        Message::new(route, content.clone(), 1)
    };
    operations.into_iter().map(message).collect()
}

/// Checks that a message of each kind is found as that kind, decodes to its form and encodes to itself.
fn check<F: Copy + PartialEq + std::fmt::Debug>(
    table: &[MessageKind<F>],
    decode: impl Fn(Message) -> (F, Message),
) {
    for kind in table {
        for message in samples(kind) {
            let first = find(table, &message.route, &message.content).map(|kind| kind.name);
            assert_eq!(first, Some(kind.name), "{:?}", message.route);
            assert_eq!(decode(message.clone()), (kind.form, message));
        }
    }
}

#[test]
fn each_kind_decodes_to_its_form_and_encodes_to_itself() {
    check(DOWN, |message| {
        let down = Down::from(message);
        (down.body.form(), down.into())
    });
    check(UP, |message| {
        let up = Up::from(message);
        (up.body.form(), up.into())
    });
}

#[test]
fn names_are_unique_and_replies_are_kinds_of_the_other_direction() {
    let (down, up) = (
        DOWN.iter().map(|kind| kind.name),
        UP.iter().map(|kind| kind.name),
    );
    let names: BTreeSet<&str> = down.clone().chain(up.clone()).collect();
    assert_eq!(names.len(), DOWN.len() + UP.len());
    let (down, up): (BTreeSet<&str>, BTreeSet<&str>) = (down.collect(), up.collect());
    for (replies, others) in UP
        .iter()
        .map(|kind| (kind.replies, &down))
        .chain(DOWN.iter().map(|kind| (kind.replies, &up)))
    {
        assert!(
            replies.iter().all(|reply| others.contains(reply)),
            "{replies:?}"
        );
    }
}

#[test]
fn all_operations_of_a_kind_are_acknowledged_or_none() {
    for kind in DOWN {
        let acknowledged: BTreeSet<bool> =
            samples(kind).iter().map(crate::lane::needs_ack).collect();
        assert_eq!(acknowledged.len(), 1, "{}", kind.name);
    }
}
