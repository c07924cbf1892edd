//! A cloud in memory, nodes that are queues, and servers on this machine.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use crds::rules::{Rule, RuleEndpoint, RuleEndpointSpec, RuleEndpointType, RuleSpec, RuleStatus};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kube::{Api, Client, ResourceExt, api::PostParams};
use kubeapi::{Body, gather, serve::Server};
use objectstore::MemoryStore;
use serde_json::Value;
use testkit::{WAIT_TIMEOUT, eventually, until, within};
use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Down, Header, Up, Upstream};

use super::super::{Call, CallError, OpenNode, Rules, Via};
use crate::{admission, controllers::namespace_defaults, delivery::Reply, kinds};

/// The result of a call.
pub(super) type Called = Result<(StatusCode, HeaderMap, Bytes), CallError>;

fn via() -> Via {
    Via::of_authority(b"an authority")
}

pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) client: Client,
    stop: CancellationToken,
    _stop: DropGuard,
}

/// Returns the spec of a rule: the endpoint and the resource of its source, and those of its target.
pub(in crate::controllers::rules) fn rule_spec(
    from: (&str, &[(&str, &str)]),
    to: (&str, &[(&str, &str)]),
) -> RuleSpec {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    RuleSpec {
        source: from.0.to_owned(),
        source_resource: map(from.1),
        target: to.0.to_owned(),
        target_resource: map(to.1),
    }
}

impl World {
    /// A cloud; nodes whose name begins with `own` run `edge-agent`.
    pub(super) async fn new() -> Self {
        Self::with(Duration::from_secs(10)).await
    }

    pub(super) async fn with(call_timeout: Duration) -> Self {
        let api = apiserver::builder(MemoryStore::new()).registry(kinds::registry());
        let client = api
            .admission(Arc::new(admission::KubeEdgeAdmission))
            .build()
            .client("default");
        namespace_defaults::ensure_initial(&client).await.unwrap();
        let rules = Rules::new(
            client.clone(),
            via(),
            |node| node.starts_with("own"),
            call_timeout,
        );
        let stop = CancellationToken::new();
        tokio::spawn(rules.clone().run(stop.clone()));
        rules.complete().await;
        let world = Self {
            rules,
            client,
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        };
        world.endpoints("default").await;
        world
    }

    /// Creates a RuleEndpoint of each kind, named `rest`, `mqtt` and `http`.
    pub(super) async fn endpoints(&self, namespace: &str) {
        for (name, kind, properties) in [
            ("rest", RuleEndpointType::Rest, None),
            ("mqtt", RuleEndpointType::EventBus, None),
            (
                "http",
                RuleEndpointType::ServiceBus,
                Some(("service_port", "6666")),
            ),
        ] {
            let properties = properties
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            let endpoint = RuleEndpoint::new(
                name,
                RuleEndpointSpec {
                    rule_endpoint_type: kind,
                    properties,
                },
            );
            Api::namespaced(self.client.clone(), namespace)
                .create(&PostParams::default(), &endpoint)
                .await
                .unwrap();
        }
    }

    pub(super) fn api(&self) -> Api<Rule> {
        self.api_of("default")
    }

    pub(super) fn api_of(&self, namespace: &str) -> Api<Rule> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(super) async fn try_rule(
        &self,
        name: &str,
        from: (&str, &[(&str, &str)]),
        to: (&str, &[(&str, &str)]),
    ) -> Result<Rule, kube::Error> {
        self.try_rule_of("default", name, from, to).await
    }

    pub(super) async fn try_rule_of(
        &self,
        namespace: &str,
        name: &str,
        from: (&str, &[(&str, &str)]),
        to: (&str, &[(&str, &str)]),
    ) -> Result<Rule, kube::Error> {
        self.api_of(namespace)
            .create(
                &PostParams::default(),
                &Rule::new(name, rule_spec(from, to)),
            )
            .await
    }

    /// Creates a rule, and returns when it is in force.
    pub(super) async fn rule(
        &self,
        name: &str,
        from: (&str, &[(&str, &str)]),
        to: (&str, &[(&str, &str)]),
    ) {
        let uid = self.try_rule(name, from, to).await.unwrap().uid().unwrap();
        until("the rule is in force", || {
            let known = self.rules.table();
            known
                .all()
                .any(|(rule, problem)| rule.uid().as_deref() == Some(&uid) && problem.is_none())
        })
        .await;
    }

    pub(super) async fn status(&self, name: &str) -> RuleStatus {
        self.status_of("default", name).await
    }

    pub(super) async fn status_of(&self, namespace: &str, name: &str) -> RuleStatus {
        self.api_of(namespace)
            .get(name)
            .await
            .unwrap()
            .status
            .unwrap_or_default()
    }

    pub(super) async fn counts(&self, name: &str, successes: i64, failures: i64) {
        eventually("the counts", async || {
            let status = self.status(name).await;
            let counts = (status.success_messages, status.fail_messages);
            if counts == (Some(successes), Some(failures)) {
                Ok(())
            } else {
                Err(counts)
            }
        })
        .await;
    }

