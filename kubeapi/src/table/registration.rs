//! Rows of admission policies, webhooks, flow control and registered API services.

use serde_json::Value;

use super::{
    cells::{name, since_creation, text_or},
    printer::{AGE, NAME, Printer, default_column},
};
use crate::object::{items, text, text_or_empty};

pub(super) const VALIDATING_POLICY: Printer = Printer {
    columns: &[
        NAME,
        ("Validations", "integer", "", 0),
        default_column("ParamKind"),
        AGE,
    ],
    cells: |object, now| {
        let validations = items(object, "/spec/validations").len();
        vec![
            name(object),
            validations.into(),
            parameter_kind(object),
            since_creation(object, now),
        ]
    },
};

pub(super) const MUTATING_POLICY: Printer = Printer {
    columns: &[
        NAME,
        ("Mutations", "integer", "", 0),
        default_column("ParamKind"),
        AGE,
    ],
    cells: |object, now| {
        let mutations = items(object, "/spec/mutations").len();
        vec![
            name(object),
            mutations.into(),
            parameter_kind(object),
            since_creation(object, now),
        ]
    },
};

fn parameter_kind(policy: &Value) -> Value {
    match (
        text(policy, "/spec/paramKind/apiVersion"),
        text(policy, "/spec/paramKind/kind"),
    ) {
        (Some(version), Some(kind)) => format!("{version}/{kind}").into(),
        _ => "<unset>".into(),
    }
}

pub(super) const POLICY_BINDING: Printer = Printer {
    columns: &[
        NAME,
        default_column("PolicyName"),
        default_column("ParamRef"),
        AGE,
    ],
    cells: |object, now| {
        let policy = text_or_empty(object, "/spec/policyName").into();
        let parameter = match (
            text(object, "/spec/paramRef/namespace"),
            text(object, "/spec/paramRef/name"),
        ) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => format!("*/{name}"),
            _ => "<unset>".to_owned(),
        };
        vec![
            name(object),
            policy,
            parameter.into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const WEBHOOKS: Printer = Printer {
    columns: &[NAME, ("Webhooks", "integer", "", 0), AGE],
    cells: |object, now| {
        vec![
            name(object),
            items(object, "/webhooks").len().into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const API_SERVICE: Printer = Printer {
    columns: &[
        NAME,
        default_column("Service"),
        default_column("Available"),
        AGE,
    ],
    cells: |object, now| {
        let service = match text(object, "/spec/service/name") {
            Some(name) => format!(
                "{}/{name}",
                text_or_empty(object, "/spec/service/namespace")
            ),
            None => "Local".to_owned(),
        };
        let available = items(object, "/status/conditions")
            .iter()
            .find(|condition| text_or_empty(condition, "/type") == "Available");
        let available = match available {
            Some(condition) if text_or_empty(condition, "/status") == "True" => "True".to_owned(),
            Some(condition) => {
                let (status, why) = (
                    text_or_empty(condition, "/status"),
                    text_or_empty(condition, "/reason"),
                );
                if why.is_empty() {
                    status.to_owned()
                } else {
                    format!("{status} ({why})")
                }
            }
            None => "Unknown".to_owned(),
        };
        vec![
            name(object),
            service.into(),
            available.into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const FLOW_SCHEMA: Printer = Printer {
    columns: &[
        NAME,
        default_column("PriorityLevel"),
        default_column("MatchingPrecedence"),
        default_column("DistinguisherMethod"),
        AGE,
        default_column("MissingPL"),
    ],
    cells: |object, now| {
        let precedence = object
            .pointer("/spec/matchingPrecedence")
            .cloned()
            .unwrap_or_else(|| 0.into());
        let dangling = items(object, "/status/conditions")
            .iter()
            .find(|condition| text_or_empty(condition, "/type") == "Dangling");
        vec![
            name(object),
            text_or_empty(object, "/spec/priorityLevelConfiguration/name").into(),
            precedence,
            text_or(object, "/spec/distinguisherMethod/type", "<none>").into(),
            since_creation(object, now),
            dangling
                .map_or("?", |condition| text_or_empty(condition, "/status"))
                .into(),
        ]
    },
};

pub(super) const PRIORITY_LEVEL: Printer = Printer {
    columns: &[
        NAME,
        default_column("Type"),
        default_column("NominalConcurrencyShares"),
        default_column("Queues"),
        default_column("HandSize"),
        default_column("QueueLengthLimit"),
        AGE,
    ],
    cells: |object, now| {
        let number = |field: &str| {
            let value = object.pointer(&format!("/spec/limited/{field}"));
            value
                .map_or_else(|| "<none>".to_owned(), Value::to_string)
                .into()
        };
        vec![
            name(object),
            text_or_empty(object, "/spec/type").into(),
            number("nominalConcurrencyShares"),
            number("limitResponse/queuing/queues"),
            number("limitResponse/queuing/handSize"),
            number("limitResponse/queuing/queueLengthLimit"),
            since_creation(object, now),
        ]
    },
};
