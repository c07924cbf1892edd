//! Compares the contents of two messages by meaning: times and revisions are ignored, ids are mapped. Pure.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use record::redact::MASK;
use serde_json::Value;
use wire::Message;

use crate::text::{self, Names, Token};

/// JSON in texts of JSON is read up to this depth.
const MAX_EMBEDDED: usize = 4;
/// The shortest text that is read as base64.
const MIN_BASE64: usize = 16;
/// Shorter texts have no ids or times.
const MIN_TOKENS: usize = 16;
/// Numbers of this size under a key of a time are times, seconds since 1970 or more.
const MIN_TIME: f64 = 1e9;
/// The fields that are ignored: which program wrote which field, and the directory in which a node keeps volumes.
const IGNORED: [&str; 2] = ["managedFields", wire::volumes::DIRECTORY_ANNOTATION];
/// The most differences of one message.
const MAX_CHANGES: usize = 100;

/// A place in a message.
pub(crate) type Path = Vec<PathPart>;

/// A step into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathPart {
    /// A field of an object.
    Field(String),
    /// An item of a list.
    Item(usize),
}

/// Which id of the second recording stands for which of the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    there: HashMap<String, String>,
    back: HashMap<String, String>,
    /// Pairs that contradict the others and were reported.
    reported: HashSet<(String, String)>,
}

impl Ids {
    /// Maps `a` to `b`. Returns false if one of them has another counterpart; each such pair is reported once.
    pub(crate) fn bind(&mut self, a: &str, b: &str) -> bool {
        match (self.there.get(a), self.back.get(b)) {
            (None, None) => {
                self.there.insert(a.to_owned(), b.to_owned());
                self.back.insert(b.to_owned(), a.to_owned());
                true
            }
            (Some(there), Some(back)) if there == b && back == a => true,
            _ => !self.reported.insert((a.to_owned(), b.to_owned())),
        }
    }

    /// Returns the counterpart of an id of the first recording.
    pub(crate) fn get(&self, a: &str) -> Option<&str> {
        self.there.get(a).map(String::as_str)
    }
}

/// Compares the values of two messages, and maps their ids.
pub(crate) struct Comparer<'c> {
    pub(crate) names: [&'c Names; 2],
    pub(crate) ids: &'c mut Ids,
    /// The places that differ.
    pub(crate) changes: Vec<Path>,
    /// Values that could not be compared, because one of them was replaced.
    pub(crate) masked: u64,
    path: Path,
}

