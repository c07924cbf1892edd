//! Changes settings of a document, and keeps its comments.

use std::path::PathBuf;

use componentbase::yaml;
use serde_json::{Value, json};

/// The settings of the short document that hold paths.
const PATH_SETTINGS: [&str; 11] = [
    "database.dataSource",
    "modules.edgeHub.tlsCaFile",
    "modules.edgeHub.tlsCertFile",
    "modules.edgeHub.tlsPrivateKeyFile",
    "modules.edgeStream.tlsTunnelCAFile",
    "modules.edgeStream.tlsTunnelCertFile",
    "modules.edgeStream.tlsTunnelPrivateKeyFile",
    "modules.edged.rootDirectory",
    "modules.edged.tailoredKubeletConfig.podLogsDir",
    "modules.edged.tailoredKubeletConfig.staticPodPath",
    "modules.deviceTwin.dmiSockPath",
];

/// Returns the text with another value of the setting at `path`, which has a line of its own; `None` if there is no such line.
/// Only for the built-in documents: block style, two spaces for each level, one line for each value.
pub(crate) fn fill(text: &str, path: &str, value: &Value) -> Option<String> {
    let wanted: Vec<&str> = path.split('.').collect();
    let mut here: Vec<(usize, &str)> = Vec::new();
    let mut found = false;
    let mut filled = String::with_capacity(text.len());
    for line in text.lines() {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        let key = body
            .split_once(':')
            .map(|(key, _)| key)
            .filter(|_| !body.starts_with(['#', '-']));
        if let Some(key) = key {
            here.retain(|(outer, _)| *outer < indent);
            here.push((indent, key));
        }
        let is_it = key.is_some() && here.iter().map(|(_, key)| *key).eq(wanted.iter().copied());
        match key {
            Some(key) if is_it && !found => {
                found = true;
                filled.push_str(&format!("{}{key}: {value}\n", " ".repeat(indent)));
            }
            _ => {
                filled.push_str(line);
                filled.push('\n');
            }
        }
    }
    found.then_some(filled)
}

/// Returns the short document with every path mapped by `place`.
///
/// # Errors
/// It is not YAML.
pub(crate) fn relocate(
    text: &str,
    place: impl Fn(&str) -> PathBuf,
) -> Result<String, yaml::NotYaml> {
    let document = yaml::parse(text)?;
    let mut relocated = text.to_owned();
    for path in PATH_SETTINGS {
        let pointer = format!("/{}", path.replace('.', "/"));
        let usual = document
            .pointer(&pointer)
            .and_then(Value::as_str)
            .unwrap_or_default();
        relocated =
            fill(&relocated, path, &json!(place(usual).to_string_lossy())).unwrap_or(relocated);
    }
    Ok(relocated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_setting_is_changed_and_the_rest_stays() {
        let text = "a:\n  # c: 1\n  c: 1\n  d:\n    c: 2\nb:\n  c: 3 # why\n";
        assert_eq!(
            fill(text, "a.c", &json!("x: \"y\"")).unwrap(),
            "a:\n  # c: 1\n  c: \"x: \\\"y\\\"\"\n  d:\n    c: 2\nb:\n  c: 3 # why\n"
        );
        assert_eq!(
            fill(text, "b.c", &json!({"k": "v"})).unwrap(),
            text.replace("3 # why", "{\"k\":\"v\"}")
        );
        assert_eq!(
            fill(text, "a.d.c", &json!(4)).unwrap(),
            text.replace("c: 2", "c: 4")
        );
        assert_eq!(fill(text, "c", &json!(1)), None);
        assert_eq!(fill(text, "a.c.c", &json!(1)), None);
    }
}
