//! Compares two recordings by meaning.
//!
//! Messages of the same node, side, kind and resource are aligned. Ids, times, revisions and generated names may differ, but an id must
//! stand for the same id everywhere. A state that is sent again without a change counts once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use record::{Side, redact::Redactor};
use serde::Serialize;
use serde_json::Value;
use wire::{Message, Operation};

use crate::{
    align::{Alignment, Hashes, align},
    content::{Comparer, Ids, Path, expand, find, generated_name, hash_value, path_text},
    script::{Script, Sent},
    text::{Names, canonical},
};

/// The kind of which a repetition without a change is ignored, with its answers.
const STATE: &str = "pod";
/// Kinds of which only the latest state counts, with its answer: the sender skips states that were replaced before they were sent, so how
/// many arrive depends on timing.
const LATEST: [&str; 4] = ["node-status", "pod-status", "node", ACCESS];
/// The kind of which an update may have replaced the insert before it was sent: a controller writes such an object in two steps.
const ACCESS: &str = "service-account-access";
/// The kind that is ignored.
pub(crate) const KEEPALIVE: &str = "keepalive";
/// The kind whose updates are ignored, with their answers.
const LEASE: &str = "lease";
/// The most differences that are described; all are counted.
const MAX_DIFFERENCES: usize = 10_000;
/// A longer value is not repeated in a difference, bytes of JSON.
const MAX_VALUE: usize = 4096;

/// How two recordings differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The differences, in the order of the first recording.
    pub differences: Vec<Difference>,
    /// Further differences, which are only counted.
    pub more: u64,
    /// Messages that have a counterpart.
    pub compared: u64,
    /// Values that were not compared, because one of them is `***`.
    pub masked: u64,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Only the first recording has the message.
    Missing,
    /// Only the second recording has the message.
    Additional,
    /// The order of two messages about the same resource.
    Order,
    /// The content.
    Content,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What differs.
    pub sort: Sort,
    /// The node in the first recording, or of an additional message.
    pub node: String,
    /// The side that sent the message.
    pub from: Side,
    /// The kind of message.
    pub kind: &'static str,
    /// The operation.
    pub operation: String,
    /// The resource.
    pub resource: String,
    /// The number of the frame in the first recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The number of the frame in the second recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<u64>,
    /// The frame that the message answers, in the first recording; of an additional message, in the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
    /// The values that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// Values that differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The place in the message, as `.content.spec.nodeName`.
    pub path: String,
    /// The value in the first recording; `None` if it has none.
    pub first: Option<Value>,
    /// The value in the second recording.
    pub second: Option<Value>,
}

/// One of the recordings.
struct View<'s> {
    script: &'s Script,
    /// The names of each node.
    names: HashMap<&'s str, Names>,
    /// The frame of each message id.
    frames: HashMap<String, u64>,
    /// The id of each message, by its place.
    ids: Vec<String>,
    /// The messages of each sequence, by their places.
    sequences: BTreeMap<SequenceKey, Sequence>,
}

/// Places of messages, with their meaning.
type Sequence = Vec<(usize, Hashes)>;

/// What the messages of a sequence have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SequenceKey {
    node: usize,
    from_cloud: bool,
    kind: &'static str,
    resource: String,
}

/// Compares two recordings.
pub fn compare(first: &Script, second: &Script) -> Comparison {
    compare_from(first, second, None)
}

/// Compares what one side sent. What the other one sent is only used to map ids.
pub fn compare_side(first: &Script, second: &Script, side: Side) -> Comparison {
    compare_from(first, second, Some(side))
}

fn compare_from(first: &Script, second: &Script, side: Option<Side>) -> Comparison {
    let nodes = pair_nodes(first, second);
    let generated = pair_generated(first, second);
    let views: [View<'_>; 2] = [0, 1].map(|which| {
        let script = [first, second][which];
        let names = nodes.iter().filter_map(|pair| {
            let names = Names {
                node: pair[which]?.to_owned(),
                generated: generated[which].clone(),
            };
            Some((pair[which]?, names))
        });
        View::new(script, names.collect(), |node| {
            nodes.iter().position(|pair| pair[which] == Some(node))
        })
    });
    let places = align_all(&views);
    Describer {
        views: &views,
        side,
        ids: Ids::default(),
        result: Comparison::default(),
    }
    .describe(places)
}

