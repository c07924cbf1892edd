//! Requests for nodes: from the router's REST listener through a rule to MQTT or a local HTTP service on a node, and back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use tokio::time::{sleep, timeout};
use wire::{
    Downstream,
    bus::{Headers, Payload, ServiceAddress, ServiceRequest, ServiceResponse},
    headers::{ConnectionHeaders, canonical_name},
    topic::check_publication,
};

use super::{Rules, check::Target, nodes::SendError, pending::NodeAnswer, table::ActiveRule};

/// How long a disconnected node may take to reconnect with an answer.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a path may be percent-encoded repeatedly.
const MAX_DECODINGS: usize = 4;

/// A request for a node.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The name of the node.
    pub(crate) node: String,
    /// The namespace of the rule.
    pub(crate) namespace: String,
    /// The rest of the path after the namespace, as it was written, without a leading slash.
    pub(crate) path: String,
    /// The query.
    pub(crate) query: Option<String>,
    /// The method.
    pub(crate) method: Method,
    /// The headers, without those for the router.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct CallAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Why the node's agent answers instead of the service; `None` for an answer of the service.
    pub(crate) failed: Option<String>,
}

/// The failure of a request: a status, a reason for programs, and a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) why: String,
}

impl CallError {
    pub(crate) fn new(status: StatusCode, reason: &'static str, why: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            why: why.into(),
        }
    }
}

impl Rules {
    /// Returns the name of the rule for a request, by which it is authorized.
    pub(crate) fn rule_for(&self, namespace: &str, path: &str) -> Option<String> {
        self.table()
            .rest(namespace, path)
            .map(|(rule, _)| rule.name.clone())
    }

