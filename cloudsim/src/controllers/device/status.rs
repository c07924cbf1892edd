//! Merges reports into DeviceStatuses. Pure.
//!
//! Source: KubeEdge's device controller, `upstream.go`. Difference: the first report of a property is written with its value.

use std::collections::{BTreeMap, BTreeSet};

use crds::devices::{DeviceStatusStatus, Twin, TwinProperty};
use serde::Deserialize;
use serde_json::Value;
use wire::{
    ResourcePath,
    names::{is_dns_label, is_path_segment},
    text::printable_short,
};

/// A node's report about a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    /// Reported properties; `None` for a deleted one.
    Twins(BTreeMap<String, Option<Reported>>),
    /// The state of the device.
    OnlineState(OnlineState),
}

/// A reported property.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct Reported {
    expected: Option<Valued>,
    actual: Option<Valued>,
    metadata: Option<Kind>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Valued {
    value: Option<String>,
    metadata: Option<Stamp>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Stamp {
    timestamp: i64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

/// The state of a device.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OnlineState {
    state: String,
    last_online_time: String,
}

#[derive(Deserialize)]
struct TwinBody {
    twin: BTreeMap<String, Option<Reported>>,
}

#[derive(Deserialize)]
struct StateBody {
    device: OnlineState,
}

/// The report is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error(
        "{0} is not the resource of a device report; use device/<namespace>/<name>/twin/edge_updated or …/state/update"
    )]
    Path(String),
    #[error("cannot parse the report of {path}: {source}")]
    Content {
        path: String,
        source: serde_json::Error,
    },
}

/// Parses a report; returns the device's namespace and name, and what is reported.
pub(super) fn read(
    path: &ResourcePath,
    content: &Value,
) -> Result<(String, String, Report), Malformed> {
    let text = path.as_str();
    let wrong = || Malformed::Path(printable_short(text));
    let place = text.strip_prefix("device/").ok_or_else(wrong)?;
    let (id, is_state) = match (
        place.strip_suffix("/twin/edge_updated"),
        place.strip_suffix("/state/update"),
    ) {
        (Some(id), _) => (id, false),
        (_, Some(id)) => (id, true),
        _ => return Err(wrong()),
    };
    let (namespace, name) = id.split_once('/').unwrap_or(("default", id));
    if !is_dns_label(namespace) || !is_path_segment(name) {
        return Err(wrong());
    }
    let unread = |source| Malformed::Content {
        path: printable_short(text),
        source,
    };
    let parsed;
    let body = match content {
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text).map_err(unread)?;
            &parsed
        }
        other => other,
    };
    let report = if is_state {
        Report::OnlineState(StateBody::deserialize(body).map_err(unread)?.device)
    } else {
        Report::Twins(TwinBody::deserialize(body).map_err(unread)?.twin)
    };
    Ok((namespace.to_owned(), name.to_owned(), report))
}

/// Merges a report into a status. Returns the reported properties that the device does not have, which are left out.
pub(super) fn merge(
    status: &mut DeviceStatusStatus,
    properties: &BTreeSet<String>,
    report: Report,
) -> Vec<String> {
    let twins = match report {
        Report::OnlineState(state) => {
            status.state = Some(state.state).filter(|state| !state.is_empty());
            if !state.last_online_time.is_empty() {
                status.last_online_time = Some(state.last_online_time);
            }
            return Vec::new();
        }
        Report::Twins(twins) => twins,
    };
    // properties that the device had before its definition changed
    status.twins.retain(|twin| {
        twin.property_name
            .as_ref()
            .is_some_and(|name| properties.contains(name))
    });
    let mut unknown = Vec::new();
    for (name, reported) in twins {
        if !properties.contains(&name) {
            unknown.push(name);
            continue;
        }
        let place = status
            .twins
            .iter()
            .position(|twin| twin.property_name.as_deref() == Some(&name));
        let Some(reported) = reported.filter(|reported| !reported.is_deleted()) else {
            place.map(|place| status.twins.remove(place));
            continue;
        };
        let mut twin = place
            .map(|place| status.twins.remove(place))
            .unwrap_or_default();
        twin.property_name = Some(name);
        reported.into_twin(&mut twin);
        status
            .twins
            .insert(place.unwrap_or(status.twins.len()), twin);
    }
    unknown
}

impl Reported {
    fn is_deleted(&self) -> bool {
        self.metadata
            .as_ref()
            .is_some_and(|metadata| metadata.kind == "deleted")
    }