/// Returns which node of the second recording is which of the first: the one of the same name, or the next one.
fn pair_nodes<'s>(first: &'s Script, second: &'s Script) -> Vec<[Option<&'s str>; 2]> {
    let [a, b]: [BTreeSet<&str>; 2] =
        [first, second].map(|script| script.sent.iter().map(|sent| &*sent.node).collect());
    let both = a.intersection(&b).map(|name| [Some(*name); 2]);
    let mut left = a.difference(&b).copied();
    let mut right = b.difference(&a).copied();
    let rest = std::iter::from_fn(|| match [left.next(), right.next()] {
        [None, None] => None,
        pair => Some(pair),
    });
    both.chain(rest).collect()
}

/// Returns a common text for each generated name of both recordings: the name itself if both have it, or else the prefix and a number in
/// the order of appearance.
fn pair_generated(first: &Script, second: &Script) -> [Arc<HashMap<String, String>>; 2] {
    let [a, b] = [first, second].map(generated_names);
    let [known_a, known_b]: [HashSet<&String>; 2] =
        [&a, &b].map(|names| names.iter().map(|(name, _)| name).collect());
    [(&a, &known_b), (&b, &known_a)].map(|(names, others)| {
        let mut numbers = HashMap::<&str, u32>::new();
        let mut result = HashMap::new();
        for (name, prefix) in names {
            let common = if others.contains(name) {
                name.clone()
            } else {
                let prefix = &name[..*prefix];
                let number = numbers.entry(prefix).or_default();
                *number += 1;
                format!("{prefix}*{number}")
            };
            result.insert(name.clone(), common);
        }
        Arc::new(result)
    })
}

/// Returns the names that `generateName` led to, in the order of appearance, with the length of the prefix.
fn generated_names(script: &Script) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for sent in &script.sent {
        if !sent.has_text("generateName") {
            continue;
        }
        let message = sent.message();
        if let Some((name, prefix)) = generated_name(&message)
            && seen.insert(name.to_owned())
        {
            found.push((name.to_owned(), prefix.len()));
        }
    }
    found
}

impl<'s> View<'s> {
    fn new(
        script: &'s Script,
        names: HashMap<&'s str, Names>,
        number: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let mut view = Self {
            script,
            names,
            frames: HashMap::new(),
            ids: Vec::with_capacity(script.sent.len()),
            sequences: BTreeMap::new(),
        };
        let numbers: HashMap<&str, usize> = view
            .names
            .keys()
            .filter_map(|node| Some((*node, number(node)?)))
            .collect();
        // the ids of messages that do not count, and neither do their answers
        let mut repeated = latest_only(script);
        for (place, sent) in script.sent.iter().enumerate() {
            let message = sent.message();
            view.ids.push(message.header.msg_id.clone());
            if sent.kind == KEEPALIVE {
                continue;
            }
            // how often a lease is renewed depends on time only
            if sent.kind == LEASE && message.route.operation == Operation::Update {
                repeated.insert(message.header.msg_id);
                continue;
            }
            let (id, parent) = (&message.header.msg_id, &message.header.parent_msg_id);
            if repeated.contains(id) {
                continue;
            }
            // the same message again: it was not acknowledged in time
            let is_resent = !id.is_empty()
                && *view.frames.entry(id.clone()).or_insert(sent.frame) != sent.frame;
            if is_resent || repeated.contains(parent) {
                continue;
            }
            let names = &view.names[&*sent.node];
            let key = SequenceKey {
                node: numbers.get(&*sent.node).copied().unwrap_or_default(),
                from_cloud: sent.from == Side::Cloud,
                kind: sent.kind,
                resource: resource_key(sent.kind, &message, names),
            };
            let hash = hash_message(sent.kind, &message, names);
            let sequence = view.sequences.entry(key).or_default();
            let is_repeated = sequence.last().is_some_and(|(_, last)| *last == hash);
            if is_repeated && sent.kind == STATE {
                repeated.insert(message.header.msg_id);
            } else {
                sequence.push((place, hash));
            }
        }
        view
    }

    fn message_at(&self, place: usize) -> &'s Sent {
        &self.script.sent[place]
    }
}

