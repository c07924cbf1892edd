//! Messages of nodes: from MQTT or a local application through a rule to a server that the cloud calls, and back.
//!
//! Only rules with this node match a message. Each message is delivered once, even if it is sent repeatedly, and those of one topic in
//! order ([`upload_queue`](super::upload_queue)). If too many messages of a node wait, a further one is not answered, and `edge-agent`
//! sends it again.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use clock::Instant;
use futures::future::join_all;
use http::{Method, StatusCode};
use serde_json::Value;
use tracing::warn;
use wire::{
    Downstream, Header, ResourcePath, Source, Up,
    bus::{LocalCall, Payload, ServiceResponse},
    topic::Topic,
};

use super::{
    CallAnswer, CallError, Rules,
    calls::headers_for,
    check::{self as rule, Target},
    nodes::announcement,
    table::{ActiveRule, Subscription},
    targets::{TargetAnswer, TargetCall},
    upload_queue::{Admitted, Outcome, QueuedUpload, UploadInfo},
};

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A message of a node for rules.
#[derive(Clone, Debug)]
struct Upload {
    node: String,
    id: String,
    /// `bus` or `servicebus`.
    origin: Source,
    /// The topic or URL.
    resource: String,
    method: Method,
    content_type: &'static str,
    body: Bytes,
}

impl Upload {
    fn info(&self, is_answered: bool) -> UploadInfo<'_> {
        // calls of programs are independent
        let topic = (self.origin == Source::Bus).then_some(self.resource.as_str());
        UploadInfo {
            node: &self.node,
            id: &self.id,
            size: self.body.len() + self.id.len(),
            topic,
            is_answered,
        }
    }
}

impl Rules {
    /// Handles an answer of `node` for which a call waits; returns other messages.
    pub(crate) fn take_answer(&self, node: &str, up: Up) -> Option<Up> {
        self.pending().answer(node, up)
    }

    /// Handles a message that `node`'s broker has received on `topic`.
    pub(crate) fn bus_upload(
        &self,
        node: &str,
        header: Header,
        topic: &ResourcePath,
        payload: &Value,
    ) {
        let resource = topic.as_str().to_owned();
        match message(payload) {
            Ok((content_type, body)) => self.upload(Upload {
                node: node.to_owned(),
                id: header.msg_id,
                origin: Source::Bus,
                resource,
                method: Method::POST,
                content_type,
                body,
            }),
            Err(why) => self.refuse(node, &header.msg_id, Source::Bus, &resource, why),
        }
    }

    /// Handles a call of the URL `target` by a program on `node`. An answer for which no call waits is ignored.
    pub(crate) fn service_upload(
        &self,
        node: &str,
        header: Header,
        target: &ResourcePath,
        content: &Value,
    ) {
        if target.is_empty() || !header.parent_msg_id.is_empty() {
            return;
        }
        let resource = target.as_str().to_owned();
        match local_call(content) {
            Ok((method, content_type, body)) => self.upload(Upload {
                node: node.to_owned(),
                id: header.msg_id,
                origin: Source::ServiceBus,
                resource,
                method,
                content_type,
                body,
            }),
            Err(why) => self.refuse(node, &header.msg_id, Source::ServiceBus, &resource, why),
        }
    }

    fn upload(&self, upload: Upload) {
        if !self.is_complete() {
            // unanswered, it is sent again
            return;
        }
        let rules = match upload.origin {
            Source::Bus => self.table().topic(&upload.node, &upload.resource),
            _ => self
                .table()
                .url(&upload.node, &upload.resource)
                .into_iter()
                .collect(),
        };
        if rules.is_empty() {
            self.stop(&upload);
            let why = format!(
                "no rule of this cloud takes {} of node {}",
                wire::text::short(&upload.resource),
                upload.node
            );
            return self.refuse(
                &upload.node,
                &upload.id,
                upload.origin,
                &upload.resource,
                why,
            );
        }
        let uids: Vec<_> = rules.iter().map(|rule| rule.uid.as_str()).collect();
        let is_answered = self.is_answered(&upload);
        match self.upload_queue().admit(upload.info(is_answered), &uids) {
            Admitted::Known(None) => {}
            Admitted::Known(Some(outcome)) => {
                let (this, node, id) = (self.clone(), upload.node, upload.id);
                self.spawn(async move {
                    this.reply(&node, &id, upload.origin, &upload.resource, outcome)
                        .await
                });
            }
            Admitted::Full => self.full(&upload, &rules),
            Admitted::New(queued) => {
                let this = self.clone();
                self.spawn(async move {
                    let outcome = this.deliver(&upload, &rules, queued).await;
                    let uids: Vec<_> = rules.iter().map(|rule| rule.uid.as_str()).collect();
                    this.upload_queue()
                        .record_outcome(upload.info(is_answered), &uids, &outcome);
                    this.reply(
                        &upload.node,
                        &upload.id,
                        upload.origin.clone(),
                        &upload.resource,
                        outcome,
                    )
                    .await;
                });
            }
        }
    }

