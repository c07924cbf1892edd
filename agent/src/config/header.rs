//! Checks that a file is an edgecore.yaml at all, before its settings are read. Pure.

use std::path::Path;

use serde_json::Value;

use super::{
    Error,
    report::{Warning, WarningKind},
};

/// The version of the file's form that the agent reads.
pub(super) const API_VERSION: &str = "edgecore.config.kubeedge.io/v1alpha2";
/// The kind of the file.
pub(super) const KIND: &str = "EdgeCore";

/// Checks the keys that begin an edgecore.yaml. EdgeCore accepts a file without `apiVersion` and `kind`, so each only gets a warning.
/// Another value is reported with the settings.
///
/// # Errors
/// The file sets no module, so that the node would have no cloud.
pub(super) fn check(path: &Path, document: &Value) -> Result<Vec<Warning>, Error> {
    // Go ignores the case of keys
    let get = |name: &str| {
        let keys = document.as_object()?.iter();
        let mut found = keys.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    };
    let is_missing = |name: &str| get(name).is_none_or(Value::is_null);
    let is_foreign =
        |(name, value): &(&str, &str)| !is_missing(name) && get(name) != Some(&Value::from(*value));
    let header = [("apiVersion", API_VERSION), ("kind", KIND)];
    if document.is_object() && is_missing("modules") && !header.iter().any(is_foreign) {
        let keys = document.as_object().into_iter().flatten();
        let near =
            |(key, _): &(&String, &Value)| wire::nearest(key, ["modules"].into_iter()).is_some();
        return Err(Error::NoModules {
            path: path.to_owned(),
            near: keys.into_iter().find(near).map(|(key, _)| key.clone()),
        });
    }
    let missing = header.into_iter().filter(|(name, _)| is_missing(name));
    Ok(missing
        .map(|(path, value)| WarningKind::Missing { path, value }.into())
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_without_header_is_accepted_with_warnings_and_without_modules_refused() {
        let modules = json!({"edgeHub": {"token": "t"}});
        for (document, expected) in [
            (
                json!({"apiVersion": API_VERSION, "kind": KIND, "modules": modules}),
                Ok(0),
            ),
            (json!({"kind": KIND, "modules": modules}), Ok(1)),
            (json!({"modules": modules}), Ok(2)),
            (
                json!({"APIVERSION": API_VERSION, "Kind": KIND, "Modules": modules}),
                Ok(0),
            ),
            (json!({"apiVersion": API_VERSION, "kind": KIND}), Err(())),
            (
                json!({"apiVersion": API_VERSION, "kind": KIND, "modules": null}),
                Err(()),
            ),
            (json!({"node": "edge-1"}), Err(())),
            (json!({}), Err(())),
            // the kind is reported with the settings
            (json!({"apiVersion": "v1", "kind": "Pod"}), Ok(0)),
            (json!({"kind": "CloudCore"}), Ok(1)),
        ] {
            let found = check(Path::new("x"), &document);
            let counted = found.as_ref().map(Vec::len).map_err(drop);
            assert_eq!(counted, expected, "{document}: {found:?}");
        }
        let typo = check(Path::new("x"), &json!({"modlues": {}})).unwrap_err();
        assert!(
            typo.to_string().contains("is \"modlues\" a typing error?"),
            "{typo}"
        );
        let refused = check(Path::new("/x.yaml"), &json!({})).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("edge-agent --minconfig > /x.yaml"),
            "{refused}"
        );
    }
}
