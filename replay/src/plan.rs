//! Plans a replay: which messages of a recording are sent, which are expected, and which of them depend on which. Pure.
//!
//! A message depends only on earlier ones, so there are no cycles:
//!
//! - an answer depends on the message that it answers;
//! - a message with an id that the other side has introduced, for example the UID of a pod, depends on the message that introduced it;
//! - a message waits for the last one of the other side about the same object.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use record::{Side, Transport, redact::MASK};
use wire::{Message, ResourceType};

use crate::{
    compare::KEEPALIVE,
    script::{Script, Sent},
    text::{Names, Token, tokens},
};

/// The most ids of one message that are followed.
const MAX_IDS: usize = 1000;
/// The most messages with replaced contents that are named.
const MAX_MASKED: usize = 100;

/// How a recording is replayed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The side that is played.
    pub side: Side,
    /// The node in the recording.
    pub node: Arc<str>,
    /// The messages of the node's sessions, in the order of the recording.
    pub script: Script,
    /// One step for each message of [`Self::script`].
    pub steps: Vec<Step>,
    /// Messages of the played side with contents that were replaced by `***`: kind and resource.
    pub masked: Vec<(&'static str, String)>,
    /// Requests of the stream tunnel, which are not replayed.
    pub requests: u64,
    /// Other frames that are not replayed: data of the stream tunnel, and what cannot be decoded.
    pub skipped: u64,
}

/// A message that is sent or expected. Other steps are named by their places in the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whether it is sent, and not expected.
    pub is_ours: bool,
    /// The step of the other side that it answers.
    pub answers: Option<usize>,
    /// Steps of the other side without which the message cannot be sent.
    pub needs: Vec<usize>,
    /// The step of the other side that is awaited before.
    pub follows: Option<usize>,
    /// Whether it is the first message of a further connection.
    pub is_reconnection: bool,
}

/// Why a recording cannot be replayed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is no session.
    #[error("the recording has no message of a session")]
    Empty,
    /// There are several nodes.
    #[error("the recording has {count} nodes ({names}); select one with --node")]
    SeveralNodes {
        /// Their number.
        count: usize,
        /// The first ones.
        names: String,
    },
    /// An answer comes before its request.
    #[error(
        "frame {frame} answers frame {later}, which is later in the recording; the block of frame {frame} begins at byte {offset}"
    )]
    AnswersLater {
        /// The answer.
        frame: u64,
        /// What it answers.
        later: u64,
        /// The offset of the block of the answer.
        offset: u64,
    },
}

impl Plan {
    /// Plans to play one side of a recording.
    ///
    /// # Errors
    /// The recording has no session, several nodes, or messages that depend on later ones.
    pub fn new(script: &Script, side: Side) -> Result<Self, PlanError> {
        let node = only_node(script)?;
        let mut plan = Self {
            side,
            node: node.clone(),
            script: Script::default(),
            steps: Vec::new(),
            masked: Vec::new(),
            requests: 0,
            skipped: script.skipped.values().sum(),
        };
        let mut planner = Planner::new(script);
        for sent in script.sent.iter().filter(|sent| sent.node == node) {
            match sent.transport {
                Transport::WebSocket | Transport::Quic => {}
                // enrolment is done anew
                Transport::Enrolment => continue,
                Transport::Tunnel => {
                    plan.requests += 1;
                    continue;
                }
            }
            let message = sent.message();
            if sent.kind == KEEPALIVE || !planner.is_new(sent, &message) {
                continue;
            }
            let is_ours = sent.from == side;
            let step = planner.step(sent, &message, is_ours)?;
            if is_ours && sent.has_text(MASK) && plan.masked.len() < MAX_MASKED {
                let resource = message.route.resource.to_string();
                if !plan.masked.iter().any(|(_, known)| *known == resource) {
                    plan.masked.push((sent.kind, resource));
                }
            }
            plan.steps.push(step);
            plan.script.sent.push(sent.clone());
        }
        match plan.steps.is_empty() {
            true => Err(PlanError::Empty),
            false => Ok(plan),
        }
    }
}

fn only_node(script: &Script) -> Result<Arc<str>, PlanError> {
    let nodes = script.nodes();
    match &nodes[..] {
        [] => Err(PlanError::Empty),
        [node] => Ok(node.clone()),
        several => Err(PlanError::SeveralNodes {
            count: several.len(),
            names: several[..several.len().min(5)].join(", "),
        }),
    }
}

/// What is known of the messages before a step.
struct Planner {
    /// The frames of all messages by their ids, also of later ones.
    frames: HashMap<String, u64>,
    /// The step of each message id.
    by_id: HashMap<String, usize>,
    /// The step that introduced an id, by the id's hash, and whether it is ours.
    introduced: HashMap<u64, (usize, bool)>,
    /// The last step about an object, ours and theirs.
    about: [HashMap<String, usize>; 2],
    connections: HashSet<u64>,
    count: usize,
}

impl Planner {
    fn new(script: &Script) -> Self {
        let mut frames = HashMap::new();
        for sent in &script.sent {
            let id = sent.message().header.msg_id;
            frames.entry(id).or_insert(sent.frame);
        }
        Self {
            frames,
            by_id: HashMap::new(),
            introduced: HashMap::new(),
            about: [HashMap::new(), HashMap::new()],
            connections: HashSet::new(),
            count: 0,
        }
    }

