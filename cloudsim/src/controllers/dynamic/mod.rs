//! The dynamic controller: API calls of nodes for their programs (MetaServer), and the objects that they watch.
//!
//! In: Applications of nodes ([`Session::call`]) and the watches that they keep ([`Session::keep`]). Out: answers, and a message for each
//! change of a watched object. A node may read itself, its pods and what they use ([`mod@permission`]); anything else must be granted by
//! roles and bindings: to the user `system:node:<name>`, the group `system:nodes`, or an account of one of its pods, whose token it could
//! have. Watches outlive the connection, as in KubeEdge, whose nodes do not request them again.
//!
//! Source: KubeEdge's DynamicController.

mod listen;
mod permission;
mod request;
mod reviews;

use std::{collections::BTreeMap, future::pending, sync::Arc};

use clock::HashMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use tracing::{debug, error, warn};
use wire::{
    Downstream, Header,
    application::{Application, Status, Target, Verb, Watches},
    text::printable_short,
};

use self::{
    permission::{CallAttributes, NodeObjects, Permission, permission},
    request::Call,
};
use super::{
    deadline::within,
    edge::{Edge, topology::Filtered},
    refusal_log::log_refused,
};
use crate::{delivery::Reply, mailbox::ObjectPath};

/// The largest outcome of a call, bytes; in base64 it fits into one message.
const MAX_OUTCOME_BYTES: usize = wire::json::DEFAULT_LIMIT / 4 * 3 - 64 * 1024;
/// Watches of one node at a time.
const MAX_WATCHES_PER_NODE: usize = 512;

/// The dynamic controller; cheap to clone.
#[derive(Clone)]
pub struct Dynamic {
    client: Client,
    edge: Edge,
    /// The watches of each node.
    watches: Arc<Mutex<HashMap<String, Watches>>>,
}

/// The controller's part of one session of a node.
pub struct Session {
    dynamic: Dynamic,
    node: String,
    replies: mpsc::Sender<Box<Reply>>,
    listeners: BTreeMap<String, AbortHandle>,
    /// The tasks of the watches, which end with this.
    listening: JoinSet<()>,
}

/// Why a call is not made.
enum CallError {
    /// A `metav1.Status` for the caller.
    Status(Value),
    /// The call is invalid.
    Malformed(String),
}

impl Dynamic {
    /// Creates the controller; `edge` knows which objects are a node's.
    pub fn new(client: Client, edge: Edge) -> Self {
        Self {
            client,
            edge,
            watches: Arc::default(),
        }
    }

    /// Begins a session of `node`, which is sent changes of what it watches.
    pub fn open(&self, node: &str, replies: mpsc::Sender<Box<Reply>>) -> Session {
        let mut session = Session {
            dynamic: self.clone(),
            node: node.to_owned(),
            replies,
            listeners: BTreeMap::new(),
            listening: JoinSet::new(),
        };
        let kept = self.watches.lock().get(node).cloned().unwrap_or_default();
        kept.into_values().for_each(|watch| session.listen(watch));
        session
    }

    /// Reads a path that names no objects.
    async fn path(&self, path: &str) -> Result<Vec<u8>, CallError> {
        if !is_about_the_api(path) {
            return Err(CallError::Malformed(format!(
                "{:?} names no objects and says nothing about the API",
                printable_short(path)
            )));
        }
        let request = http::Request::get(path).body(kube::client::Body::empty());
        self.send(request.map_err(|error| CallError::Malformed(error.to_string()))?)
            .await
    }

    /// Returns the call as `node` may make it.
    async fn permit(&self, node: &str, call: Call) -> Result<Call, CallError> {
        let business = EdgeNodeObjects {
            edge: &self.edge,
            node,
        };
        let wanted = CallAttributes {
            target: &call.target,
            verb: call.verb,
            part: &call.part,
        };
        let allowed = match permission(node, wanted, &business) {
            Permission::Yes => true,
            Permission::Within(selector) => {
                let all =
                    self.granted_to_accounts(node, &call) || self.is_granted(node, &call).await?;
                return Ok(if all { call } else { call.within(&selector) });
            }
            Permission::AsGranted => {
                self.granted_to_accounts(node, &call) || self.is_granted(node, &call).await?
            }
            Permission::AsAccount => self.granted_to_accounts(node, &call),
            Permission::Token => return self.token(node, call).await,
            Permission::Never => false,
        };
        if allowed {
            Ok(call)
        } else {
            Err(CallError::Status(forbidden(node, &call)))
        }
    }

    /// Checks a call for a token.
    async fn token(&self, node: &str, call: Call) -> Result<Call, CallError> {
        let account = (call.target.namespace.as_str(), call.target.name.as_str());
        let refusal = self.edge.token_refusal(node, account, &call.body).await;
        let why = match refusal {
            Ok(None) => return Ok(call),
            Ok(Some(why)) => why,
            Err(error) => return Err(CallError::Status(super::api_status::of(&error))),
        };
        log_refused(node, &why);
        let mut status = forbidden(node, &call);
        status["message"] = why.into();
        Err(CallError::Status(status))
    }

