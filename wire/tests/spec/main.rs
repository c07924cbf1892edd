//! The documents in `spec/` and the tables of `docs/protocol.md` are generated from the types and tables of this crate. They must be
//! current (`make spec` writes them), valid, and describe every captured message.

// Helpers of tests may fail as tests do.
#![allow(clippy::panic, clippy::unwrap_used)]

mod captures;
mod enrolment;
mod hub;
mod mqtt;
mod page;
mod parser;
mod tunnel;

use std::{env, fs, path::PathBuf};

use serde_json::Value;

/// Whether to write the files instead of comparing them.
const UPDATE: &str = "UPDATE_SPEC";

/// A document: its file in `spec/`, and how it is generated.
type Document = (&'static str, fn() -> Value);

const DOCUMENTS: [Document; 4] = [
    ("kubeedge.asyncapi.yaml", hub::document),
    ("enrolment.openapi.yaml", enrolment::document),
    ("tunnel.asyncapi.yaml", tunnel::document),
    ("mqtt.asyncapi.yaml", mqtt::document),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a file with what it must be, or writes it.
fn check(path: &str, generated: &str) {
    let file = root().join(path);
    if env::var_os(UPDATE).is_some() {
        fs::write(file, generated).unwrap();
        return;
    }
    let current = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        current == generated,
        "{path} is older than the types and tables of wire: run `make spec`"
    );
}

#[test]
fn documents_are_those_of_the_types() {
    for (file, document) in DOCUMENTS {
        let text = serde_saphyr::to_string(&document()).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, document(), "{file}");
        let head = "# Generated from the types and tables of the crate wire: `make spec` writes it again.\n";
        check(&format!("spec/{file}"), &format!("{head}{text}"));
    }
}

#[test]
fn page_has_the_tables_of_the_types() {
    let path = "../docs/protocol.md";
    let text = fs::read_to_string(root().join(path)).unwrap();
    check(path, &page::with_tables(&text));
}