    /// Makes a request and counts it.
    pub(crate) async fn call(&self, call: Call) -> Result<CallAnswer, CallError> {
        if !self.is_complete() {
            let why = "this cloud has not read its rules yet; try again";
            return Err(CallError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "RulesUnread",
                why,
            ));
        }
        let found = self
            .table()
            .rest(&call.namespace, &call.path)
            .map(|(rule, rest)| (rule, rest.to_owned()));
        let (rule, rest) = found.ok_or_else(|| {
            let why = format!(
                "no rule with a rest source takes /{}/{}; `cloudsim rules` lists all rules",
                call.namespace,
                wire::text::short(&call.path)
            );
            CallError::new(StatusCode::NOT_FOUND, "RuleNotFound", why)
        })?;
        let node = call.node.clone();
        let outcome = self.carry_out(&rule, call, &rest).await;
        let failed = match &outcome {
            Ok(answer) => answer.failed.as_ref(),
            Err(error) => Some(&error.why),
        };
        match failed {
            None => self.counters().count(&rule.uid, Ok(())),
            Some(why) => self
                .counters()
                .count(&rule.uid, Err(&format!("{node}: {why}"))),
        }
        outcome
    }

    async fn carry_out(
        &self,
        rule: &ActiveRule,
        call: Call,
        rest: &str,
    ) -> Result<CallAnswer, CallError> {
        let allowed = self.table().may_use(&call.node, &rule.namespace);
        allowed.map_err(|why| CallError::new(StatusCode::FORBIDDEN, "NamespaceRefused", why))?;
        match &rule.target {
            Target::EventBus { topic } => self.publish(call, topic, rest).await,
            Target::ServiceBus { port, path } => self.request(call, *port, path, rest).await,
            // such a rule is not in force
            Target::Rest { .. } => Err(CallError::new(
                StatusCode::NOT_FOUND,
                "RuleNotFound",
                "the rule has no end at a node",
            )),
        }
    }

    async fn publish(&self, call: Call, topic: &str, rest: &str) -> Result<CallAnswer, CallError> {
        let topic = topic_of(topic, rest)?;
        let is_ours = self.is_own_agent(&call.node);
        let payload = Payload::from(call.body.to_vec());
        if matches!(payload, Payload::Bytes(_)) && !is_ours {
            let why = format!(
                "the agent of node {} accepts only UTF-8 text, and the body is not",
                call.node
            );
            return Err(CallError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "NoText",
                why,
            ));
        }
        let body = Downstream::Publish {
            topic,
            payload: payload.content(),
        };
        // EdgeCore does not report the result
        let answered = if is_ours {
            self.ask(&call.node, body).await?
        } else {
            self.send_unanswered(&call.node, body).await?
        };
        match answered {
            NodeAnswer::Published => {}
            NodeAnswer::Service(other) | NodeAnswer::Refused(other) => {
                return Err(failed_at(&call.node, &String::from_utf8_lossy(&other.body)));
            }
            NodeAnswer::Failed(why) => return Err(failed_at(&call.node, &why)),
        }
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        Ok(CallAnswer {
            status: StatusCode::OK,
            headers,
            body: Bytes::from_static(b"message delivered"),
            failed: None,
        })
    }

    async fn send_unanswered(&self, node: &str, body: Downstream) -> Result<NodeAnswer, CallError> {
        let sent = self
            .nodes()
            .send(node, body.into_message(clock::unix_millis()))
            .await;
        sent.map_err(|error| not_sent(node, error))
            .map(|_| NodeAnswer::Published)
    }

    async fn request(
        &self,
        call: Call,
        port: u16,
        path: &str,
        rest: &str,
    ) -> Result<CallAnswer, CallError> {
        let mut path = path.to_owned();
        if escapes_prefix(rest) {
            let why = "a path may not lead out of the rule's own";
            return Err(CallError::new(StatusCode::BAD_REQUEST, "PathRefused", why));
        }
        if !rest.is_empty() {
            path = format!("{}/{rest}", path.trim_end_matches('/'));
        }
        if let Some(query) = &call.query {
            path = format!(
                "{path}{}{query}",
                if path.contains('?') { '&' } else { '?' }
            );
        }
        let request = ServiceRequest {
            header: headers_for(&call.headers),
            body: call.body.to_vec(),
            method: call.method.to_string(),
            url: String::new(),
        };
        let content = serde_json::to_value(&request).map_err(|error| {
            CallError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Unwritable",
                error.to_string(),
            )
        })?;
        let body = Downstream::ServiceCall {
            method: call.method.to_string(),
            target: ServiceAddress { port, path }.to_string(),
            request: content,
        };
        match self.ask(&call.node, body).await? {
            // EdgeCore marks its own answers in another way, and passes a service's headers on unchanged
            NodeAnswer::Service(response)
                if response.is_failure() && self.is_own_agent(&call.node) =>
            {
                read_refusal(&call.node, response)
            }
            NodeAnswer::Service(response) => read_answer(&call.node, response),
            NodeAnswer::Refused(response) => read_refusal(&call.node, response),
            NodeAnswer::Failed(why) => Err(failed_at(&call.node, &why)),
            NodeAnswer::Published => Err(failed_at(&call.node, "it answered as to a publication")),
        }
    }

    async fn ask(&self, node: &str, body: Downstream) -> Result<NodeAnswer, CallError> {
        if !self.nodes().has(node) {
            return Err(not_sent(node, SendError::NoSession));
        }
        let message = body.into_message(clock::unix_millis());
        let mut pending = self
            .pending()
            .begin(node, &message.header.msg_id)
            .ok_or_else(|| {
                let why = format!(
                    "too many calls wait for node {node}, or for all nodes; try again later"
                );
                CallError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyCalls", why)
            })?;
        let session = self
            .nodes()
            .send(node, message)
            .await
            .map_err(|error| not_sent(node, error))?;
        let patience = self.call_timeout();
        let ended = async {
            session.wait_ended().await;
            sleep(RETURN_TIMEOUT).await;
        };
        let answered = clock::select! {
            // cancel-safe: only the winning branch takes anything, and the call ends with it
            answered = timeout(patience, pending.answer()) => answered,
            () = ended => {
                let why = format!("node {node} was disconnected before it answered, and did not come back with an answer");
                return Err(CallError::new(StatusCode::BAD_GATEWAY, "NodeDisconnected", why));
            }
        };
        match answered {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(_) => {
                let why = format!(
                    "node {node} did not answer within {patience:?}; check that modules.serviceBus (or eventBus) is enabled there, and \
                     that the local service answers"
                );
                Err(CallError::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "NodeTimeout",
                    why,
                ))
            }
        }
    }
}

