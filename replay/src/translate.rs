//! Translates between a recording and the session that replays it: ids, names, times and revisions. Pure.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{Timestamp, tz::Offset};
use record::Side;
use serde_json::Value;
use wire::Message;

use crate::{
    compare::compare_messages,
    content::{Comparer, Ids, generated_name, parse_embedded},
    text::{Names, Token, tokens},
};

/// The field with an object's revision.
const REVISION: &str = "resourceVersion";

/// What is known of the other side.
pub(crate) struct Translator {
    side: Side,
    pub(crate) recorded: Names,
    pub(crate) actual: Names,
    ids: Ids,
    /// Recorded revisions, and the other side's. Only a cloud has revisions of its own.
    revisions: HashMap<String, String>,
    /// Generated names, recorded and of the other side.
    names: HashMap<String, String>,
    /// The time of the replay less that of the recording, nanoseconds.
    delay: i128,
}

impl Translator {
    pub(crate) fn new(side: Side, nodes: [&str; 2], delay: i128) -> Self {
        let names = |node: &str| Names {
            node: node.to_owned(),
            ..Names::default()
        };
        Self {
            side,
            recorded: names(nodes[0]),
            actual: names(nodes[1]),
            ids: Ids::default(),
            revisions: HashMap::new(),
            names: HashMap::new(),
            delay,
        }
    }

    /// Learns from a recorded message and its counterpart.
    pub(crate) fn learn(&mut self, recorded: &Message, actual: &Message) {
        if let (Some(first), Some(second)) = (generated_name(recorded), generated_name(actual))
            && self.may_be(first.0, second.0)
        {
            self.names.insert(first.0.to_owned(), second.0.to_owned());
            let name = first.0.to_owned();
            Arc::make_mut(&mut self.actual.generated).insert(second.0.to_owned(), name.clone());
            Arc::make_mut(&mut self.recorded.generated).insert(name.clone(), name);
        }
        self.learn_id(recorded, actual);
        let names = [&self.recorded, &self.actual];
        let mut comparer = Comparer::new(names, &mut self.ids);
        compare_messages("", &mut comparer, &[recorded.clone(), actual.clone()]);
        if self.side == Side::Edge {
            self.learn_revisions(&recorded.content, &actual.content);
        }
    }

    /// Learns the id under which a recorded message was sent.
    pub(crate) fn learn_id(&mut self, recorded: &Message, actual: &Message) {
        let id = &recorded.header.msg_id;
        if !id.is_empty() {
            self.ids.bind(id, &actual.header.msg_id);
        }
    }

    /// Reports whether a recorded name may be this name of the other side: they belong together, or neither was seen.
    pub(crate) fn may_be(&self, recorded: &str, actual: &str) -> bool {
        match self.actual.generated.get(actual) {
            Some(name) => name == recorded,
            None => !self.names.contains_key(recorded),
        }
    }

    fn learn_revisions(&mut self, recorded: &Value, actual: &Value) {
        match (recorded, actual) {
            (Value::Object(first), Value::Object(second)) => {
                for (key, first) in first {
                    let Some(second) = second.get(key) else {
                        continue;
                    };
                    match (key == REVISION, first.as_str(), second.as_str()) {
                        (true, Some(first), Some(second)) => {
                            self.revisions.insert(first.to_owned(), second.to_owned());
                        }
                        _ => self.learn_revisions(first, second),
                    }
                }
            }
            (Value::Array(first), Value::Array(second)) => {
                for (first, second) in first.iter().zip(second) {
                    self.learn_revisions(first, second);
                }
            }
            _ => {}
        }
    }

    /// Returns a recorded message for the other side.
    pub(crate) fn translate(&self, recorded: &Message, (id, now_ms): (String, i64)) -> Message {
        let mut message = recorded.clone();
        if !message.header.msg_id.is_empty() {
            message.header.msg_id = id;
        }
        message.header.timestamp = now_ms;
        let parent = &mut message.header.parent_msg_id;
        if let Some(actual) = self.ids.get(parent).filter(|_| !parent.is_empty()) {
            *parent = actual.to_owned();
        }
        message.route.resource = self.text(recorded.route.resource.as_str()).into();
        self.value("content", &mut message.content, 0);
        message
    }

    fn value(&self, key: &str, value: &mut Value, depth: usize) {
        match value {
            Value::String(text) => match parse_embedded(text, depth) {
                Some(mut inner) => {
                    let is_plain = text.starts_with(['{', '[']);
                    self.value(key, &mut inner, depth + 1);
                    *text = match is_plain {
                        true => inner.to_string(),
                        false => STANDARD.encode(inner.to_string()),
                    };
                }
                None => *text = self.text(text),
            },
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.value(key, item, depth)),
            Value::Object(map) => {
                if self.side == Side::Edge
                    && let Some(Value::String(revision)) = map.get(REVISION)
                {
                    match self.revisions.get(revision) {
                        Some(actual) => {
                            map.insert(REVISION.to_owned(), actual.clone().into());
                        }
                        // an update without one has no precondition
                        None if key == "metadata" => {
                            map.remove(REVISION);
                        }
                        None => {}
                    }
                }
                for (key, value) in map {
                    self.value(key, value, depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        for token in tokens(text, &self.recorded) {
            match token {
                Token::Id(id) => result.push_str(self.ids.get(id).unwrap_or(id)),
                Token::Time(time) => match shift(time, self.delay) {
                    Some(time) => result.push_str(&time),
                    None => result.push_str(time),
                },
                Token::Node(_) => result.push_str(&self.actual.node),
                Token::Generated(name, _) => {
                    result.push_str(self.names.get(name).map_or(name, String::as_str));
                }
                Token::Plain(text) => result.push_str(text),
            }
        }
        result
    }
}

/// Moves a time, and keeps the number of digits of its seconds.
fn shift(time: &str, delay: i128) -> Option<String> {
    let before: Timestamp = time.parse().ok()?;
    let after = Timestamp::from_nanosecond(before.as_nanosecond().checked_add(delay)?).ok()?;
    let digits = time.split_once('.').map_or(0, |(_, rest)| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    let zoned = after.to_zoned(Offset::UTC.to_time_zone());
    let seconds = zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let nanoseconds = format!("{:09}", after.subsec_nanosecond());
    Some(match digits {
        0 => format!("{seconds}Z"),
        digits => format!(
            "{seconds}.{}Z",
            nanoseconds.get(..digits).unwrap_or(&nanoseconds)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_moved() {
        let hour = 3_600_000_000_000;
        for (time, expected) in [
            ("2026-11-29T12:35:30Z", "2026-11-29T13:35:30Z"),
            ("2026-11-29T12:35:30.5Z", "2026-11-29T13:35:30.5Z"),
            ("2026-11-29T12:35:30.821017Z", "2026-11-29T13:35:30.821017Z"),
            ("2026-11-29T12:35:30+01:00", "2026-11-29T12:35:30Z"),
        ] {
            assert_eq!(shift(time, hour).as_deref(), Some(expected));
        }
        assert_eq!(shift("9999-12-31T23:59:59Z", i128::MAX), None);
        assert_eq!(shift("2026-99-29T12:35:30Z", 0), None);
    }
}
