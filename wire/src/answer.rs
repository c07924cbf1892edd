//! The content of the edge controller's answers: an API response, an object, an error, or `OK`.

use serde_json::{Map, Value, json};

use crate::Operation;

/// The kind of change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The object is new to the node.
    Insert,
    /// The object has changed.
    Update,
    /// The object was deleted.
    Delete,
}

impl Change {
    pub(crate) fn of(operation: &Operation) -> Option<Self> {
        match operation {
            Operation::Insert => Some(Self::Insert),
            Operation::Update => Some(Self::Update),
            Operation::Delete => Some(Self::Delete),
            _ => None,
        }
    }
}

impl From<Change> for Operation {
    fn from(change: Change) -> Self {
        match change {
            Change::Insert => Self::Insert,
            Change::Update => Self::Update,
            Change::Delete => Self::Delete,
        }
    }
}

/// The content of an answer to the edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// `{"Object":…,"Err":…}`: the outcome of a write, or of a lease query.
    Response(ObjectResp),
    /// `{"ErrStatus":…}`: a query failed; a `metav1.Status`.
    Failed(Value),
    /// `"OK"`: the request was carried out.
    Done,
    /// The requested object.
    Found(Value),
}

/// The outcome of an API call that the cloud made for the edge.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectResp {
    /// The object after the call. It often lacks kind and apiVersion; after a failed call it is `null` or blank.
    pub object: Value,
    /// `null`, or the error as Go writes it: `{"ErrStatus": metav1.Status}`, or `{}` for an error of another kind.
    pub err: Value,
}

impl ObjectResp {
    /// Describes a call that succeeded.
    pub fn ok(object: Value) -> Self {
        Self {
            object,
            err: Value::Null,
        }
    }

    /// Describes a call that failed with this `metav1.Status`.
    pub fn failed(status: Value) -> Self {
        Self {
            object: Value::Null,
            err: json!({ "ErrStatus": status }),
        }
    }

    /// Returns the object, or the Status of the failed call.
    pub fn into_result(self) -> Result<Value, Value> {
        match self.err {
            Value::Null => Ok(self.object),
            mut err => Err(err.get_mut("ErrStatus").map(Value::take).unwrap_or_else(|| {
                json!({"status": "Failure", "reason": "InternalError", "code": 500, "message": "the cloud gave no reason"})
            })),
        }
    }
}

impl Answer {
    pub(crate) fn read(content: Value) -> Self {
        match content {
            Value::String(text) if text == "OK" => Self::Done,
            Value::Object(map) => Self::read_object(map),
            other => Self::Found(other),
        }
    }

    fn read_object(mut map: Map<String, Value>) -> Self {
        let is = |names: &[&str]| {
            map.len() == names.len() && names.iter().all(|name| map.contains_key(*name))
        };
        if is(&["ErrStatus"]) {
            return Self::Failed(map.remove("ErrStatus").unwrap_or_default());
        }
        if is(&["Object", "Err"]) {
            let mut take = |name| map.remove(name).unwrap_or_default();
            return Self::Response(ObjectResp {
                object: take("Object"),
                err: take("Err"),
            });
        }
        Self::Found(Value::Object(map))
    }

    pub(crate) fn write(self) -> Value {
        match self {
            Self::Response(ObjectResp { object, err }) => json!({"Object": object, "Err": err}),
            Self::Failed(status) => json!({ "ErrStatus": status }),
            Self::Done => Value::from("OK"),
            Self::Found(object) => object,
        }
    }
}