fn not_sent(node: &str, error: SendError) -> CallError {
    match error {
        SendError::NoSession => {
            let why =
                format!("node {node} is not connected; `cloudsim nodes` lists connected nodes");
            CallError::new(StatusCode::BAD_GATEWAY, "NodeNotConnected", why)
        }
        SendError::Stuck => CallError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "NodeStuck",
            format!("node {node} takes no messages"),
        ),
    }
}

fn failed_at(node: &str, why: &str) -> CallError {
    CallError::new(
        StatusCode::BAD_GATEWAY,
        "NodeFailed",
        format!("node {node}: {}", wire::text::printable(why)),
    )
}

/// Returns the topic to publish on: the rule's, and the part of the request's path beyond the rule's.
fn topic_of(topic: &str, rest: &str) -> Result<String, CallError> {
    let bad = |why: &str| {
        CallError::new(
            StatusCode::BAD_REQUEST,
            "TopicRefused",
            format!("the path leads to no topic that a rule may use: {why}"),
        )
    };
    if rest.is_empty() {
        return Ok(topic.to_owned());
    }
    let rest = percent_decode_str(rest)
        .decode_utf8()
        .map_err(|_| bad("it is not UTF-8"))?;
    let topic = format!("{}/{rest}", topic.trim_end_matches('/'));
    check_publication(&topic).map_err(|fault| bad(&fault.to_string()))?;
    Ok(topic)
}

/// Reports whether a segment of the path is `..` in any form: percent-encoded once or repeatedly, with parameters that Java servers strip
/// (`..;a=b`), or before a zero byte at which C programs stop.
fn escapes_prefix(path: &str) -> bool {
    let is_up = |text: &str| {
        text.contains(char::is_control)
            || text.split(['/', '\\']).any(|part| {
                part.split(';')
                    .next()
                    .is_some_and(|name| name.trim() == "..")
            })
    };
    let mut path = path.to_owned();
    for _ in 0..MAX_DECODINGS {
        if is_up(&path) {
            return true;
        }
        let decoded = percent_decode_str(&path).decode_utf8_lossy().into_owned();
        if decoded == path {
            return false;
        }
        path = decoded;
    }
    // no legitimate path is like that
    true
}

/// Converts headers to Go's form, without hop-by-hop headers.
pub(super) fn headers_for(headers: &HeaderMap) -> Headers {
    let own = connection_headers(headers);
    let mut written = Headers::new();
    for (name, value) in headers {
        if !own.contains(name.as_str()) && ![header::CONTENT_LENGTH, header::HOST].contains(name) {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            written
                .entry(canonical_name(name.as_str()))
                .or_default()
                .push(value);
        }
    }
    written
}

