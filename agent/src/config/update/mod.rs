//! Changes values of edgecore.yaml by their paths, as a ConfigUpdateJob names them. Pure.
//!
//! A path is the names of keys joined by dots, with the number of an element in brackets:
//! `modules.edged.tailoredKubeletConfig.registerWithTaints[0].key`. A
//! value is text; the key's type decides whether it is a number. `{a,b}` is a list, as for KubeEdge's `--set`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use componentbase::yaml;
use serde_json::{Map, Value};

use super::{Host, document, parse};

/// What the connection to the cloud or the security of the node depends on: a job changes it only if the node allows that. In lower case.
const PROTECTED: [&str; 41] = [
    "database",
    "featuregates",
    "modules.devicetwin.dmisockpath",
    "modules.edged.experimentalmounterpath",
    "modules.edged.hostnameoverride",
    "modules.edged.podsandboximage",
    "modules.edged.rootdirectory",
    "modules.edged.seccompdefault",
    "modules.edged.tailoredkubeletconfig.address",
    "modules.edged.tailoredkubeletconfig.allowedunsafesysctls",
    "modules.edged.tailoredkubeletconfig.authentication",
    "modules.edged.tailoredkubeletconfig.authorization",
    "modules.edged.tailoredkubeletconfig.containerruntimeendpoint",
    "modules.edged.tailoredkubeletconfig.enabledebugflagshandler",
    "modules.edged.tailoredkubeletconfig.enabledebugginghandlers",
    "modules.edged.tailoredkubeletconfig.enableprofilinghandler",
    "modules.edged.tailoredkubeletconfig.enablesystemloghandler",
    "modules.edged.tailoredkubeletconfig.enablesystemlogquery",
    "modules.edged.tailoredkubeletconfig.featuregates",
    "modules.edged.tailoredkubeletconfig.imageserviceendpoint",
    "modules.edged.tailoredkubeletconfig.podlogsdir",
    "modules.edged.tailoredkubeletconfig.protectkerneldefaults",
    "modules.edged.tailoredkubeletconfig.readonlyport",
    "modules.edged.tailoredkubeletconfig.resolvconf",
    "modules.edged.tailoredkubeletconfig.seccompdefault",
    "modules.edged.tailoredkubeletconfig.staticpodpath",
    "modules.edged.tailoredkubeletconfig.staticpodurl",
    "modules.edged.tailoredkubeletconfig.volumeplugindir",
    "modules.edgehub",
    "modules.edgemesh.dns",
    "modules.edgemesh.externaladdresses",
    "modules.edgemesh.listeninterface",
    "modules.edgemesh.nodeportaddresses",
    "modules.edgemesh.relay",
    "modules.edgestream",
    "modules.eventbus",
    "modules.metamanager.enable",
    "modules.metamanager.metaserver",
    "modules.servicebus",
    "modules.taskmanager",
    "status",
];
/// Settings among them that change neither.
const HARMLESS: [&str; 13] = [
    "modules.edgehub.heartbeat",
    "modules.edgehub.messageburst",
    "modules.edgehub.messageqps",
    "modules.edgehub.rotatecertificates",
    "modules.edgestream.enable",
    "modules.edgestream.handshaketimeout",
    "modules.edgestream.readdeadline",
    "modules.edgestream.writedeadline",
    "modules.eventbus.mqttqos",
    "modules.eventbus.mqttretain",
    "modules.eventbus.mqttsessionqueuesize",
    "modules.servicebus.calltimeout",
    "modules.servicebus.timeout",
];

/// A step into the document.
#[derive(Clone, Debug, PartialEq)]
enum Step<'a> {
    Key(&'a str),
    Element(usize),
}