    /// Reports whether a message was not sent before with the same id.
    fn is_new(&self, sent: &Sent, message: &Message) -> bool {
        let id = &message.header.msg_id;
        id.is_empty() || self.frames.get(id) == Some(&sent.frame)
    }

    fn step(&mut self, sent: &Sent, message: &Message, is_ours: bool) -> Result<Step, PlanError> {
        let number = self.count;
        self.count += 1;
        let parent = &message.header.parent_msg_id;
        let answers = self.by_id.get(parent).copied();
        if let (None, Some(later)) = (answers, self.frames.get(parent))
            && !parent.is_empty()
            && *later >= sent.frame
        {
            return Err(PlanError::AnswersLater {
                frame: sent.frame,
                later: *later,
                offset: sent.offset,
            });
        }
        let mut needs = Vec::new();
        let names = Names::default();
        let ids = tokens(&sent.text, &names).into_iter().filter_map(|token| {
            let mut hasher = DefaultHasher::new();
            match token {
                Token::Id(id) => id.hash(&mut hasher),
                _ => return None,
            }
            Some(hasher.finish())
        });
        for id in ids.take(MAX_IDS) {
            let (first, is_of_us) = *self.introduced.entry(id).or_insert((number, is_ours));
            if first != number && is_of_us != is_ours && !needs.contains(&first) {
                needs.push(first);
            }
        }
        let subject = subject(message);
        let others = &self.about[usize::from(is_ours)];
        let follows = subject
            .as_ref()
            .and_then(|subject| others.get(subject).copied());
        if let Some(subject) = subject {
            self.about[usize::from(!is_ours)].insert(subject, number);
        }
        self.by_id.insert(message.header.msg_id.clone(), number);
        let is_reconnection =
            self.connections.insert(sent.connection) && self.connections.len() > 1;
        Ok(Step {
            is_ours,
            answers,
            needs,
            follows,
            is_reconnection,
        })
    }
}

/// Returns the object that a message is about; a status is about its object.
fn subject(message: &Message) -> Option<String> {
    let object = message.route.resource.as_object()?;
    let kind = match &object.kind {
        ResourceType::Event => return None,
        ResourceType::PodPatch | ResourceType::PodStatus => ResourceType::Pod,
        ResourceType::NodePatch | ResourceType::NodeStatus => ResourceType::Node,
        kind => kind.clone(),
    };
    let namespace = object.namespace.unwrap_or_default();
    Some(format!("{namespace}/{kind}/{}", object.name?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{script, session};

    fn plan(side: Side) -> Plan {
        Plan::new(&script("edge-1", &session()), side).unwrap()
    }

    #[test]
    fn messages_depend_on_those_that_they_answer_and_whose_ids_they_have() {
        // without the keepalive: 0 registration, 1 response, 2 pod, 3 ack, 4 status, 5 event, 6 update, 7 ack, 8 delete, 9 ack
        let steps = plan(Side::Edge).steps;
        assert_eq!(steps.len(), 10);
        let ours: Vec<bool> = steps.iter().map(|step| step.is_ours).collect();
        assert_eq!(
            ours,
            [
                true, false, false, true, true, true, false, true, false, true
            ]
        );
        assert_eq!(
            steps[0],
            Step {
                is_ours: true,
                ..Step::default()
            }
        );
        assert_eq!(steps[3].answers, Some(2));
        // the status has the pod's UID, and so has the event
        assert_eq!((&steps[4].needs[..], steps[4].follows), (&[2][..], Some(2)));
        assert_eq!(steps[5].needs, [2]);
        let steps = plan(Side::Cloud).steps;
        assert_eq!(steps[1].answers, Some(0));
        assert_eq!(steps[6].follows, Some(4));
    }

    #[test]
    fn what_cannot_be_planned_has_a_named_error() {
        assert_eq!(
            Plan::new(&Script::default(), Side::Edge).unwrap_err(),
            PlanError::Empty
        );
        let mut cyclic = session();
        let (first, second) = (
            cyclic[1].1.header.msg_id.clone(),
            cyclic[2].1.header.msg_id.clone(),
        );
        cyclic[1].1.header.parent_msg_id = second;
        cyclic[2].1.header.parent_msg_id = first;
        let error = Plan::new(&script("edge-1", &cyclic), Side::Edge).unwrap_err();
        assert!(
            error.to_string().contains("frame 2 answers frame 3"),
            "{error}"
        );
        let mut itself = session();
        itself[3].1.header.parent_msg_id = itself[3].1.header.msg_id.clone();
        let error = Plan::new(&script("edge-1", &itself), Side::Edge).unwrap_err();
        assert!(
            error.to_string().contains("frame 4 answers frame 4"),
            "{error}"
        );
        let mut two = script("edge-1", &session());
        two.sent.extend(script("edge-2", &session()).sent);
        let error = Plan::new(&two, Side::Edge).unwrap_err();
        assert!(
            error.to_string().contains("2 nodes (edge-1, edge-2)"),
            "{error}"
        );
    }
}