    /// Reports whether the message's sender waits for an answer; EdgeCore does not for MQTT messages.
    fn is_answered(&self, upload: &Upload) -> bool {
        upload.origin != Source::Bus || self.is_own_agent(&upload.node)
    }

    /// Handles a message that does not fit in the queue: `edge-agent` sends it again; EdgeCore's is lost, and counted.
    fn full(&self, upload: &Upload, rules: &[Arc<ActiveRule>]) {
        if upload.origin == Source::Bus && self.is_answered(upload) {
            return;
        }
        let why = "too many messages of this node wait for the rule's target";
        for rule in rules {
            self.counters()
                .count(&rule.uid, Err(&format!("{}: {why}", upload.node)));
        }
        self.refuse(
            &upload.node,
            &upload.id,
            upload.origin.clone(),
            &upload.resource,
            why.to_owned(),
        );
    }

    /// Delivers a message to the targets of its rules, each in its turn.
    async fn deliver(
        &self,
        upload: &Upload,
        rules: &[Arc<ActiveRule>],
        queued: Vec<QueuedUpload>,
    ) -> Outcome {
        let delivering = rules
            .iter()
            .zip(queued)
            .map(|(rule, mut queued)| async move {
                match queued.ready().await {
                    Ok(()) => self.deliver_one(upload, rule).await,
                    Err(why) => {
                        self.counters()
                            .count(&rule.uid, Err(&format!("{}: {why}", upload.node)));
                        Err(why)
                    }
                }
            });
        let mut outcome = Ok(Value::from("OK"));
        for delivered in join_all(delivering).await {
            match delivered {
                Ok(answer) if upload.origin == Source::ServiceBus => {
                    outcome = outcome.map(|_| self.answer_for(&upload.node, &answer));
                }
                Ok(_) => {}
                Err(why) => outcome = Err(why),
            }
        }
        outcome
    }

    /// Delivers a message to the rule's target and counts it.
    async fn deliver_one(
        &self,
        upload: &Upload,
        rule: &ActiveRule,
    ) -> Result<TargetAnswer, String> {
        let delivered = self.call_target(upload, rule).await;
        let counted = delivered
            .as_ref()
            .map(drop)
            .map_err(|why| format!("{}: {why}", upload.node));
        self.counters()
            .count(&rule.uid, counted.as_ref().copied().map_err(String::as_str));
        delivered
    }

    async fn call_target(
        &self,
        upload: &Upload,
        rule: &ActiveRule,
    ) -> Result<TargetAnswer, String> {
        let Target::Rest { url } = &rule.target else {
            return Err("the rule has no end in the cloud".to_owned());
        };
        let answer = self
            .targets()
            .call(TargetCall {
                url: url.clone(),
                method: upload.method.clone(),
                content_type: upload.content_type,
                body: upload.body.clone(),
                id: upload.id.clone(),
                node: upload.node.clone(),
            })
            .await?;
        // an application gets the target's answer; an MQTT message is only delivered, or not
        if answer.status.is_redirection() {
            return Err(format!(
                "{url} answered {}, and redirects are not followed",
                answer.status
            ));
        }
        if upload.origin == Source::Bus && !answer.status.is_success() {
            return Err(format!("{url} answered {}", answer.status));
        }
        Ok(answer)
    }

    /// Builds the answer to an application.
    fn answer_for(&self, node: &str, answer: &TargetAnswer) -> Value {
        if !self.is_own_agent(node) {
            return String::from_utf8_lossy(&answer.body).into_owned().into();
        }
        let response = ServiceResponse {
            status_code: answer.status.as_u16(),
            body: answer.body.to_vec(),
            // the program has a connection of its own
            header: headers_for(&answer.headers),
        };
        serde_json::to_value(response).unwrap_or_default()
    }