    /// Reports whether the call is granted to an account of the node's pods, with whose token the node could make it itself.
    fn granted_to_accounts(&self, node: &str, call: &Call) -> bool {
        self.edge
            .accesses_on(node)
            .iter()
            .any(|access| call.is_allowed_by(access))
    }

    /// Reports whether the call is granted to the node.
    async fn is_granted(&self, node: &str, call: &Call) -> Result<bool, CallError> {
        let question = call.review(node).to_string().into_bytes();
        let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(kube::client::Body::from(question));
        let answer = self
            .send(request.map_err(|error| CallError::Malformed(error.to_string()))?)
            .await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }

    /// Sends a request to the API.
    async fn send(&self, request: http::Request<kube::client::Body>) -> Result<Vec<u8>, CallError> {
        let failed = |code: u16, reason: &str, why: String| {
            CallError::Status(
                json!({"metadata": {}, "status": "Failure", "message": why, "reason": reason, "code": code}),
            )
        };
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| {
            failed(
                500,
                "InternalError",
                format!("cannot reach the API: {error}"),
            )
        })?;
        let code = answer.status();
        let body = match Limited::new(answer.into_body(), MAX_OUTCOME_BYTES)
            .collect()
            .await
        {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let why = format!(
                    "the answer is larger than {MAX_OUTCOME_BYTES} bytes; request less at a time"
                );
                return Err(failed(413, "RequestEntityTooLarge", why));
            }
            Err(error) => {
                return Err(failed(
                    500,
                    "InternalError",
                    format!("the API's answer broke off: {error}"),
                ));
            }
        };
        if code.is_success() {
            return Ok(body.to_vec());
        }
        match serde_json::from_slice::<Value>(&body) {
            Ok(Value::Object(mut status)) => {
                status.retain(|key, _| !matches!(key.as_str(), "kind" | "apiVersion"));
                Err(CallError::Status(status.into()))
            }
            _ => Err(failed(
                code.as_u16(),
                "InternalError",
                format!("the API answered {code}"),
            )),
        }
    }
}

impl Session {
    /// Makes one call; returns the answer.
    pub async fn call(&mut self, header: &Header, content: &Value) -> Option<Reply> {
        let mut application = match Application::read(content) {
            Ok(application) => application,
            Err(why) => {
                warn!(
                    node = self.node,
                    error = printable_short(why),
                    "cannot read API call of a node; call skipped"
                );
                return None;
            }
        };
        // the node is the one that the connection has authenticated
        application.nodename.clone_from(&self.node);
        match self.outcome_in_time(&application).await {
            Ok(outcome) => {
                application.status = Status::Approved;
                application.resp_body = outcome;
            }
            Err(refused) => refuse(&mut application, refused),
        }
        application.req_body.clear();
        debug!(
            node = self.node,
            key = application.key,
            verb = application.verb.as_str(),
            approved = application.status == Status::Approved,
            "API call of a node executed"
        );
        Some(direct(Downstream::Application(application.write()), header))
    }

    /// Keeps these watches and no others; answers those that are refused.
    pub async fn keep(&mut self, header: &Header, content: &Value) -> Option<Reply> {
        let wanted: Watches = match serde::Deserialize::deserialize(content) {
            Ok(wanted) => wanted,
            Err(error) => {
                let error = printable_short(error);
                warn!(
                    node = self.node,
                    error, "cannot read watches of a node; watches unchanged"
                );
                return None;
            }
        };
        self.listeners.retain(|id, listener| {
            let stays = wanted.contains_key(id);
            if !stays {
                listener.abort();
            }
            stays
        });
        if let Some(kept) = self.dynamic.watches.lock().get_mut(&self.node) {
            kept.retain(|id, _| wanted.contains_key(id));
        }
        let mut failed = Watches::new();
        for (id, mut application) in wanted {
            application.nodename.clone_from(&self.node);
            if !self.listeners.contains_key(&id)
                && let Err(refused) = self.outcome_in_time(&application).await
            {
                refuse(&mut application, refused);
                failed.insert(id, application);
            }
        }
        Some(direct(
            Downstream::WatchSync(serde_json::to_value(failed).unwrap_or_default()),
            header,
        ))
    }

    async fn outcome_in_time(&mut self, application: &Application) -> Result<Vec<u8>, CallError> {
        let node = self.node.clone();
        within(&node, self.outcome(application))
            .await
            .map_err(CallError::Status)
            .flatten()
    }