/// Returns the ids of states that were replaced by a later one over the same kind of connection.
fn latest_only(script: &Script) -> HashSet<String> {
    let mut latest = HashMap::<_, String>::new();
    let mut replaced = HashSet::new();
    for sent in script
        .sent
        .iter()
        .filter(|sent| LATEST.contains(&sent.kind))
    {
        let Message { header, route, .. } = sent.message();
        let state = (
            sent.node.clone(),
            sent.from == Side::Cloud,
            sent.kind,
            route.resource.to_string(),
            operation(sent.kind, &route.operation).to_string(),
        );
        if header.msg_id.is_empty() {
            continue;
        }
        // the same message may be sent again
        if let Some(before) = latest.insert(state, header.msg_id.clone())
            && before != header.msg_id
        {
            replaced.insert(before);
        }
    }
    replaced
}

/// Returns the resource without what differs from session to session. The name of an event is only a number, so its reason tells events of
/// one object apart.
pub(crate) fn resource_key(kind: &str, message: &Message, names: &Names) -> String {
    let mut key = canonical(message.route.resource.as_str(), names).into_owned();
    if kind == "event" {
        let reason = message.content.get("reason").and_then(Value::as_str);
        key.push(' ');
        key.push_str(&canonical(reason.unwrap_or_default(), names));
    }
    key
}

/// Returns the operation of a message, in the form in which it is compared.
fn operation<'m>(kind: &str, operation: &'m Operation) -> &'m Operation {
    match operation {
        Operation::Insert if kind == ACCESS => &Operation::Update,
        other => other,
    }
}

/// Returns the hashes of the operation and of the meaning.
fn hash_message(kind: &str, message: &Message, names: &Names) -> Hashes {
    let operation = Value::from(operation(kind, &message.route.operation).as_str());
    let route = serde_json::json!([
        message.route.source,
        message.route.group,
        operation,
        message.header.parent_msg_id.is_empty(),
        message.header.resource_version.is_empty(),
        hash_value("content", &message.content, names, 0),
    ]);
    let operation = hash_value("", &operation, names, 0);
    (operation, hash_value("", &route, names, 0))
}

/// The places of a message in both recordings, and how it differs.
type Pairing = (Option<usize>, Option<usize>, bool);

/// Aligns all sequences. The result is in the order of the first recording; an additional message follows the one that it follows in the
/// second recording.
fn align_all(views: &[View<'_>; 2]) -> Vec<Pairing> {
    let [first, second] = views;
    let keys: BTreeSet<&SequenceKey> = first
        .sequences
        .keys()
        .chain(second.sequences.keys())
        .collect();
    let mut found: Vec<Pairing> = Vec::new();
    for key in keys {
        let [a, b] = [first, second].map(|view| view.sequences.get(key).map_or(&[][..], |all| all));
        let hashes =
            |all: &[(usize, Hashes)]| all.iter().map(|(_, hash)| *hash).collect::<Vec<_>>();
        let Alignment {
            pairs,
            moved,
            missing,
            additional,
        } = align(&hashes(a), &hashes(b));
        let pair = |(x, y): (usize, usize), is_moved| (Some(a[x].0), Some(b[y].0), is_moved);
        found.extend(pairs.into_iter().map(|both| pair(both, false)));
        found.extend(moved.into_iter().map(|both| pair(both, true)));
        found.extend(missing.into_iter().map(|x| (Some(a[x].0), None, false)));
        found.extend(additional.into_iter().map(|y| (None, Some(b[y].0), false)));
    }
    // an additional message gets the place of its predecessor
    found.sort_unstable_by_key(|(_, second, _)| *second);
    let mut last = None;
    let place = |pairing: Pairing| match pairing {
        (Some(a), second, _) => {
            last = second.map_or(last, |_| Some(a));
            ((Some(a), false, 0), pairing)
        }
        (None, second, _) => ((last, true, second.unwrap_or_default()), pairing),
    };
    let mut ordered: Vec<_> = found.into_iter().map(place).collect();
    ordered.sort_unstable_by_key(|(order, _)| *order);
    ordered.into_iter().map(|(_, pairing)| pairing).collect()
}

/// Compares the contents of what was aligned, and describes the differences.
struct Describer<'v, 's> {
    views: &'v [View<'s>; 2],
    side: Option<Side>,
    ids: Ids,
    result: Comparison,
}

