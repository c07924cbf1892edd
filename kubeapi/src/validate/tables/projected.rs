//! Projected volumes.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{items, text_or_empty},
    validate::{
        engine::{
            Row,
            Rule::{Check, Format, Required, Table},
            check, row,
        },
        formats,
        place::Place,
    },
};

use super::{env, files, signer};

/// `projected`.
pub static PROJECTED: &[Row] = &[
    row("defaultMode", files::MODE),
    row("sources[*]", Check(source)),
    row("", Check(paths)),
];

static NAMED: &[Row] = &[
    row("name", Required("")),
    row("items[*]", Table(files::KEY_TO_PATH)),
];
static FILES: &[Row] = &[row("items>[-]", Table(env::FILE))];
static BUNDLE: &[Row] = &[
    row("", Check(bundle)),
    row("path", Required("")),
    row("path", Format(formats::file_path)),
];

fn source(source: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut count = 0;
    for (name, rows) in [
        ("secret", NAMED),
        ("configMap", NAMED),
        ("downwardAPI", FILES),
        ("clusterTrustBundle", BUNDLE),
    ] {
        if source.has(name) {
            count += 1;
            check(rows, &source.child(name, name), causes);
        }
    }
    if source.has("serviceAccountToken") {
        count += 1;
        token(
            &source.child("serviceAccountToken", "serviceAccountToken"),
            causes,
        );
    }
    count += usize::from(source.has("podCertificate"));
    if count > 1 {
        causes.push(Cause::forbidden(
            source.path(),
            "may not specify more than 1 volume type per source",
        ));
    }
}

fn token(token: &Place<'_>, causes: &mut Vec<Cause>) {
    const FIELD: &str = "expirationSeconds";
    let seconds = token.number(FIELD).unwrap_or_default();
    if seconds < 600 {
        causes.push(token.invalid(
            FIELD,
            &seconds.into(),
            "may not specify a duration less than 10 minutes",
        ));
    }
    if seconds > 1 << 32 {
        causes.push(token.invalid(
            FIELD,
            &seconds.into(),
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    // Kubernetes' messages are about the volume.
    let field = token
        .path()
        .split(".sources[")
        .next()
        .unwrap_or_default()
        .to_owned()
        + ".path";
    let path = token.text("path");
    if path.is_empty() {
        return causes.push(Cause::required(field, ""));
    }
    causes.extend(
        formats::file_path(path)
            .iter()
            .map(|why| Cause::invalid(field.as_str(), &path.into(), why)),
    );
}

fn bundle(bundle: &Place<'_>, causes: &mut Vec<Cause>) {
    match (bundle.has("name"), bundle.has("signerName")) {
        (true, true) => causes.push(bundle.refusal("only one of name and signerName may be used")),
        (false, false) => {
            causes.push(Cause::required(
                bundle.path(),
                "either name or signerName must be specified",
            ));
        }
        (true, false) => {
            if bundle.text("name").is_empty() {
                causes.push(Cause::required(
                    bundle.field("name"),
                    "must be a valid object name",
                ));
            }
            if bundle.has("labelSelector") {
                let why = "labelSelector must be unset if name is specified";
                causes.push(bundle.invalid("labelSelector", bundle.get("labelSelector"), why));
            }
        }
        (false, true) => {
            if bundle.text("signerName").is_empty() {
                causes.push(Cause::required(
                    bundle.field("signerName"),
                    "must be a valid signer name",
                ));
            }
            signer::signer_name(&bundle.child("signerName", "signerName"), causes);
            crate::validate::labels::selector(
                &bundle.child("labelSelector", "labelSelector"),
                causes,
            );
        }
    }
}

/// Checks that no two files have the same path.
fn paths(volume: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for source in volume.items("sources") {
        for name in ["secret", "configMap", "downwardAPI"] {
            let Some(part) = source.get(name) else {
                continue;
            };
            for item in items(part, "/items") {
                let path = text_or_empty(item, "/path");
                if !path.is_empty() && !taken.insert(path) {
                    let value = if name == "downwardAPI" {
                        path
                    } else {
                        text_or_empty(part, "/name")
                    };
                    causes.push(Cause::invalid(
                        volume.path(),
                        &value.into(),
                        "conflicting duplicate paths",
                    ));
                }
            }
        }
        let path = source
            .pointer("/clusterTrustBundle/path")
            .and_then(Value::as_str);
        if let Some(path) = path.filter(|path| !taken.insert(path)) {
            causes.push(Cause::invalid(
                volume.path(),
                &path.into(),
                "conflicting duplicate paths",
            ));
        }
    }
}
