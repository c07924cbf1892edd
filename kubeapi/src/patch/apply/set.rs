//! Sets of fields in the format of `fieldsV1`.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value, json};

use crate::patch::merge_schema::KeyField;

/// One step of a path, in the notation of `fieldsV1`: `f:spec`, `k:{"name":"web"}`, `v:"x"`, `i:0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step(Box<str>);

impl Step {
    pub(super) fn field(name: &str) -> Self {
        // The capacity is exact: there is one step for each field of each object that is written.
        let mut text = String::with_capacity(name.len() + 2);
        text.push_str("f:");
        text.push_str(name);
        Self(text.into())
    }

    pub(super) fn value(value: &Value) -> Self {
        Self(format!("v:{value}").into())
    }

    /// Returns the step to an item of a list with keys; the error is the key that the item lacks.
    pub(super) fn item<'a>(keys: &[KeyField<'a>], item: &Value) -> Result<Self, &'a str> {
        let mut found = BTreeMap::new();
        for (key, default) in keys {
            let value = item
                .get(key)
                .filter(|value| !value.is_null())
                .or(default.as_ref())
                .ok_or(*key)?;
            found.insert(*key, value);
        }
        Ok(Self(format!("k:{}", json!(found)).into()))
    }

    /// Parses a stored step; returns `None` if it is invalid.
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" | "i" => Some(Self(text.into())),
            "v" => Some(Self::value(&serde_json::from_str(rest).ok()?)),
            "k" => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self(format!("k:{}", json!(keys)).into()))
            }
            _ => None,
        }
    }
}

/// The format of messages: `.spec`, `[name="web"]`, `[="x"]`, `[0]`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once(':') {
            Some(("f", name)) => write!(f, ".{name}"),
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<_> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                write!(f, "[{}]", keys.join(","))
            }
            Some(("v", value)) => write!(f, "[={value}]"),
            Some((_, rest)) => write!(f, "[{rest}]"),
            None => Ok(()),
        }
    }
}

/// A set of paths in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Whether the path of this node itself belongs to the set.
    member: bool,
    inner: BTreeMap<Step, Set>,
}

impl Set {
    /// Returns a set with only its own path.
    pub(super) fn leaf() -> Self {
        Self {
            member: true,
            inner: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.inner.values().all(Self::is_empty)
    }

    pub(super) fn is_member(&self) -> bool {
        self.member
    }

    pub(super) fn get(&self, step: &Step) -> Option<&Self> {
        self.inner.get(step)
    }

    /// Returns the set below `step`, which is created if it is missing.
    pub(super) fn below(&mut self, step: Step) -> &mut Self {
        self.inner.entry(step).or_default()
    }

    pub(super) fn add(&mut self) {
        self.member = true;
    }

    /// Adds `set` below `step`.
    pub(super) fn put(&mut self, step: Step, set: Self) {
        if !set.is_empty() {
            self.below(step).join(set);
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.member |= other.member;
        for (step, set) in other.inner {
            self.put(step, set);
        }
    }

    /// Returns the intersection of both.
    pub(super) fn common(&self, other: &Self) -> Self {
        let mut common = Self {
            member: self.member && other.member,
            inner: BTreeMap::new(),
        };
        for (step, set) in &self.inner {
            if let Some(other) = other.inner.get(step) {
                common.put(step.clone(), set.common(other));
            }
        }
        common
    }

    /// Removes the members of `other`.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.member &= !other.member;
        self.inner.retain(|step, set| {
            other.inner.get(step).inspect(|other| set.subtract(other));
            !set.is_empty()
        });
    }

    /// Removes the members of `roots` and everything below them.
    pub(super) fn remove_below(&mut self, roots: &Self) {
        if roots.member {
            *self = Self::default();
            return;
        }
        self.inner.retain(|step, set| {
            roots
                .inner
                .get(step)
                .inspect(|roots| set.remove_below(roots));
            !set.is_empty()
        });
    }

    /// Returns the members as paths in the format of messages.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        if self.member {
            paths.push(String::new());
        }
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    /// Collects the members below `path`: those of each level before those of the next.
    fn collect(&self, path: &mut String, paths: &mut Vec<String>) {
        let members = self.inner.iter().filter(|(_, set)| set.member);
        paths.extend(members.map(|(step, _)| format!("{path}{step}")));
        for (step, set) in &self.inner {
            let length = path.len();
            path.push_str(&step.to_string());
            set.collect(path, paths);
            path.truncate(length);
        }
    }

    /// Parses `fieldsV1`; leaves out what is invalid.
    pub(super) fn read(fields: &Map<String, Value>) -> Self {
        let mut set = Self {
            member: fields.is_empty() || fields.contains_key("."),
            inner: BTreeMap::new(),
        };
        for (name, value) in fields {
            if let (Some(step), Value::Object(inner)) = (Step::parse(name), value) {
                set.put(step, Self::read(inner));
            }
        }
        set
    }

    /// Returns the set as `fieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.inner.is_empty() {
            fields.insert(".".to_owned(), json!({}));
        }
        for (step, set) in &self.inner {
            fields.insert(step.0.to_string(), set.write());
        }
        Value::Object(fields)
    }
}