/// Returns the text with the new values, which is valid; unchanged if it has all of them.
///
/// # Errors
/// Why a path or value is refused, or what the new configuration lacks.
pub(crate) fn update(
    path: &Path,
    text: &str,
    fields: &BTreeMap<String, String>,
    may_disconnect: bool,
) -> Result<String, String> {
    let host = Host::detect();
    let failed = |error: yaml::NotYaml| error.to_string();
    let (_, shape) = document::known_documents(&host).map_err(failed)?;
    let old = yaml::parse(text).map_err(failed)?;
    let mut whole = old.clone();
    let mut edited = Some(text.to_owned());
    for (key, value) in fields {
        let steps = steps(key).ok_or_else(|| format!("{key} is not a path of edgecore.yaml"))?;
        let (names, form) =
            find_key(&shape, &steps).ok_or_else(|| format!("edgecore.yaml has no key {key}"))?;
        let value = parse_value(value, form).map_err(|why| format!("{key}: {why}"))?;
        if !set(&mut whole, &names, value.clone()) {
            return Err(format!(
                "{key} does not exist: the list before it is shorter"
            ));
        }
        edited = edited.and_then(|text| in_place(&text, key, &value));
    }
    if old == whole {
        return Ok(text.to_owned());
    }
    // of all keys: the value of one may be a mapping of others
    let changed = changed_keys(&old, &whole);
    if let Some(key) = changed
        .iter()
        .find(|key| !may_disconnect && is_protected(key))
    {
        return Err(format!(
            "{key} could disconnect the node or weaken its security, so it is not changed; change it on the node, or allow it there with \
             modules.taskManager.allowConnectionUpdates"
        ));
    }
    // comments stay where only values of single lines change
    let edited = edited.filter(|edited| yaml::parse(edited).as_ref() == Ok(&whole));
    let written = match edited {
        Some(edited) => edited,
        None => yaml::to_text(&whole)?,
    };
    match parse(path, &written, None, &host) {
        Ok(_) => Ok(written),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the paths of the values that differ; those of lists without the number of an element.
fn changed_keys(old: &Value, new: &Value) -> Vec<String> {
    let empty = Map::new();
    let [before, after] =
        [old, new].map(|value| value.as_object().or(value.is_null().then_some(&empty)));
    let (Some(before), Some(after)) = (before, after) else {
        return Vec::from_iter((old != new).then(String::new));
    };
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut changed = Vec::new();
    for key in keys {
        let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
        for rest in changed_keys(&value(before), &value(after)) {
            changed.push(match rest.as_str() {
                "" => key.clone(),
                rest => format!("{key}.{rest}"),
            });
        }
    }
    changed
}

fn is_protected(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_below = |prefix: &&str| {
        let rest = key.strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    PROTECTED.iter().any(&is_below) && !HARMLESS.iter().any(is_below)
}

fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let mut pieces = part.split('[');
        steps.push(Step::Key(pieces.next().filter(|key| !key.is_empty())?));
        for piece in pieces {
            steps.push(Step::Element(piece.strip_suffix(']')?.parse().ok()?));
        }
    }
    Some(steps)
}

/// Returns the steps with the keys as EdgeCore writes them, and a value of the right type; `None` if there is no such key.
fn find_key<'s>(shape: &'s Value, steps: &[Step<'_>]) -> Option<(Vec<Step<'s>>, &'s Value)> {
    let (mut at, mut names) = (shape, Vec::new());
    for step in steps {
        at = match step {
            Step::Key(key) => {
                let (name, below) = at
                    .as_object()?
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case(key))?;
                names.push(Step::Key(name.as_str()));
                below
            }
            Step::Element(number) => {
                names.push(Step::Element(*number));
                at.get(0)?
            }
        };
    }
    Some((names, at))
}

/// Converts a text to the type of `form`.
fn parse_value(text: &str, form: &Value) -> Result<Value, String> {
    let bare = text.trim();
    let quoted = bare
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match form {
        Value::String(_) => Ok(Value::from(quoted.unwrap_or(text))),
        Value::Bool(_) => bare
            .parse()
            .map(Value::Bool)
            .map_err(|_| format!("must be true or false, not {text:?}")),
        Value::Number(_) => match bare.parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => {
                let number = bare
                    .parse::<f64>()
                    .ok()
                    .and_then(serde_json::Number::from_f64);
                number
                    .map(Value::Number)
                    .ok_or_else(|| format!("must be a number, not {text:?}"))
            }
        },
        Value::Array(elements) => {
            let inner = bare
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            let inner = inner.or_else(|| {
                bare.strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'))
            });
            let inner = inner
                .ok_or_else(|| format!("must be a list, for example {{a,b}}, not {text:?}"))?;
            let form = elements.first().unwrap_or(&Value::Null);
            let parts = inner
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty());
            parts
                .map(|part| parse_value(part, form))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::Array)
        }
        Value::Object(_) | Value::Null => yaml::parse(bare)
            .map_err(|_| format!("must be YAML, for example {{key: value}}, not {text:?}")),
    }
}

/// Sets a value; keys are compared without case. An element may be set or appended. Reports whether the place exists.
fn set(document: &mut Value, steps: &[Step<'_>], value: Value) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        *document = value;
        return true;
    };
    match step {
        Step::Key(key) => {
            if document.is_null() {
                *document = Value::Object(Map::new());
            }
            let Some(map) = document.as_object_mut() else {
                return false;
            };
            let known = map
                .keys()
                .find(|known| known.eq_ignore_ascii_case(key))
                .cloned();
            let slot = map
                .entry(known.unwrap_or_else(|| (*key).to_owned()))
                .or_insert(Value::Null);
            set(slot, rest, value)
        }
        Step::Element(number) => {
            if document.is_null() {
                *document = Value::Array(Vec::new());
            }
            let Some(list) = document.as_array_mut() else {
                return false;
            };
            if *number == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(*number)
                .is_some_and(|slot| set(slot, rest, value))
        }
    }
}

/// Returns the text with the value of one line replaced; the caller checks that nothing else has changed. `None` if the value has no line.
fn in_place(text: &str, path: &str, value: &Value) -> Option<String> {
    if value.is_object() || value.is_array() {
        return None;
    }
    let number = usize::try_from(yaml::positions(text)?.line(path)?)
        .ok()?
        .checked_sub(1)?;
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let line = lines.get_mut(number)?;
    let (key, old) = line.split_once(':')?;
    let last = path.rsplit('.').next()?;
    if !key
        .trim_start_matches(['-', ' '])
        .trim_matches('"')
        .eq_ignore_ascii_case(last)
    {
        return None;
    }
    let comment = old
        .find(" #")
        .and_then(|start| old.get(start..))
        .unwrap_or("\n");
    *line = format!("{key}: {value}{comment}");
    Some(lines.concat())
}

#[cfg(test)]
mod tests;