/// Returns the hop-by-hop headers.
fn connection_headers(headers: &HeaderMap) -> ConnectionHeaders {
    let values = headers
        .get_all(header::CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    ConnectionHeaders::named_in(values)
}

/// Converts the agent's own answer: the caller gets its message, and the request has failed.
fn read_refusal(node: &str, response: ServiceResponse) -> Result<CallAnswer, CallError> {
    let why = wire::text::printable(&response.reason());
    read_answer(node, response).map(|answer| CallAnswer {
        failed: Some(why),
        ..answer
    })
}

/// Converts a service's answer. An invalid one is refused, since the node determines its contents.
fn read_answer(node: &str, response: ServiceResponse) -> Result<CallAnswer, CallError> {
    let status = StatusCode::from_u16(response.status_code)
        .ok()
        .filter(|status| !status.is_informational());
    let status = status.ok_or_else(|| {
        failed_at(
            node,
            &format!("it answered with status {}", response.status_code),
        )
    })?;
    if response.body.len() > wire::bus::MAX_BODY {
        return Err(failed_at(
            node,
            &format!("its answer is larger than {} bytes", wire::bus::MAX_BODY),
        ));
    }
    let mut headers = HeaderMap::new();
    for (name, values) in response.header {
        for value in values {
            let pair = name
                .parse::<HeaderName>()
                .ok()
                .zip(HeaderValue::from_bytes(value.as_bytes()).ok());
            let (name, value) = pair.ok_or_else(|| {
                failed_at(node, "its answer has a header that HTTP does not allow")
            })?;
            if headers.try_append(name, value).is_err() {
                return Err(failed_at(node, "its answer has too many headers"));
            }
        }
    }
    let own = connection_headers(&headers);
    let dropped = headers
        .keys()
        .filter(|name| own.contains(name.as_str()) || *name == header::CONTENT_LENGTH);
    for name in dropped.cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    Ok(CallAnswer {
        status,
        headers,
        body: response.body.into(),
        failed: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reaches_no_topic_of_devices() {
        assert_eq!(topic_of("test", "").unwrap(), "test");
        assert_eq!(topic_of("test/", "a%20b/c").unwrap(), "test/a b/c");
        for rest in ["+", "%23", "..", "a%00", "%ff", "%2e%2e/$hw"] {
            let error = topic_of("test", rest).unwrap_err();
            assert_eq!(
                (error.status, error.reason),
                (StatusCode::BAD_REQUEST, "TopicRefused"),
                "{rest}"
            );
        }
    }

    #[test]
    fn a_path_does_not_lead_out() {
        for path in [
            "..",
            "a/../b",
            "%2e%2E/b",
            "a%2f..%2fb",
            "a/..%5cb",
            "..;/x",
            "a/..;b=c/x",
            "%2e%2e%3b/x",
            "..%3Ba=b/x",
            "%252e%252e/x",
            "%25252e%25252e/x",
            "..%20/x",
            "%2525252525252e",
            "..%00/x",
            "a/..%2500b/x",
            "a%0d%0ab",
        ] {
            assert!(escapes_prefix(path), "{path}");
        }
        for path in [
            "",
            "a/..b/c...d/e",
            "a;..b/c",
            "a;b=../c",
            "%",
            "50%25",
            "a%20b/%c3%a4",
            "...;/x",
        ] {
            assert!(!escapes_prefix(path), "{path}");
        }
    }

    #[test]
    fn a_connections_headers_stay_behind_both_ways() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "cloud"),
            ("connection", "close, x-own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("content-length", "3"),
            ("x-kept", "a"),
            ("x-kept", "b"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let written = headers_for(&headers);
        assert_eq!(
            written,
            [("X-Kept".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into()
        );
        let named = [
            ("Connection", "x-own"),
            ("X-Own", "1"),
            ("Content-Length", "7"),
            ("Server", "s"),
        ];
        let header = named
            .map(|(name, value)| (name.to_owned(), vec![value.to_owned()]))
            .into();
        let answer = read_answer(
            "n",
            ServiceResponse {
                header,
                status_code: 201,
                body: b"x".to_vec(),
            },
        )
        .unwrap();
        assert_eq!(
            (answer.status, answer.headers.len()),
            (StatusCode::CREATED, 1)
        );
        assert_eq!(answer.headers["server"], "s");
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        let header = |value: &str| [("X-A".to_owned(), vec![value.to_owned()])].into();
        for response in [
            ServiceResponse {
                status_code: 0,
                ..ServiceResponse::default()
            },
            ServiceResponse {
                status_code: 101,
                ..ServiceResponse::default()
            },
            ServiceResponse {
                status_code: 1000,
                ..ServiceResponse::default()
            },
            ServiceResponse {
                status_code: 200,
                header: header("a\r\nSet-Cookie: b"),
                body: Vec::new(),
            },
            ServiceResponse {
                status_code: 200,
                header: [("a b".to_owned(), vec![String::new()])].into(),
                body: Vec::new(),
            },
            ServiceResponse {
                status_code: 200,
                body: vec![0; wire::bus::MAX_BODY + 1],
                ..ServiceResponse::default()
            },
        ] {
            let error = read_answer("n", response).unwrap_err();
            assert_eq!(
                (error.status, error.reason),
                (StatusCode::BAD_GATEWAY, "NodeFailed")
            );
        }
    }
}