impl Describer<'_, '_> {
    fn describe(mut self, pairings: Vec<Pairing>) -> Comparison {
        // first, so that an answer to another message is found at the answer
        for (first, second, _) in &pairings {
            if let (Some(a), Some(b)) = (first, second) {
                let [first, second] = self.views;
                self.ids.bind(&first.ids[*a], &second.ids[*b]);
            }
        }
        for (first, second, is_moved) in pairings {
            match (first, second) {
                (Some(a), Some(b)) => self.pair(a, b, is_moved),
                (Some(a), None) => self.add(Sort::Missing, Some(a), None, Vec::new()),
                (None, Some(b)) => self.add(Sort::Additional, None, Some(b), Vec::new()),
                (None, None) => {}
            }
        }
        self.result
    }

    fn is_wanted(&self, from: Side) -> bool {
        self.side.is_none_or(|side| side == from)
    }

    fn pair(&mut self, a: usize, b: usize, is_moved: bool) {
        let [first, second] = self.views;
        let sent = [first.message_at(a), second.message_at(b)];
        let messages = sent.map(Sent::message);
        let names = [&first.names[&*sent[0].node], &second.names[&*sent[1].node]];
        let mut comparer = Comparer::new(names, &mut self.ids);
        compare_messages(sent[0].kind, &mut comparer, &messages);
        let (masked, paths) = (comparer.masked, comparer.changes);
        if self.is_wanted(sent[0].from) {
            self.result.masked += masked;
            self.result.compared += 1;
        }
        if is_moved {
            self.add(Sort::Order, Some(a), Some(b), Vec::new());
        }
        if !paths.is_empty() {
            self.add(Sort::Content, Some(a), Some(b), changes(messages, &paths));
        }
    }

    fn add(&mut self, sort: Sort, a: Option<usize>, b: Option<usize>, changes: Vec<Change>) {
        let sents = [
            a.map(|place| self.views[0].message_at(place)),
            b.map(|place| self.views[1].message_at(place)),
        ];
        let Some(sent) = sents[0].or(sents[1]) else {
            return;
        };
        if !self.is_wanted(sent.from) {
            return;
        }
        if self.result.differences.len() == MAX_DIFFERENCES {
            self.result.more += 1;
            return;
        }
        let Message { header, route, .. } = sent.message();
        let view = &self.views[usize::from(a.is_none())];
        self.result.differences.push(Difference {
            sort,
            node: sent.node.to_string(),
            from: sent.from,
            kind: sent.kind,
            operation: route.operation.to_string(),
            resource: route.resource.to_string(),
            first: sents[0].map(|sent| sent.frame),
            second: sents[1].map(|sent| sent.frame),
            answers: view.frames.get(&header.parent_msg_id).copied(),
            changes,
        });
    }
}

/// Compares header, route and content.
pub(crate) fn compare_messages(kind: &str, comparer: &mut Comparer<'_>, [a, b]: &[Message; 2]) {
    let parents = [&a.header.parent_msg_id, &b.header.parent_msg_id];
    comparer.id("parent_msg_id", parents[0], parents[1]);
    let [first, second] = [a, b].map(|message| {
        let mut route = message.route.clone();
        route.operation = operation(kind, &route.operation).clone();
        serde_json::json!({
            "header": {"resourceVersion": message.header.resource_version},
            "route": route,
        })
    });
    comparer.field("header", &first["header"], &second["header"]);
    comparer.field("route", &first["route"], &second["route"]);
    comparer.field("content", &a.content, &b.content);
}

/// Returns the values at these places, without secrets.
fn changes(messages: [Message; 2], paths: &[Path]) -> Vec<Change> {
    let [first, second] = messages.map(|mut message| {
        Redactor::default().message(&mut message);
        let mut value = serde_json::json!({
            "route": message.route,
            "content": message.content,
            "parent_msg_id": message.header.parent_msg_id,
            "header": {"resourceVersion": message.header.resource_version},
        });
        expand(&mut value, 0);
        value
    });
    let value = |message: &Value, path: &Path| {
        let value = find(message, path)?;
        let size = value.to_string().len();
        Some(match size > MAX_VALUE {
            true => Value::from(format!("({size} bytes)")),
            false => value.clone(),
        })
    };
    paths
        .iter()
        .map(|path| Change {
            path: path_text(path),
            first: value(&first, path),
            second: value(&second, path),
        })
        .collect()
}