    async fn outcome(&mut self, application: &Application) -> Result<Vec<u8>, CallError> {
        if application.verb == Verb::Get && Target::parse(&application.key).is_none() {
            return self.dynamic.path(&application.key).await;
        }
        let call = Call::of(application).map_err(CallError::Malformed)?;
        if let Some(own) = reviews::question(&call) {
            return self.dynamic.review(&self.node, own, &call).await;
        }
        let call = self.dynamic.permit(&self.node, call).await?;
        if application.verb != Verb::Watch {
            let request = call
                .request()
                .map_err(|error| CallError::Malformed(error.to_string()))?;
            let answer = self.dynamic.send(request).await?;
            return Ok(self.filter(&call, answer).await);
        }
        let watch = Application {
            option: call.option_bytes(),
            ..application.clone()
        };
        {
            let mut all = self.dynamic.watches.lock();
            let kept = all.entry(self.node.clone()).or_default();
            if kept.len() >= MAX_WATCHES_PER_NODE && !kept.contains_key(&watch.id) {
                return Err(CallError::Malformed(format!(
                    "the node keeps {MAX_WATCHES_PER_NODE} watches already"
                )));
            }
            kept.insert(watch.id.clone(), watch.clone());
        }
        self.listen(watch);
        Ok(Vec::new())
    }

    /// Removes the endpoints of other node groups from an answer.
    async fn filter(&self, call: &Call, answer: Vec<u8>) -> Vec<u8> {
        let reads = matches!(call.verb, Verb::Get | Verb::List);
        let Some(kind) = Filtered::of(&call.target).filter(|_| reads) else {
            return answer;
        };
        let topology = self.dynamic.edge.topology();
        topology.wait_listed().await;
        let Ok(mut value) = serde_json::from_slice::<Value>(&answer) else {
            return answer;
        };
        match value.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => items
                .iter_mut()
                .for_each(|item| topology.apply(&self.node, kind, item)),
            None => topology.apply(&self.node, kind, &mut value),
        }
        value.to_string().into_bytes()
    }

    /// Waits for watches that panic, and forgets them: the node requests them again at its next connection. Never returns.
    pub(crate) async fn forget_panicked(&mut self) {
        while let Some(ended) = self.listening.join_next_with_id().await {
            let Err(error) = ended else { continue };
            let id = self
                .listeners
                .iter()
                .find(|(_, listener)| listener.id() == error.id())
                .map(|(id, _)| id.clone());
            let Some(id) = id.filter(|_| error.is_panic()) else {
                continue;
            };
            error!(node = self.node, id = printable_short(&id), %error, "watch of a node panicked; please report this with the log");
            self.listeners.remove(&id);
            if let Some(kept) = self.dynamic.watches.lock().get_mut(&self.node) {
                kept.remove(&id);
            }
        }
        pending().await
    }

    /// Starts a watch, beginning with all existing objects.
    fn listen(&mut self, watch: Application) {
        let Ok(call) = Call::of(&watch) else { return };
        let listening = listen::run(
            self.dynamic.edge.complete_client().clone(),
            call,
            (self.node.clone(), self.dynamic.edge.topology().clone()),
            self.replies.clone(),
        );
        if let Some(before) = self
            .listeners
            .insert(watch.id, self.listening.spawn(listening))
        {
            before.abort();
        }
    }
}

struct EdgeNodeObjects<'a> {
    edge: &'a Edge,
    node: &'a str,
}

impl NodeObjects for EdgeNodeObjects<'_> {
    fn holds(&self, path: &ObjectPath) -> bool {
        self.edge.concerns(self.node, path)
    }
}

fn refuse(application: &mut Application, refused: CallError) {
    application.status = Status::Rejected;
    match refused {
        CallError::Status(status) => application.error = json!({"ErrStatus": status}),
        CallError::Malformed(why) => application.reason = why,
    }
}

fn forbidden(node: &str, call: &Call) -> Value {
    let Target {
        group,
        plural,
        namespace,
        name,
        ..
    } = &call.target;
    let verb = json!(call.verb);
    let verb = verb.as_str().unwrap_or_default();
    let (about, place) = match (name.as_str(), namespace.as_str()) {
        ("", "") => (String::new(), " at the cluster scope".to_owned()),
        ("", namespace) => (String::new(), format!(" in the namespace \"{namespace}\"")),
        (name, "") => (format!(" \"{name}\""), " at the cluster scope".to_owned()),
        (name, namespace) => (
            format!(" \"{name}\""),
            format!(" in the namespace \"{namespace}\""),
        ),
    };
    let message = format!(
        "{plural}{about} is forbidden: User \"system:node:{node}\" cannot {verb} resource \"{plural}\" in API group \
         \"{group}\"{place}: a node reaches itself, its pods and what they use; bind a role to the group \
         system:nodes, or to the account of a pod there, for more"
    );
    json!({"metadata": {}, "status": "Failure", "message": message, "reason": "Forbidden", "code": 403,
        "details": {"name": name, "group": group, "kind": plural}})
}

/// Reports whether the path is discovery, schemas, version or health, which every authenticated user may read.
fn is_about_the_api(path: &str) -> bool {
    let is_plain = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c))
        && !path.contains("..");
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let known = matches!(
        segments.as_slice(),
        ["version" | "healthz" | "livez" | "readyz" | "api" | "apis"]
            | ["openapi", ..]
            | ["api", _]
            | ["apis", _]
            | ["apis", _, _]
    );
    path.starts_with('/') && is_plain && known
}

fn direct(answer: Downstream, header: &Header) -> Reply {
    let now = clock::unix_millis();
    Reply::Direct(answer.into_message(now).answering(&header.msg_id))
}

#[cfg(test)]
mod tests;
