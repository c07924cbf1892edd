//! Tests of [`super`].

use super::*;
use crate::Group;

/// Returns an example of the kind of message after that of `last`. The compiler points to this `match` when a kind is added; put its
/// example into the arm before.
fn next(last: &Upstream) -> Option<Upstream> {
    use Upstream as U;
    let path = |text: &str| ResourcePath::from(text);
    let content = || json!({"a": "b"});
    Some(match last {
        U::Keepalive(_) => U::Shutdown,
        U::Shutdown => U::Ack {
            source: Source::EdgeController,
            group: Group::Resource,
            path: path("ns/pod/p"),
        },
        U::Ack { .. } => U::Object {
            change: Change::Update,
            path: path("ns/event/e"),
            object: content(),
        },
        U::Object { .. } => U::node_patch("n", "{}".into()),
        U::Patch { .. } => U::query("ns", &ResourceType::Secret, "s"),
        U::Query { .. } => U::RootCa(Value::Null),
        U::RootCa(_) => U::MembershipDetail(content()),
        U::MembershipDetail(_) => U::Device {
            path: path("device/d/state/update"),
            update: content(),
        },
        U::Device { .. } => U::BusUpload {
            topic: path("ns/topic"),
            payload: content(),
        },
        U::BusUpload { .. } => U::BusAnswer {
            topic: path("ns/topic"),
            failed: true,
            content: content(),
        },
        U::BusAnswer { .. } => U::ServiceUpload {
            target: path("http://127.0.0.1/x"),
            content: content(),
        },
        U::ServiceUpload { .. } => U::Application(content()),
        U::Application(_) => U::WatchSync(content()),
        U::WatchSync(_) => U::ActionStatus {
            path: path("jobs/j/node/n"),
            status: content(),
        },
        U::ActionStatus { .. } => U::TaskStatus {
            operation: Operation::Upgrade,
            path: path("task/t/node/n"),
            status: content(),
        },
        U::TaskStatus { .. } => U::Unknown {
            route: Route {
                source: Source::Edged,
                group: Group::Hub,
                operation: Operation::Upload,
                resource: path("x"),
                destination: String::new(),
            },
            content: content(),
        },
        U::Unknown { .. } => return None,
    })
}

#[test]
fn every_kind_of_message_is_read_as_what_was_written() {
    for told in std::iter::successors(Some(Upstream::keepalive()), next) {
        let read = Up::from(told.clone().into_message(1)).body;
        assert_eq!(read, told);
    }
}