    fn into_twin(self, twin: &mut Twin) {
        let kind = self
            .metadata
            .map(|metadata| metadata.kind)
            .filter(|kind| !kind.is_empty());
        let property = |valued: Valued| {
            let mut metadata = BTreeMap::new();
            if let Some(stamp) = valued.metadata {
                metadata.insert("timestamp".to_owned(), stamp.timestamp.to_string());
            }
            if let Some(kind) = &kind {
                metadata.insert("type".to_owned(), kind.clone());
            }
            valued.value.map(|value| TwinProperty { value, metadata })
        };
        if let Some(reported) = self.actual.and_then(property) {
            twin.reported = Some(reported);
        }
        if let Some(desired) = self.expected.and_then(property) {
            twin.observed_desired = Some(desired);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn properties(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn report(path: &str, content: Value) -> Report {
        read(&path.into(), &content).unwrap().2
    }

    /// The content is what EdgeCore 1.23 was seen to send, the status what its documents show.
    #[test]
    fn the_first_report_is_kept_and_the_next_takes_its_place() {
        let twins = |value: &str, at: i64| {
            let content = json!({"event_id": "x", "timestamp": 1, "twin": {
                "temperature": {"actual": {"value": value, "metadata": {"timestamp": at}}, "optional": true,
                    "metadata": {"type": "float"}, "actual_version": {"cloud": 0, "edge": 1}},
                "unknown": {"actual": {"value": "1"}},
            }});
            report("device/default/sensor-2/twin/edge_updated", content)
        };
        let mut status = DeviceStatusStatus::default();
        let known = properties(&["temperature", "switch"]);
        assert_eq!(merge(&mut status, &known, twins("22.0", 5)), ["unknown"]);
        let expected = json!({"twins": [{"propertyName": "temperature",
            "reported": {"value": "22.0", "metadata": {"timestamp": "5", "type": "float"}}}]});
        assert_eq!(json!(status), expected);
        let switch = json!({"twin": {"switch": {"expected": {"value": "on", "metadata": {"timestamp": 7}}}}});
        merge(
            &mut status,
            &known,
            report("device/default/sensor-2/twin/edge_updated", switch),
        );
        merge(&mut status, &known, twins("23.0", 9));
        let values: Vec<_> = status.twins.iter().map(|twin| json!(twin)).collect();
        assert_eq!(values[0]["reported"]["value"], "23.0");
        assert_eq!(
            values[1]["observedDesired"],
            json!({"value": "on", "metadata": {"timestamp": "7"}})
        );
        // a property that was taken from the device goes with the next report, one that was deleted at once
        merge(&mut status, &properties(&["temperature"]), twins("24.0", 9));
        assert_eq!(status.twins.len(), 1);
        let deleted = json!({"twin": {"temperature": {"metadata": {"type": "deleted"}}}});
        merge(
            &mut status,
            &known,
            report("device/a/b/twin/edge_updated", deleted),
        );
        assert_eq!(status.twins, []);
    }

    #[test]
    fn a_state_comes_as_text() {
        let content = r#"{"event_id":"x","timestamp":1,"device":{"name":"s","state":"online","lastOnlineTime":"2026-11-21T03:10:35Z"}}"#;
        let mut status = DeviceStatusStatus::default();
        merge(
            &mut status,
            &BTreeSet::new(),
            report("device/ns/s/state/update", content.into()),
        );
        assert_eq!(
            json!(status),
            json!({"state": "online", "lastOnlineTime": "2026-11-21T03:10:35Z"})
        );
    }

    #[test]
    fn what_is_no_report_is_told_so() {
        for (path, content, expected) in [
            (
                "device/twin/edge_updated",
                json!({"twin": {}}),
                "is not the resource of a device report",
            ),
            (
                "device/a/b/c/twin/edge_updated",
                json!({"twin": {}}),
                "is not the resource of a device report",
            ),
            (
                "device/a/b/twin/other",
                json!({"twin": {}}),
                "is not the resource of a device report",
            ),
            (
                "device/a/b/twin/edge_updated",
                json!({}),
                "missing field `twin`",
            ),
            ("device/a/b/twin/edge_updated", json!("{"), "EOF"),
            (
                "device/a/b/twin/edge_updated",
                json!({"twin": {"t": {"actual": {"value": 1}}}}),
                "invalid type",
            ),
            ("device/a/b/state/update", Value::Null, "cannot parse"),
        ] {
            let error = read(&path.into(), &content).unwrap_err().to_string();
            assert!(error.contains(expected), "{path} {content}: {error}");
        }
    }
}
