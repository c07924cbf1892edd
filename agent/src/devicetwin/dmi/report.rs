//! Converts a mapper's report for DeviceTwin. Pure.

use tonic::{Code, Status};
use wire::{dmi, topic::DeviceId};

use crate::devicetwin::{Reading, RequestError};

/// The most properties in one report; a device has a few dozen.
const MAX_TWINS: usize = 4096;

/// Returns the device that a call names.
pub(super) fn device(namespace: &str, name: &str) -> Result<DeviceId, Status> {
    let id = (!name.is_empty())
        .then(|| DeviceId::new(namespace, name))
        .flatten();
    id.ok_or_else(|| {
        Status::invalid_argument(format!(
            "{namespace}/{name} names no device; give deviceName and deviceNamespace as they came from the agent"
        ))
    })
}

/// Returns the readings of a report. An empty value means none: DMI has no other way to say so.
pub(super) fn readings(report: Option<dmi::DeviceStatus>) -> Result<Vec<Reading>, Status> {
    let twins = report.map(|report| report.twins).unwrap_or_default();
    if twins.is_empty() {
        return Err(Status::invalid_argument(
            "the report has no twins; put at least one into reportedDevice",
        ));
    }
    if twins.len() > MAX_TWINS {
        let count = twins.len();
        return Err(Status::invalid_argument(format!(
            "a report of {count} twins is more than the {MAX_TWINS} that are taken at once; send several"
        )));
    }
    Ok(twins.into_iter().map(reading).collect())
}

fn reading(twin: dmi::Twin) -> Reading {
    let text = |property: &dmi::TwinProperty| {
        Some(property.value.clone()).filter(|value| !value.is_empty())
    };
    let at = |property: &dmi::TwinProperty| property.metadata.get("timestamp")?.parse().ok();
    Reading {
        property: twin.property_name,
        value: twin.reported.as_ref().and_then(text),
        at: twin.reported.as_ref().and_then(at),
        observed: twin.observed_desired.as_ref().and_then(text),
    }
}

/// Converts DeviceTwin's error to a gRPC status.
pub(super) fn status(refused: RequestError) -> Status {
    let code = match refused.code {
        400 => Code::InvalidArgument,
        404 => Code::NotFound,
        413 => Code::OutOfRange,
        _ => Code::Unavailable,
    };
    Status::new(code, refused.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(value: &str, timestamp: Option<&str>) -> Option<dmi::TwinProperty> {
        let metadata = timestamp
            .map(|at| ("timestamp".to_owned(), at.to_owned()))
            .into_iter()
            .collect();
        Some(dmi::TwinProperty {
            value: value.into(),
            metadata,
        })
    }

    fn read(observed: Option<dmi::TwinProperty>, reported: Option<dmi::TwinProperty>) -> Reading {
        let twin = dmi::Twin {
            property_name: "t".into(),
            observed_desired: observed,
            reported,
        };
        let report = dmi::DeviceStatus {
            twins: vec![twin],
            ..dmi::DeviceStatus::default()
        };
        readings(Some(report)).unwrap().remove(0)
    }

    /// EdgeCore fails when one of the two parts is absent.
    #[test]
    fn each_part_may_be_absent() {
        let some = |text: &str| Some(text.to_owned());
        for (observed, reported, expected) in [
            (None, None, (None, None, None)),
            (
                None,
                property("21.5", Some("17")),
                (some("21.5"), Some(17), None),
            ),
            (property("20", None), None, (None, None, some("20"))),
            (
                property("", None),
                property("1", Some("soon")),
                (some("1"), None, None),
            ),
        ] {
            let reading = read(observed, reported);
            assert_eq!((reading.value, reading.at, reading.observed), expected);
            assert_eq!(reading.property, "t");
        }
    }

    #[test]
    fn invalid_reports_are_refused_with_the_cure() {
        for report in [None, Some(dmi::DeviceStatus::default())] {
            assert!(readings(report).unwrap_err().message().contains("no twins"));
        }
        let many = dmi::DeviceStatus {
            twins: vec![dmi::Twin::default(); MAX_TWINS + 1],
            ..dmi::DeviceStatus::default()
        };
        assert!(
            readings(Some(many))
                .unwrap_err()
                .message()
                .contains("send several")
        );
        for (namespace, name) in [("ns", ""), ("", ""), ("a/b", "c"), ("ns", "d+")] {
            assert_eq!(
                device(namespace, name).unwrap_err().code(),
                Code::InvalidArgument,
                "{namespace} {name}"
            );
        }
        assert_eq!(device("ns", "d").unwrap().as_str(), "ns/d");
    }
}
