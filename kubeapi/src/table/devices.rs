//! Rows of resource claims, device slices and device classes.

use super::{
    cells::{name, since_creation, text_or},
    printer::{AGE, NAME, Printer, default_column},
};
use crate::object::{items, text_or_empty};

pub(super) const CLAIM: Printer = Printer {
    columns: &[NAME, default_column("State"), AGE],
    cells: |object, now| {
        let mut state = Vec::new();
        if !text_or_empty(object, "/metadata/deletionTimestamp").is_empty() {
            state.push("deleted");
        }
        if object.pointer("/status/allocation").is_some() {
            state.push("allocated");
        } else if state.is_empty() {
            state.push("pending");
        }
        if !items(object, "/status/reservedFor").is_empty() {
            state.push("reserved");
        }
        vec![
            name(object),
            state.join(",").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const SLICE: Printer = Printer {
    columns: &[
        NAME,
        default_column("Node"),
        default_column("Driver"),
        default_column("Pool"),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            text_or(object, "/spec/nodeName", "<unset>").into(),
            text_or_empty(object, "/spec/driver").into(),
            text_or_empty(object, "/spec/pool/name").into(),
            since_creation(object, now),
        ]
    },
};

/// The printer of claim templates and device classes, which show name and age only.
pub(super) const NAME_AND_AGE: Printer = Printer {
    columns: &[NAME, AGE],
    cells: |object, now| vec![name(object), since_creation(object, now)],
};
