//! Tests of [`super`].

use serde_json::json;

use super::*;
use crate::Group;

/// An example of the kind of message after that of `last`. The compiler names this `match` to whoever adds a kind: its example is to be
/// that of the arm before.
fn next(last: &Downstream) -> Option<Downstream> {
    use Downstream as D;
    let path = |text: &str| ResourcePath::from(text);
    let content = || json!({"a": "b"});
    Some(match last {
        D::Object { .. } => D::Answer {
            path: path("ns/secret/s"),
            answer: Answer::Failed(content()),
        },
        D::Answer { .. } => D::RootCa(json!("PEM")),
        D::RootCa(_) => D::TwinConfirmed(content()),
        D::TwinConfirmed(_) => D::Membership(content()),
        D::Membership(_) => D::MembershipDetail(content()),
        D::MembershipDetail(_) => D::TwinDesired {
            device: "d".into(),
            update: content(),
        },
        D::TwinDesired { .. } => D::Subscription {
            on: true,
            topic: "ns/topic".into(),
            content: Value::Null,
        },
        D::Subscription { .. } => D::Publish {
            topic: "ns/topic".into(),
            payload: content(),
        },
        D::Publish { .. } => D::ServiceTarget {
            on: false,
            url: "http://x".into(),
            content: Value::Null,
        },
        D::ServiceTarget { .. } => D::ServiceCall {
            method: "GET".into(),
            target: "80:x".into(),
            request: content(),
        },
        D::ServiceCall { .. } => D::UploadAnswer {
            origin: Source::Bus,
            failed: true,
            path: path("ns/topic"),
            content: content(),
        },
        D::UploadAnswer { .. } => D::Application(content()),
        D::Application(_) => D::WatchSync(content()),
        D::WatchSync(_) => D::Job {
            origin: Source::CloudHub,
            action: "Pull".into(),
            path: path("jobs/j/node/n"),
            spec: content(),
        },
        D::Job { .. } => D::Volume {
            operation: Operation::CreateVolume,
            path: path("ns/volume/v"),
            request: content(),
        },
        D::Volume { .. } => D::Unknown {
            route: Route {
                source: Source::Edged,
                group: Group::Hub,
                operation: Operation::Upload,
                resource: path("x"),
                destination: String::new(),
            },
            content: content(),
        },
        D::Unknown { .. } => return None,
    })
}

#[test]
fn every_kind_of_message_is_read_as_what_was_written() {
    let first = Downstream::put(
        Change::Insert,
        "ns",
        &ResourceType::Pod,
        "p",
        json!({"a": "b"}),
    );
    for told in std::iter::successors(Some(first), next) {
        let read = Down::from(told.clone().into_message(1)).body;
        assert_eq!(read, told);
    }
}
