//! Where a value is in an object: the value, and the steps that lead to it.

use serde_json::Value;

use crate::cause::Cause;

static ABSENT: Value = Value::Null;

/// A value and the steps that lead to it; `null` if there is none.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The value.
    pub value: &'a Value,
    step: Step<'a>,
    up: Option<&'a Place<'a>>,
}

/// One step of a path.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    /// A field, and the name that messages use for it; the empty name is not shown.
    Field(&'a str, &'a str),
    Item(usize),
    Key(&'a str),
    /// An item that messages do not count.
    Hidden,
}

impl<'a> Place<'a> {
    /// The whole object.
    pub fn root(value: &'a Value) -> Self {
        Self {
            value,
            step: Step::Root,
            up: None,
        }
    }

    /// The field `name`, which messages call `shown`.
    pub fn child(&'a self, name: &'a str, shown: &'a str) -> Self {
        let value = self.value.get(name).unwrap_or(&ABSENT);
        Self {
            value,
            step: Step::Field(name, shown),
            up: Some(self),
        }
    }

    /// The item `value` of this list.
    pub fn item(&'a self, index: usize, value: &'a Value) -> Self {
        Self {
            value,
            step: Step::Item(index),
            up: Some(self),
        }
    }

    /// The item `value` of this list, whose index is not shown.
    pub fn hidden(&'a self, value: &'a Value) -> Self {
        Self {
            value,
            step: Step::Hidden,
            up: Some(self),
        }
    }

    /// The value under `key` of this map.
    pub fn entry(&'a self, key: &'a str, value: &'a Value) -> Self {
        Self {
            value,
            step: Step::Key(key),
            up: Some(self),
        }
    }

    /// The value of the field `name`.
    pub fn get(&self, name: &str) -> &'a Value {
        self.value.get(name).unwrap_or(&ABSENT)
    }

    /// The value at a JSON pointer below this one.
    pub fn pointer(&self, pointer: &str) -> &'a Value {
        self.value.pointer(pointer).unwrap_or(&ABSENT)
    }

    /// The text of the field `name`; empty if there is none.
    pub fn text(&self, name: &str) -> &'a str {
        self.get(name).as_str().unwrap_or_default()
    }

    /// The number of the field `name`.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name).as_i64()
    }

    /// Whether the field `name` is true.
    pub fn is(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or(false)
    }

    /// Whether there is a field `name`.
    pub fn has(&self, name: &str) -> bool {
        !self.get(name).is_null()
    }

    /// The items of the field `name`.
    pub fn items(&self, name: &str) -> &'a [Value] {
        self.get(name).as_array().map_or(&[], Vec::as_slice)
    }

    /// The items of this list.
    pub fn list(&self) -> &'a [Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }

    /// The entries of this map.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// The value of the field `name` beside this one.
    pub fn sibling(&self, name: &str) -> &'a Value {
        self.up.map_or(&ABSENT, |up| up.get(name))
    }

    /// The value of the nearest enclosing field `name`, such as the `spec` around a container; `null` if there is none.
    pub fn nearest(&self, name: &str) -> &'a Value {
        let mut place = Some(self);
        while let Some(here) = place {
            if matches!(here.step, Step::Field(field, _) if field == name) {
                return here.value;
            }
            place = here.up;
        }
        &ABSENT
    }

    /// The key of this value in its map.
    pub fn key(&self) -> &'a str {
        if let Step::Key(key) = self.step {
            key
        } else {
            ""
        }
    }

    /// The nearest enclosing item of a list; the object if there is none.
    pub fn nearest_item(&self) -> Place<'a> {
        match (self.step, self.up) {
            (Step::Item(_), _) | (_, None) => *self,
            (_, Some(up)) => up.nearest_item(),
        }
    }

    /// The whole object.
    pub fn object(&self) -> &'a Value {
        self.up.map_or(self.value, Place::object)
    }

    /// The path as Kubernetes writes it: `spec.containers[0].name`.
    pub fn path(&self) -> String {
        let mut path = self.up.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root | Step::Hidden | Step::Field(_, "") => {}
            Step::Field(_, name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Item(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) => path.push_str(&format!("[{key}]")),
        }
        path
    }

    /// The path of a field below.
    pub fn field(&self, name: &str) -> String {
        let path = self.path();
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    }

    /// A cause about the field `name`.
    pub fn invalid(&self, name: &str, value: &Value, why: &str) -> Cause {
        Cause::invalid(self.field(name), value, why)
    }

    /// A cause about this value.
    pub fn refusal(&self, why: &str) -> Cause {
        Cause::invalid(self.path(), self.value, why)
    }
}