impl<'c> Comparer<'c> {
    pub(crate) fn new(names: [&'c Names; 2], ids: &'c mut Ids) -> Self {
        Self {
            names,
            ids,
            changes: Vec::new(),
            masked: 0,
            path: Vec::new(),
        }
    }

    fn differ(&mut self) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(self.path.clone());
        }
    }

    fn within(&mut self, part: PathPart, compare: impl FnOnce(&mut Self)) {
        self.path.push(part);
        compare(self);
        self.path.pop();
    }

    /// Compares two values at the field `key`.
    pub(crate) fn field(&mut self, key: &str, a: &Value, b: &Value) {
        self.within(PathPart::Field(key.to_owned()), |this| {
            this.value(key, a, b, 0);
        });
    }

    /// Compares two ids, whatever their form.
    pub(crate) fn id(&mut self, key: &str, a: &str, b: &str) {
        let is_same = match (a.is_empty(), b.is_empty()) {
            (false, false) => self.ids.bind(a, b),
            (a, b) => a == b,
        };
        if !is_same {
            self.within(PathPart::Field(key.to_owned()), Self::differ);
        }
    }

    fn value(&mut self, key: &str, a: &Value, b: &Value, embedded: usize) {
        match (a, b) {
            (Value::Object(first), Value::Object(second)) => {
                let more = second.keys().filter(|key| !first.contains_key(*key));
                let all = first.keys().chain(more);
                for key in all.filter(|key| !IGNORED.contains(&key.as_str())) {
                    let of = |map: &serde_json::Map<String, Value>| {
                        map.get(key).cloned().unwrap_or_default()
                    };
                    let (a, b) = match (first.get(key), second.get(key)) {
                        (Some(a), Some(b)) => (a, b),
                        _ => (&of(first), &of(second)),
                    };
                    self.within(PathPart::Field(key.clone()), |this| {
                        this.value(key, a, b, embedded);
                    });
                }
            }
            (Value::Array(first), Value::Array(second)) => {
                for place in 0..first.len().max(second.len()) {
                    self.within(PathPart::Item(place), |this| {
                        match (first.get(place), second.get(place)) {
                            (Some(a), Some(b)) => this.value(key, a, b, embedded),
                            _ => this.differ(),
                        }
                    });
                }
            }
            (Value::String(first), Value::String(second)) => {
                self.text(key, first, second, embedded)
            }
            (Value::Number(first), Value::Number(second)) => {
                if first != second && !(is_time(key, first) && is_time(key, second)) {
                    self.differ();
                }
            }
            (a, b) if a == b => {}
            _ => self.differ(),
        }
    }

    fn text(&mut self, key: &str, a: &str, b: &str, depth: usize) {
        if key == "resourceVersion" {
            if a.is_empty() != b.is_empty() {
                self.differ();
            }
            return;
        }
        if let (Some(first), Some(second)) = (parse_embedded(a, depth), parse_embedded(b, depth)) {
            self.value(key, &first, &second, depth + 1);
            return;
        }
        if a == b && a.len() < MIN_TOKENS {
            return;
        }
        if a != b && (is_masked(a, b) || is_masked(b, a)) {
            self.masked += 1;
            return;
        }
        let (durations_a, durations_b);
        let (mut a, mut b) = (a, b);
        if key == "message" {
            (durations_a, durations_b) = (without_durations(a), without_durations(b));
            (a, b) = (&durations_a, &durations_b);
        }
        let [first, second] =
            [(a, self.names[0]), (b, self.names[1])].map(|(text, names)| text::tokens(text, names));
        let is_same = first.len() == second.len()
            && first.iter().zip(&second).all(|(a, b)| match (a, b) {
                (Token::Id(a), Token::Id(b)) => self.ids.bind(a, b),
                (Token::Time(_), Token::Time(_)) | (Token::Node(_), Token::Node(_)) => true,
                (Token::Generated(_, a), Token::Generated(_, b)) => a == b,
                (a, b) => a == b,
            });
        if !is_same {
            self.differ();
        }
    }
}

/// Hashes the meaning of a value: equal for values that [`Comparer`] takes for the same, apart from which id is which.
pub(crate) fn hash_value(key: &str, value: &Value, names: &Names, depth: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => 0.hash(&mut hasher),
        Value::Bool(value) => value.hash(&mut hasher),
        Value::Number(number) => {
            if !is_time(key, number) {
                number.hash(&mut hasher);
            }
        }
        Value::String(_) if key == "resourceVersion" => {}
        Value::String(text) => match parse_embedded(text, depth) {
            Some(value) => return hash_value(key, &value, names, depth + 1),
            None if key == "message" => {
                text::canonical(&without_durations(text), names).hash(&mut hasher);
            }
            None => text::canonical(text, names).hash(&mut hasher),
        },
        Value::Array(items) => {
            for item in items {
                hash_value(key, item, names, depth).hash(&mut hasher);
            }
        }
        Value::Object(map) => {
            // without regard to the order of the fields
            let fields = map
                .iter()
                .filter(|(key, value)| !value.is_null() && !IGNORED.contains(&key.as_str()));
            let sum = fields.fold(0_u64, |sum, (key, value)| {
                let mut field = DefaultHasher::new();
                key.hash(&mut field);
                hash_value(key, value, names, depth).hash(&mut field);
                sum.wrapping_add(field.finish())
            });
            sum.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Replaces JSON in texts by its values, once for all places in it.
pub(crate) fn expand(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => {
            if let Some(mut inner) = parse_embedded(text, depth) {
                expand(&mut inner, depth + 1);
                *value = inner;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, depth)),
        Value::Object(map) => map.values_mut().for_each(|item| expand(item, depth)),
        _ => {}
    }
}

/// Returns the value at a place of an [expanded](expand) value.
pub(crate) fn find<'v>(value: &'v Value, path: &[PathPart]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, part| match part {
        PathPart::Field(name) => value.get(name),
        PathPart::Item(place) => value.get(*place),
    })
}

