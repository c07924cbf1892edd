//! Rows of the kinds for permissions and priorities.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age,
    cells::{name, since_creation, text_or},
    printer::{AGE, Column, NAME, Printer, boolean, default_column, integer, wide},
};
use crate::object::{items, text_or_empty};

pub(super) const ROLE: Printer = Printer {
    columns: &[NAME, ("Created At", "date", "", 0)],
    cells: |object, _| {
        vec![
            name(object),
            text_or_empty(object, "/metadata/creationTimestamp").into(),
        ]
    },
};

pub(super) const LIMIT_RANGE: Printer = ROLE;

pub(super) const BINDING: Printer = Printer {
    columns: BINDING_COLUMNS,
    cells: binding,
};

const BINDING_COLUMNS: &[Column] = &[
    NAME,
    default_column("Role"),
    AGE,
    wide("Users"),
    wide("Groups"),
    wide("ServiceAccounts"),
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        text_or_empty(object, "/roleRef/kind"),
        text_or_empty(object, "/roleRef/name")
    );
    let subjects = |kind: &str| -> String {
        let subjects = items(object, "/subjects")
            .iter()
            .filter(|subject| text_or_empty(subject, "/kind") == kind);
        let names = subjects.map(|subject| match text_or_empty(subject, "/namespace") {
            namespace if kind == "ServiceAccount" => {
                format!("{namespace}/{}", text_or_empty(subject, "/name"))
            }
            _ => text_or_empty(subject, "/name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    vec![
        name(object),
        role.into(),
        since_creation(object, now),
        subjects("User").into(),
        subjects("Group").into(),
        subjects("ServiceAccount").into(),
    ]
}

pub(super) const DISRUPTION_BUDGET: Printer = Printer {
    columns: &[
        NAME,
        default_column("Min Available"),
        default_column("Max Unavailable"),
        integer("Allowed Disruptions"),
        AGE,
    ],
    cells: |object, now| {
        let amount = |field| match object.pointer(field) {
            Some(Value::String(percent)) => percent.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => "N/A".to_owned(),
        };
        vec![
            name(object),
            amount("/spec/minAvailable").into(),
            amount("/spec/maxUnavailable").into(),
            object
                .pointer("/status/disruptionsAllowed")
                .cloned()
                .unwrap_or_else(|| 0.into()),
            since_creation(object, now),
        ]
    },
};

pub(super) const PRIORITY_CLASS: Printer = Printer {
    columns: &[
        NAME,
        integer("Value"),
        boolean("Global-Default"),
        AGE,
        default_column("PreemptionPolicy"),
    ],
    cells: |object, now| {
        vec![
            name(object),
            object.get("value").cloned().unwrap_or_default(),
            object
                .get("globalDefault")
                .cloned()
                .unwrap_or_else(|| false.into()),
            since_creation(object, now),
            text_or_empty(object, "/preemptionPolicy").into(),
        ]
    },
};

pub(super) const SIGNING_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        AGE,
        default_column("SignerName"),
        default_column("Requestor"),
        default_column("RequestedDuration"),
        default_column("Condition"),
    ],
    cells: |object, now| {
        let seconds = object
            .pointer("/spec/expirationSeconds")
            .and_then(Value::as_i64);
        vec![
            name(object),
            since_creation(object, now),
            text_or(object, "/spec/signerName", "<none>").into(),
            text_or_empty(object, "/spec/username").into(),
            seconds
                .map_or_else(|| "<none>".to_owned(), age::human)
                .into(),
            condition(object).into(),
        ]
    },
};

fn condition(request: &Value) -> String {
    let types: Vec<_> = items(request, "/status/conditions")
        .iter()
        .map(|condition| text_or_empty(condition, "/type"))
        .collect();
    let mut words = ["Approved", "Denied", "Failed"]
        .into_iter()
        .filter(|word| types.contains(word));
    let decided = words.next().unwrap_or("Pending");
    let issued = !text_or_empty(request, "/status/certificate").is_empty();
    if issued {
        format!("{decided},Issued")
    } else {
        decided.to_owned()
    }
}