    /// Delivers a message of `node` by hand; `None` if no rule has the topic or URL `place` as its source.
    pub(super) async fn try_upload(
        &self,
        node: &str,
        place: &str,
        body: Bytes,
    ) -> Option<Result<CallAnswer, CallError>> {
        let by_topic = self.table().topic(node, place);
        let rule = by_topic
            .into_iter()
            .next()
            .or_else(|| self.table().url(node, place))?;
        let origin = match rule.source {
            rule::Source::ServiceBus { .. } => Source::ServiceBus,
            rule::Source::Rest { .. } | rule::Source::EventBus { .. } => Source::Bus,
        };
        let content_type = if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok() {
            JSON
        } else {
            BYTES
        };
        let upload = Upload {
            node: node.to_owned(),
            id: wire::Message::new_id(),
            origin,
            resource: place.to_owned(),
            method: Method::POST,
            content_type,
            body,
        };
        Some(match self.deliver_one(&upload, &rule).await {
            Ok(TargetAnswer {
                status,
                headers,
                body,
            }) => Ok(CallAnswer {
                status,
                headers,
                body,
                failed: None,
            }),
            Err(why) => Err(CallError::new(StatusCode::BAD_GATEWAY, "TargetFailed", why)),
        })
    }

    fn refuse(&self, node: &str, id: &str, origin: Source, resource: &str, why: String) {
        if let Some(times) = self
            .refusals()
            .count(&format!("{node}: {why}"), Instant::now())
        {
            warn!(node, reason = why, times, "message for a rule rejected");
        }
        let (this, node, id, resource) = (
            self.clone(),
            node.to_owned(),
            id.to_owned(),
            resource.to_owned(),
        );
        self.spawn(async move { this.reply(&node, &id, origin, &resource, Err(why)).await });
    }

    /// Answers a message; EdgeCore expects no answer to MQTT messages.
    async fn reply(&self, node: &str, id: &str, origin: Source, resource: &str, outcome: Outcome) {
        if origin == Source::Bus && !self.is_own_agent(node) {
            return;
        }
        let (failed, content) = match outcome {
            Ok(content) => (false, content),
            Err(why) => (true, why.into()),
        };
        let body = Downstream::UploadAnswer {
            origin,
            failed,
            path: resource.into(),
            content,
        };
        // a disconnected node asks again
        let _ = self
            .nodes()
            .send(node, body.into_message(clock::unix_millis()).answering(id))
            .await;
    }

    /// Unsubscribes the node from what no rule wants: rules were deleted while it, or this cloud, was away.
    fn stop(&self, upload: &Upload) {
        let resource = upload.resource.clone();
        let one = match upload.origin {
            // every agent subscribes to these by itself
            Source::Bus if matches!(Topic::parse(&resource), Topic::Upload(_)) => return,
            Source::Bus => Subscription::Topic(resource),
            _ => Subscription::Url(resource),
        };
        let (nodes, node) = (self.nodes().clone(), upload.node.clone());
        self.spawn(async move {
            let _ = nodes.send(&node, announcement(false, &one)).await;
        });
    }
}

/// Returns a message's media type and bytes.
fn message(payload: &Value) -> Result<(&'static str, Bytes), String> {
    match Payload::read(payload) {
        Some(Payload::Text(text))
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() =>
        {
            Ok((JSON, text.into()))
        }
        Some(Payload::Text(text)) => Ok(("text/plain; charset=utf-8", text.into())),
        Some(Payload::Bytes(bytes)) => Ok((BYTES, bytes.into())),
        None => Err("its content is no payload".to_owned()),
    }
}

/// Returns the method, media type and bytes of an application's call.
fn local_call(content: &Value) -> Result<(Method, &'static str, Bytes), String> {
    let text = content.as_str().unwrap_or_default();
    let decoded = STANDARD
        .decode(text)
        .map_err(|error| format!("its content is not base64: {error}"))?;
    let call: LocalCall =
        serde_json::from_slice(&decoded).map_err(|error| format!("it is no call: {error}"))?;
    let method = match call.method.as_str() {
        "" => Method::POST,
        text => Method::from_bytes(text.as_bytes()).map_err(|_| "its method is none".to_owned())?,
    };
    if !matches!(
        method,
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    ) {
        return Err(format!("{method} is no method for a target"));
    }
    match call.payload {
        Value::Null => Ok((method, JSON, Bytes::new())),
        payload => Ok((method, JSON, payload.to_string().into())),
    }
}
