//! Builds the node's events as the API has them: those of the kubelet. Pure.

use clock::Instant;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use limits::{CorrelatedEvent, EventCorrelator, EventIdentity};

use super::PendingEvent;
use crate::timestamps;

/// The component that reports the events. Programs look for the kubelet's.
const COMPONENT: &str = "kubelet";

/// A write of an event to the API.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EventWrite {
    /// A new event.
    Create(Event),
    /// An event that was recorded before and has occurred again.
    Patch(Event),
}

/// Builds the events of a node.
pub(super) struct EventBuilder {
    node_name: String,
    correlator: EventCorrelator,
}

impl EventBuilder {
    /// Returns a builder that remembers no events.
    pub(super) fn new(node_name: String) -> Self {
        Self {
            node_name,
            correlator: EventCorrelator::default(),
        }
    }

    /// Returns the write for an event, or `None` if the event is dropped.
    pub(super) fn build(&mut self, mut event: PendingEvent, now: Instant) -> Option<EventWrite> {
        let message = std::mem::take(&mut event.message);
        let object = &event.object;
        let identity = EventIdentity {
            object: (&object.uid, &object.name),
            kind: (&object.field_path, &event.reason, event.event_type),
        };
        let correlated = self
            .correlator
            .correlate(&identity, message, event.at, now)?;
        let is_new = correlated.count == 1;
        let event = self.event(event, correlated);
        Some(if is_new {
            EventWrite::Create(event)
        } else {
            EventWrite::Patch(event)
        })
    }

    fn event(&self, event: PendingEvent, correlated: CorrelatedEvent) -> Event {
        let PendingEvent {
            object,
            event_type,
            reason,
            at: last,
            ..
        } = event;
        let first: Timestamp = correlated.first;
        let name = object.name.clone().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                // As in client-go: the object's name and the time in nanoseconds.
                name: Some(format!("{name}.{:x}", first.as_nanosecond())),
                // Events of objects without a namespace, such as a node, are in `default`.
                namespace: object.namespace.clone().or_else(|| Some("default".into())),
                ..Default::default()
            },
            involved_object: object,
            reason: Some(reason.into_owned()),
            message: Some(correlated.message),
            type_: Some(event_type.to_string()),
            source: Some(EventSource {
                component: Some(COMPONENT.into()),
                host: Some(self.node_name.clone()),
            }),
            reporting_component: Some(COMPONENT.into()),
            reporting_instance: Some(self.node_name.clone()),
            count: Some(correlated.count),
            first_timestamp: Some(timestamps::to_api(first)),
            last_timestamp: Some(timestamps::to_api(last)),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;
    use crate::events::EventType;

    fn event(uid: &str, message: &str, second: i64) -> PendingEvent {
        let object = ObjectReference {
            name: Some("web".into()),
            namespace: Some("shop".into()),
            uid: Some(uid.into()),
            ..Default::default()
        };
        PendingEvent {
            object,
            event_type: EventType::Warning,
            reason: "Unhealthy".into(),
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn an_event_that_occurs_again_is_patched_under_its_first_name() {
        let (mut builder, now) = (EventBuilder::new("edge-1".into()), Instant::now());
        let mut write = |uid: &str, second| builder.build(event(uid, "no", second), now);
        let Some(EventWrite::Create(first)) = write("a", 1) else {
            panic!("not created")
        };
        let Some(EventWrite::Patch(again)) = write("a", 2) else {
            panic!("not patched")
        };
        assert_eq!(
            (&again.metadata.name, again.count),
            (&first.metadata.name, Some(2))
        );
        assert_eq!(again.first_timestamp, first.first_timestamp);
        assert_ne!(again.last_timestamp, first.last_timestamp);
        assert!(
            matches!(write("b", 2), Some(EventWrite::Create(_))),
            "another pod"
        );
        let written = (0..100).filter(|_| write("a", 3).is_some()).count();
        assert_eq!(written, 23, "a flood is dropped");
    }

    #[test]
    fn an_event_is_as_the_kubelets() {
        let mut builder = EventBuilder::new("edge-1".into());
        let long = "é".repeat(1000);
        let write = builder.build(event("a", &long, 0), Instant::now());
        let Some(EventWrite::Create(event)) = write else {
            panic!("{write:?}")
        };
        assert!(
            event
                .message
                .as_ref()
                .is_some_and(|message| message.len() <= 1024 && message.ends_with("é..."))
        );
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        assert_eq!(
            (text(&event.metadata.name), text(&event.type_)),
            ("web.0".into(), "Warning".into())
        );
        assert_eq!(event.source.unwrap().host.as_deref(), Some("edge-1"));
    }
}
