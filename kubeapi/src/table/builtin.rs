//! Rows of the smaller kinds.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    age,
    cells::{name, since_creation},
    printer::{AGE, Column, NAME, Printer, default_column, wide},
};
use crate::object::{items, text_or_empty};

pub(super) const NAMESPACE: Printer = Printer {
    columns: &[NAME, default_column("Status"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            text_or_empty(object, "/status/phase").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const CONFIG_MAP: Printer = Printer {
    columns: &[NAME, default_column("Data"), AGE],
    cells: |object, now| {
        let keys = size(object, "data") + size(object, "binaryData");
        vec![name(object), keys.into(), since_creation(object, now)]
    },
};

pub(super) const SECRET: Printer = Printer {
    columns: &[NAME, default_column("Type"), default_column("Data"), AGE],
    cells: |object, now| {
        let type_ = text_or_empty(object, "/type").into();
        vec![
            name(object),
            type_,
            size(object, "data").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const SERVICE_ACCOUNT: Printer = Printer {
    columns: &[NAME, default_column("Secrets"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            items(object, "/secrets").len().into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const RUNTIME_CLASS: Printer = Printer {
    columns: &[NAME, default_column("Handler"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            text_or_empty(object, "/handler").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const LEASE: Printer = Printer {
    columns: &[NAME, default_column("Holder"), AGE],
    cells: |object, now| {
        let holder = text_or_empty(object, "/spec/holderIdentity").into();
        vec![name(object), holder, since_creation(object, now)]
    },
};

pub(super) const DEFINITION: Printer = Printer {
    columns: &[NAME, ("Created At", "date", "", 0)],
    cells: |object, _| {
        vec![
            name(object),
            text_or_empty(object, "/metadata/creationTimestamp").into(),
        ]
    },
};

pub(super) const COMPONENT_STATUS: Printer = Printer {
    columns: &[
        NAME,
        default_column("Status"),
        default_column("Message"),
        default_column("Error"),
    ],
    cells: |object, _| {
        let conditions = items(object, "/conditions");
        let healthy = conditions
            .iter()
            .find(|condition| text_or_empty(condition, "/type") == "Healthy");
        let text = |pointer| healthy.map_or("", |condition| text_or_empty(condition, pointer));
        let status = match healthy {
            Some(_) if text("/status") == "True" => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        vec![
            name(object),
            status.into(),
            text("/message").into(),
            text("/error").into(),
        ]
    },
};

/// The printer of both event kinds, whose fields have different names.
pub(super) const EVENT: Printer = Printer {
    columns: EVENT_COLUMNS,
    cells: event,
};

const EVENT_COLUMNS: &[Column] = &[
    default_column("Last Seen"),
    default_column("Type"),
    default_column("Reason"),
    default_column("Object"),
    wide("Subobject"),
    wide("Source"),
    default_column("Message"),
    wide("First Seen"),
    wide("Count"),
    ("Name", "string", "name", 1),
];

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let time = |pointer| object.pointer(pointer).filter(|time| !time.is_null());
    let first = time("/firstTimestamp").or_else(|| time("/deprecatedFirstTimestamp"));
    let first = age::since(first.or_else(|| time("/eventTime")), now);
    let count = object
        .get("count")
        .or_else(|| object.get("deprecatedCount"))
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let (last, count) = match object.get("series").filter(|series| series.is_object()) {
        Some(series) => {
            let count = series
                .get("count")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            (age::since(series.get("lastObservedTime"), now), count)
        }
        // Events of the newer kind happened once unless they have a count.
        None => {
            let last = time("/lastTimestamp").or_else(|| time("/deprecatedLastTimestamp"));
            let last = last.map_or_else(|| first.clone(), |time| age::since(Some(time), now));
            (last, if count == 0 { 1 } else { count })
        }
    };
    let either = |first, second| match text_or_empty(object, first) {
        "" => text_or_empty(object, second),
        text => text,
    };
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text_or_empty(object, "/type").into(),
        text_or_empty(object, "/reason").into(),
        target.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source(object).into(),
        either("/message", "/note").trim().into(),
        first.into(),
        count.into(),
        name(object),
    ]
}

fn source(event: &Value) -> String {
    let first_of = |pointers: &[&str]| {
        let mut texts = pointers.iter().map(|pointer| text_or_empty(event, pointer));
        texts
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let component = first_of(&[
        "/source/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    match first_of(&["/source/host", "/reportingInstance"]).as_str() {
        "" => component,
        host => format!("{component}, {host}"),
    }
}

fn size(object: &Value, field: &str) -> usize {
    object
        .get(field)
        .and_then(Value::as_object)
        .map_or(0, Map::len)
}