/// Writes a place as `.a.b[0]`.
pub(crate) fn path_text(path: &[PathPart]) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            PathPart::Item(place) => text.push_str(&format!("[{place}]")),
            PathPart::Field(name) => {
                let is_plain = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
                if name.chars().all(is_plain) && !name.is_empty() {
                    text.push('.');
                    text.push_str(name);
                } else {
                    text.push_str(&format!("[{name:?}]"));
                }
            }
        }
    }
    text
}

/// Returns the JSON object or list that a text contains, also in base64.
pub(crate) fn parse_embedded(text: &str, depth: usize) -> Option<Value> {
    if depth >= MAX_EMBEDDED {
        return None;
    }
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text).ok();
    }
    if text.len() < MIN_BASE64 || !text.starts_with(['e', 'W']) {
        return None;
    }
    let plain = STANDARD.decode(text).ok()?;
    match plain.first()? {
        b'{' | b'[' => serde_json::from_slice(&plain).ok(),
        _ => None,
    }
}

/// Reports whether `text` was replaced, wholly or in part, and may have been `other`.
fn is_masked(text: &str, other: &str) -> bool {
    if text == STANDARD.encode(MASK) {
        return true;
    }
    let Some((begin, rest)) = text.split_once(MASK) else {
        return false;
    };
    let end = rest.rsplit_once(MASK).map_or(rest, |(_, end)| end);
    other.len() >= begin.len() + end.len() && other.starts_with(begin) && other.ends_with(end)
}

/// Reports whether a number is a time in seconds or milliseconds since 1970.
fn is_time(key: &str, number: &serde_json::Number) -> bool {
    let key = key.to_ascii_lowercase();
    (key.ends_with("timestamp") || key.ends_with("time"))
        && number.as_f64().is_some_and(|number| number >= MIN_TIME)
}

/// Replaces durations in the text of an event, such as `pulled in 1.2s`.
fn without_durations(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for word in text.split_inclusive([' ', '(', ')', ',']) {
        let inner = word.trim_end_matches([' ', '(', ')', ',']);
        let number = inner.trim_end_matches(|letter: char| "mshuµn".contains(letter));
        let is_duration = inner.len() > number.len()
            && number.starts_with(|letter: char| letter.is_ascii_digit())
            && number
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '.' || "mh".contains(letter));
        match is_duration {
            true => {
                result.push_str("<duration>");
                result.push_str(&word[inner.len()..]);
            }
            false => result.push_str(word),
        }
    }
    result
}

/// Returns the name of the object in a message, and its prefix, if the name was generated.
pub(crate) fn generated_name(message: &Message) -> Option<(&str, &str)> {
    let of = |metadata: &'_ Value| {
        metadata
            .get("generateName")
            .and_then(Value::as_str)
            .is_some()
    };
    let metadata = [
        &message.content["metadata"],
        &message.content["Object"]["metadata"],
    ];
    let metadata = metadata.into_iter().find(|metadata| of(metadata))?;
    let (name, prefix) = (
        metadata["name"].as_str()?,
        metadata["generateName"].as_str()?,
    );
    (name.len() > prefix.len() && name.starts_with(prefix)).then_some((name, prefix))
}
