//! Validates the parameters of a request (`ListOptions`, `CreateOptions` and so on). Pure.

use http::Method;
use serde_json::json;

use crate::{
    cause::Cause,
    patch::PatchKind,
    request::{body::media_type, call::Call, query::Query},
    status::StatusError,
};

/// The longest name of a field manager.
const MANAGER_LENGTH: usize = 128;

/// Returns 422 for invalid parameters or combinations.
pub(crate) fn check_options(method: &Method, call: &Call) -> Result<(), StatusError> {
    let query = &call.query;
    let (kind, causes) = match method.as_str() {
        "GET" if !call.target.name.is_empty() => return Ok(()),
        "GET" if query.flag("watch") => ("ListOptions", of_watch(query)),
        "GET" => ("ListOptions", of_list(query)),
        "POST" => ("CreateOptions", of_write(query)),
        "PUT" => ("UpdateOptions", of_write(query)),
        "PATCH" => ("PatchOptions", of_patch(call)),
        "DELETE" => ("DeleteOptions", dry_run(query).into_iter().collect()),
        _ => return Ok(()),
    };
    refuse(kind, causes)
}

/// Returns 422 for invalid parameters of a creation.
pub fn check_create_options(query: &Query) -> Result<(), StatusError> {
    refuse("CreateOptions", of_write(query))
}

/// Returns 422 for causes, if there are any.
pub(super) fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), StatusError> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid("meta.k8s.io", kind, "", causes))
    }
}

fn of_list(query: &Query) -> Vec<Cause> {
    const MATCH: &str = "resourceVersionMatch";
    let mut causes = Vec::new();
    if query.has("sendInitialEvents") {
        causes.push(Cause::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    let Some(wanted) = query.get(MATCH) else {
        return causes;
    };
    let version = query.get("resourceVersion");
    if query.has("continue") {
        causes.push(Cause::forbidden(
            MATCH,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if version.is_none() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        causes.push(Cause::forbidden(MATCH, why));
    }
    match wanted {
        "Exact" if version == Some("0") => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(MATCH, why));
        }
        "Exact" | "NotOlderThan" => {}
        other => causes.push(Cause::unsupported(
            MATCH,
            &json!(other),
            &["Exact", "NotOlderThan", ""],
        )),
    }
    causes
}

fn of_watch(query: &Query) -> Vec<Cause> {
    const MATCH: &str = "resourceVersionMatch";
    let mut causes = Vec::new();
    let wanted = query.get(MATCH);
    let wants_list = query.has("sendInitialEvents");
    if wants_list && wanted != Some("NotOlderThan") {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(MATCH, why));
    }
    let Some(wanted) = wanted else { return causes };
    if !wants_list {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(Cause::forbidden(MATCH, why));
    }
    if wanted != "NotOlderThan" {
        causes.push(Cause::unsupported(MATCH, &json!(wanted), &["NotOlderThan"]));
    }
    causes
}

fn of_write(query: &Query) -> Vec<Cause> {
    let mut causes: Vec<_> = dry_run(query).into_iter().collect();
    if query
        .get("fieldManager")
        .is_some_and(|manager| manager.len() > MANAGER_LENGTH)
    {
        causes.push(Cause::too_long("fieldManager", MANAGER_LENGTH));
    }
    match query.get("fieldValidation") {
        None | Some("Ignore" | "Strict" | "Warn") => {}
        Some(other) => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            causes.push(Cause::unsupported(
                "fieldValidation",
                &json!(other),
                &supported,
            ));
        }
    }
    causes
}

fn of_patch(call: &Call) -> Vec<Cause> {
    let is_apply =
        PatchKind::from_content_type(media_type(&call.headers)) == Some(PatchKind::Apply);
    let mut causes = of_write(&call.query);
    if is_apply && call.query.get("fieldManager").is_none() {
        causes.push(Cause::required(
            "fieldManager",
            "is required for apply patch",
        ));
    }
    if !is_apply && call.query.has("force") {
        causes.push(Cause::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    causes
}

/// Checks `dryRun`, whose only value is `All`.
pub(super) fn of_dry_run(stages: &[&str]) -> Option<Cause> {
    let is_supported = stages.iter().all(|stage| *stage == "All");
    (!is_supported).then(|| Cause::unsupported("dryRun", &json!(stages), &["All"]))
}

fn dry_run(query: &Query) -> Option<Cause> {
    of_dry_run(&query.all("dryRun").collect::<Vec<_>>())
}
