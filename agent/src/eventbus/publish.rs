//! Publishes messages of the cloud's rules, and answers once the brokers have taken or refused them.

use std::time::Duration;

use serde_json::Value;
use tokio::{task::JoinSet, time::timeout};
use tracing::warn;
use wire::{Header, Upstream, bus::Payload, text::short, topic::check_publication};

use super::{Bus, handle::Published};
use crate::edgehub::EdgeHub;

/// How long a broker may take for a message before the message is reported to the cloud as not accepted.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(8);
/// The most messages that brokers have not confirmed; beyond them the cloud's messages are not read.
const MAX_PENDING_ANSWERS: usize = 256;

/// Publishes for the cloud.
pub(super) struct Publisher<'a> {
    bus: &'a Bus,
    hub: &'a EdgeHub,
    answers: JoinSet<()>,
}

impl<'a> Publisher<'a> {
    pub(super) fn new(bus: &'a Bus, hub: &'a EdgeHub) -> Self {
        Self {
            bus,
            hub,
            answers: JoinSet::new(),
        }
    }

    /// Publishes in the order of the calls, and answers when the brokers have the message.
    pub(super) async fn publish(&mut self, header: &Header, topic: String, content: &Value) {
        while self.answers.try_join_next().is_some() {}
        if self.answers.len() >= MAX_PENDING_ANSWERS {
            let _ = self.answers.join_next().await;
        }
        let (hub, id) = (self.hub.clone(), header.msg_id.clone());
        let published = match payload(&topic, content) {
            Ok(payload) => Ok(self.bus.begin_publish(topic.clone(), payload).await),
            Err(why) => {
                warn!(
                    topic = short(&topic),
                    error = why,
                    "cannot publish a message of a cloud rule"
                );
                Err(why)
            }
        };
        self.answers.spawn(componentbase::in_span(async move {
            let outcome = match published {
                Ok(published) => outcome(published).await,
                Err(why) => Err(why),
            };
            let failed = outcome.is_err();
            let content = outcome.err().unwrap_or_else(|| "OK".to_owned()).into();
            let answer = Upstream::BusAnswer {
                topic: topic.into(),
                failed,
                content,
            };
            // a disconnected cloud has told its caller itself
            let _ = timeout(
                PUBLISH_TIMEOUT,
                hub.send(answer.into_message(clock::unix_millis()).answering(&id)),
            )
            .await;
        }));
    }
}

async fn outcome(published: Published) -> Result<(), String> {
    timeout(PUBLISH_TIMEOUT, published.outcome()).await.unwrap_or_else(|_| {
        Err(format!("the MQTT broker of this node did not accept the message within {PUBLISH_TIMEOUT:?}; it receives the message when it is back"))
    })
}

/// Returns the bytes to publish.
///
/// # Errors
/// The message may not be published; the text says why.
fn payload(topic: &str, content: &Value) -> Result<Vec<u8>, String> {
    // a leading `$` would make it a message of a device, or of the broker
    check_publication(topic).map_err(|fault| fault.to_string())?;
    match content {
        // as with EdgeCore's own rules, an object is published as its JSON
        other if Payload::read(other).is_none() && !other.is_null() => {
            Ok(other.to_string().into_bytes())
        }
        Value::Null => Err("no payload".to_owned()),
        content => Ok(Payload::read(content)
            .map(Payload::into_bytes)
            .unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn payloads_are_published_unharmed_and_never_as_a_device() {
        for (content, bytes) in [
            (json!("{\"a\":1}"), &b"{\"a\":1}"[..]),
            (json!(""), b""),
            (json!({"base64": "/wD+"}), b"\xff\0\xfe"),
            (json!({"a": 1}), b"{\"a\":1}"),
        ] {
            assert_eq!(payload("a/b", &content).unwrap(), bytes, "{content}");
        }
        assert!(payload("a/b", &Value::Null).is_err());
        for topic in [
            "",
            "$hw/events/device/default/d/twin/update",
            "$SYS/x",
            "a/+",
            "#",
            "a\0",
            "SYS/dis/upload_records",
        ] {
            assert!(payload(topic, &json!("x")).is_err(), "{topic}");
        }
    }
}
