//! The steps of a node: registered, connected, one agent, heartbeat, Ready, open for pods, stream tunnel. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition},
};
use kube::ResourceExt;

use super::{
    age,
    step::{Chain, Finding, missing},
};
use crate::sessions::{CountedSessions, NodeSession};

/// The label of an edge node. Source: <https://kubeedge.io/docs/setup/prerequisites/>.
const EDGE_LABEL: &str = "node-role.kubernetes.io/edge";
/// What to do on a node that does not connect.
const CHECK: &str = "run `edge-agent check` on the node: it names what keeps it from connecting";

/// What to do if the cloud has rejected the node.
const DO_AS_SAID: &str =
    "do what the message says; `edge-agent check` on the node shows the details";

/// What to do if a simulated node does not connect.
const START: &str = "run `edge-agent check` on the node; one of `cloudsim up --nodes` or `hollow` returns when that program is started again";
/// How the name of the simulated runtime begins.
const SIMULATED: &str = "outrigger-sim";

/// A node renews its Lease every ten seconds.
const SILENCE: SignedDuration = SignedDuration::from_secs(25);

/// The time after the start of a session in which an agent opens its stream tunnel.
const TUNNEL_START: SignedDuration = SignedDuration::from_secs(5);

/// A larger difference between the clocks of a node and this machine is reported.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// What is known of a node.
#[derive(Debug, Default)]
pub(super) struct NodeFacts {
    /// Its name.
    pub(super) name: String,
    /// The object.
    pub(super) node: Option<Node>,
    /// Its session.
    pub(super) session: Option<NodeSession>,
    /// Whether a missing session means that it is not connected.
    pub(super) are_sessions_complete: bool,
    /// Its Lease, which its heartbeat renews.
    pub(super) lease: Option<Lease>,
    /// The fault of this cloud that keeps the node away.
    pub(super) fault: Option<String>,
    /// Names of other nodes.
    pub(super) others: Vec<String>,
    /// The newest event about a rejected connection: its time, and its message, which has the cure.
    pub(super) rejection: Option<(Timestamp, String)>,
}

impl NodeFacts {
    /// Adds what the hub knows.
    pub(super) fn set_sessions(&mut self, sessions: &CountedSessions) {
        self.are_sessions_complete = sessions.is_complete;
        self.session = sessions
            .sessions
            .iter()
            .find(|session| session.node == self.name)
            .cloned();
    }

    /// Reports whether the node is served by this cloud, not by a kubelet. Unregistered ones are.
    pub(super) fn is_edge(&self) -> bool {
        self.node
            .as_ref()
            .is_none_or(|node| node.labels().contains_key(EDGE_LABEL))
    }

    fn is_simulated(&self) -> bool {
        let status = self.node.as_ref().and_then(|node| node.status.as_ref());
        let info = status.and_then(|status| status.node_info.as_ref());
        info.is_some_and(|info| info.container_runtime_version.starts_with(SIMULATED))
    }

    fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        let status = self.node.as_ref()?.status.as_ref()?;
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == kind)
    }

    /// Checks that the Node exists.
    pub(super) fn registration(&self, now: Timestamp) -> Finding {
        let name = &self.name;
        match (&self.node, &self.session, &self.rejection) {
            (Some(node), ..) => {
                let created = node.creation_timestamp();
                Ok(created.map_or_else(String::new, |time| format!("{} ago", age(time.0, now))))
            }
            (None, Some(_), _) => missing(
                format!("{name} is connected, but has not registered its Node"),
                "set modules.edged.registerNode: true in the node's edgecore.yaml, or read its log",
            ),
            (None, None, Some((time, message))) => missing(
                format!(
                    "there is no node {name}; its agent was rejected {} ago: {message}",
                    age(*time, now)
                ),
                DO_AS_SAID,
            ),
            (None, None, None) => missing(
                format!(
                    "there is no node {name}{}",
                    wire::did_you_mean(name, self.others.iter().map(String::as_str))
                ),
                "correct the name, or join the machine: `edge-agent join --cloud ADDRESS --token TOKEN` (`cloudsim token` prints TOKEN)",
            ),
        }
    }

    /// Checks that the node is connected, with how long.
    pub(super) fn connection(&self, now: Timestamp) -> Finding {
        match &self.session {
            Some(session) => {
                let address = session.address.ip();
                let text = format!(
                    "to this cloud for {} from {address}",
                    age(session.since, now)
                );
                match self.silence(session, now) {
                    None => Ok(text),
                    Some(silence) => missing(
                        format!(
                            "{text}, but without a heartbeat for {silence}: the link may be cut"
                        ),
                        CHECK,
                    ),
                }
            }
            None if !self.is_edge() => {
                Ok("not an edge node: its kubelet reaches the API server itself".to_owned())
            }
            None if !self.are_sessions_complete => {
                Ok("unknown: not all replicas of the cloud answered".to_owned())
            }
            None => {
                let text = format!("{} is not connected; {}", self.name, self.heartbeat(now));
                match (&self.fault, self.recent_rejection()) {
                    (Some(fault), _) => missing(
                        format!("{text}; this cloud has a fault for it: {fault}"),
                        format!("`cloudsim faults restore {}`", self.name),
                    ),
                    (None, Some((time, message))) => missing(
                        format!("{text}; rejected {} ago: {message}", age(*time, now)),
                        DO_AS_SAID,
                    ),
                    (None, None) if self.is_reset() => missing(
                        format!("{text}; the machine was reset (`edge-agent reset`)"),
                        format!(
                            "join it again: `edge-agent join --cloud ADDRESS --token TOKEN`; or remove it: `kubectl delete node {}`",
                            self.name
                        ),
                    ),
                    (None, None) if self.is_simulated() => missing(text, START),
                    (None, None) => missing(text, CHECK),
                }
            }
        }
    }

    /// Returns how long the node is silent, if that is longer than the heartbeats of a node with a working link.
    fn silence(&self, session: &NodeSession, now: Timestamp) -> Option<String> {
        let last = self.heartbeat_time()?.max(session.since);
        (now.duration_since(last) >= SILENCE).then(|| age(last, now))
    }

    /// Returns the rejection, unless the node was connected later.
    fn recent_rejection(&self) -> Option<&(Timestamp, String)> {
        let renewed = self.heartbeat_time().unwrap_or(Timestamp::UNIX_EPOCH);
        self.rejection.as_ref().filter(|(time, _)| *time >= renewed)
    }

    fn is_reset(&self) -> bool {
        let message = self
            .condition("Ready")
            .and_then(|ready| ready.message.as_deref());
        message == Some(wire::session::RESET_MESSAGE)
    }

    fn heartbeat_time(&self) -> Option<Timestamp> {
        let spec = self.lease.as_ref()?.spec.as_ref()?;
        Some(spec.renew_time.as_ref()?.0)
    }

    fn heartbeat(&self, now: Timestamp) -> String {
        self.heartbeat_time().map_or_else(
            || "it has never sent a heartbeat".to_owned(),
            |time| format!("last heartbeat {} ago", age(time, now)),
        )
    }

    /// Describes a clock of the node that is fast: its heartbeat has the time of the node.
    fn clock_error(&self, now: Timestamp) -> Option<String> {
        let renewed = self.heartbeat_time()?;
        let is_fast = renewed.duration_since(now) >= CLOCK_TOLERANCE;
        is_fast.then(|| {
            let fast = age(now, renewed);
            format!("the clock of the node is {fast} fast, compared with this machine")
        })
    }

    /// Checks that no second agent has the node's name.
    fn only_agent(&self, now: Timestamp) -> Finding {
        let Some(session) = &self.session else {
            return Ok("no second agent is known".to_owned());
        };
        match &session.rival {
            None => Ok("no other agent has this name".to_owned()),
            Some(rival) => missing(
                format!(
                    "{} has this name too; it was refused {} times, last {} ago",
                    rival.address,
                    rival.refused,
                    age(rival.last, now)
                ),
                "give one of them another name (`edge-agent reset`, then `join --name`), or stop it",
            ),
        }
    }

    /// Checks that the node is Ready.
    pub(super) fn ready(&self, now: Timestamp) -> Finding {
        let heartbeat = self.heartbeat(now);
        match self.condition("Ready") {
            Some(ready) if ready.status == "True" => match self.clock_error(now) {
                None => Ok(heartbeat),
                Some(error) => {
                    missing(error, "set the clock of the node: timedatectl set-ntp true")
                }
            },
            Some(ready) => missing(
                format!(
                    "Ready is {}: {} ({})",
                    ready.status,
                    ready.message.as_deref().unwrap_or("no message"),
                    ready.reason.as_deref().unwrap_or("no reason"),
                ),
                if ready.status == "Unknown" {
                    CHECK
                } else {
                    "run `edge-agent check` on the node; most often its container runtime or pod network is missing"
                },
            ),
            None => missing(
                "the node has reported no status yet",
                "wait for some seconds; then run `edge-agent check` on the node",
            ),
        }
    }

    /// Checks that new pods may start.
    fn open(&self) -> Finding {
        let pressures: Vec<_> = ["MemoryPressure", "DiskPressure", "PIDPressure"]
            .into_iter()
            .filter(|kind| self.condition(kind).is_some_and(|it| it.status == "True"))
            .collect();
        if !pressures.is_empty() {
            return missing(
                format!("{}: new pods are rejected", pressures.join(", ")),
                "free memory, disk space or processes on the node; `edge-agent check` shows how much is missing. The node accepts pods \
                 again within five minutes",
            );
        }
        let spec = self.node.as_ref().and_then(|node| node.spec.as_ref());
        if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
            return missing(
                "the node is cordoned: new pods are not scheduled to it",
                format!("`kubectl uncordon {}`", self.name),
            );
        }
        let taints = spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten())
            .map(|taint| format!("{}:{}", taint.key, taint.effect));
        let taints: Vec<_> = taints.collect();
        Ok(match taints.is_empty() {
            true => "new pods are accepted".to_owned(),
            false => format!("only pods that tolerate {}", taints.join(", ")),
        })
    }

    /// Checks that logs, exec and port-forward reach the node.
    pub(super) fn streams(&self, now: Timestamp) -> Finding {
        match &self.session {
            _ if !self.is_edge() => Ok("its kubelet serves logs, exec and port-forward".to_owned()),
            None => Ok("unknown without a session".to_owned()),
            Some(session) => match session.tunnel {
                Some(since) => Ok(format!(
                    "logs, exec and port-forward have a tunnel for {}",
                    age(since, now)
                )),
                // a new session, whose tunnel follows
                None if now.duration_since(session.since) < TUNNEL_START => {
                    Ok("the stream tunnel of the new session is not open yet".to_owned())
                }
                // `cloudsim hollow` may run nodes without tunnels
                None if self.is_simulated() => {
                    Ok("the simulated node has no stream tunnel".to_owned())
                }
                None => missing(
                    format!(
                        "{} has no stream tunnel: logs, exec and port-forward do not work",
                        self.name
                    ),
                    "run `edge-agent check` on the node: it names what blocks the cloud's port for streams (10004); if \
                     modules.edgeStream is disabled on purpose, nothing else is affected",
                ),
            },
        }
    }

    fn queue(&self) -> Finding {
        Ok(match &self.session {
            None => "unknown without a session".to_owned(),
            Some(session) if session.queue == 0 => "nothing waits to be sent".to_owned(),
            Some(session) => format!("{} to be sent", wire::text::count(session.queue, "message")),
        })
    }
}

/// Returns the steps of a node.
pub(super) fn chain(facts: &NodeFacts, now: Timestamp) -> Chain {
    let mut chain = Chain::default();
    chain.step("registered", || facts.registration(now));
    chain.step("connected", || facts.connection(now));
    chain.step("agent", || facts.only_agent(now));
    chain.step("ready", || facts.ready(now));
    chain.step("pods", || facts.open());
    chain.step("queue", || facts.queue());
    chain.step("streams", || facts.streams(now));
    chain
}