    /// Another cloud on the same API; it ends with this one.
    pub(super) async fn replica(&self) -> Rules {
        let rules = Rules::new(
            self.client.clone(),
            via(),
            |node| node.starts_with("own"),
            WAIT_TIMEOUT,
        );
        tokio::spawn(rules.clone().run(self.stop.child_token()));
        rules.complete().await;
        rules
    }

    pub(super) fn call(&self, node: &str, path: &str, body: &'static [u8]) -> JoinHandle<Called> {
        self.call_of(&self.rules, node, path, body)
    }

    pub(super) fn call_of(
        &self,
        rules: &Rules,
        node: &str,
        path: &str,
        body: &'static [u8],
    ) -> JoinHandle<Called> {
        let (rules, node, path) = (rules.clone(), node.to_owned(), path.to_owned());
        tokio::spawn(async move {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, "*/*".parse().unwrap());
            let (namespace, query) = ("default".to_owned(), None);
            let call = Call {
                node,
                namespace,
                path,
                query,
                method: Method::POST,
                headers,
                body: Bytes::from_static(body),
            };
            rules
                .call(call)
                .await
                .map(|answer| (answer.status, answer.headers, answer.body))
        })
    }
}

/// The node's end of a session.
pub(super) struct Node {
    name: String,
    pub(super) rules: Rules,
    messages: mpsc::Receiver<Box<Reply>>,
    _open: OpenNode,
}

impl Node {
    pub(super) fn connect(world: &World, name: &str) -> Self {
        let (sender, messages) = mpsc::channel(32);
        let open = world.rules.open(name, sender);
        Self {
            name: name.to_owned(),
            rules: world.rules.clone(),
            messages,
            _open: open,
        }
    }

    pub(super) async fn next(&mut self) -> Down {
        let reply = within("a message to the node", self.messages.recv())
            .await
            .unwrap();
        let Reply::Direct(message) = *reply else {
            panic!("a message of the acknowledged lane")
        };
        // encoded and decoded, as at the other end
        message.into()
    }

    pub(super) fn say(&self, body: Upstream, id: &str, parent: &str) -> bool {
        let header = Header {
            msg_id: id.to_owned(),
            parent_msg_id: parent.to_owned(),
            ..Header::default()
        };
        let Some(Up { header, body }) = self.rules.take_answer(&self.name, Up { header, body })
        else {
            return true;
        };
        match body {
            Upstream::BusUpload { topic, payload } => {
                self.rules.bus_upload(&self.name, header, &topic, &payload);
            }
            Upstream::ServiceUpload { target, content } => {
                self.rules
                    .service_upload(&self.name, header, &target, &content);
            }
            Upstream::BusAnswer { .. } => {}
            _ => return false,
        }
        true
    }

    pub(super) fn upload(&self, topic: &str, payload: Value, id: &str) {
        assert!(self.say(
            Upstream::BusUpload {
                topic: topic.into(),
                payload
            },
            id,
            ""
        ));
    }
}

/// A server on this machine that records its requests and answers as configured.
pub(super) struct Target {
    pub(super) url: String,
    pub(super) heard: Arc<Mutex<Vec<(Method, HeaderMap, Bytes)>>>,
    _stop: DropGuard,
}

impl Target {
    pub(super) async fn new(status: StatusCode, answer: Vec<u8>) -> Self {
        Self::when(status, answer, watch::channel(true).1).await
    }

    /// A server that answers only when it is told to.
    pub(super) async fn closed(status: StatusCode) -> (Self, watch::Sender<bool>) {
        let (opened, open) = watch::channel(false);
        (Self::when(status, Vec::new(), open).await, opened)
    }

    async fn when(status: StatusCode, answer: Vec<u8>, open: watch::Receiver<bool>) -> Self {
        let heard: Arc<Mutex<Vec<_>>> = Arc::default();
        let all = heard.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let (all, answer, mut open) = (all.clone(), answer.clone(), open.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = gather(body, 1 << 24).await.unwrap();
                all.lock().await.push((head.method, head.headers, body));
                let body: Body = Full::new(Bytes::from(answer))
                    .map_err(|never| match never {})
                    .boxed_unsync();
                // fails if the receiver is gone
                let _ = open.wait_for(|open| *open).await;
                let response = Response::builder()
                    .status(status)
                    .header("location", "http://127.0.0.1:1/")
                    .header("connection", "x-hop")
                    .header("x-hop", "1")
                    .body(body);
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        let server = Server::bind(([127, 0, 0, 1], 0).into(), None, service)
            .await
            .unwrap();
        let (url, stop) = (
            format!("http://{}/a", server.local_addr()),
            CancellationToken::new(),
        );
        tokio::spawn(server.run(stop.clone()));
        Self {
            url,
            heard,
            _stop: stop.drop_guard(),
        }
    }

    pub(super) async fn bodies(&self) -> Vec<Bytes> {
        self.heard
            .lock()
            .await
            .iter()
            .map(|(_, _, body)| body.clone())
            .collect()
    }
}
