//! DMI v1beta1, the interface between the agent and the mappers of its node: messages, clients and servers.
//!
//! Generated from `proto/dmi.proto`, which has KubeEdge's names and field numbers. The agent serves [`device_manager_service_server`], each
//! mapper [`device_mapper_service_server`]. Settings whose meaning only the mapper knows are converted to and from JSON by
//! [`CustomizedValue::to_json`] and [`CustomizedValue::from_json`].

mod value;

use std::fmt;

pub use generated::*;
/// Encodes and decodes the messages, for callers that compare or measure them.
pub use prost::Message;

pub use self::value::ValueError;

// The generator documents only what the .proto documents, and has its own style.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "../generated/dmi.rs"]
mod generated;

/// Shows the names of the settings but not their values, which may be passwords.
impl fmt::Debug for CustomizedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).finish()
    }
}

/// Shows the names of the settings but not their values.
impl fmt::Debug for AnomalyDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes bytes that another implementation of DMI wrote: tag, length, value, with the published field numbers.
    #[test]
    fn field_numbers_are_the_published_ones() -> Result<(), prost::DecodeError> {
        // Device.namespace is 4, MapperInfo.protocol 4 and .address 5, ReportDeviceStatusRequest.deviceNamespace 3.
        let device = Device::decode(&[0x0a, 1, b'd', 0x22, 2, b'n', b's'][..])?;
        assert_eq!(
            (device.name.as_str(), device.namespace.as_str()),
            ("d", "ns")
        );
        let mapper = MapperInfo::decode(&[0x22, 3, b'b', b'l', b'e', 0x2a, 2, b'/', b's'][..])?;
        assert_eq!(
            (mapper.protocol.as_str(), &mapper.address[..]),
            ("ble", &b"/s"[..])
        );
        let report =
            ReportDeviceStatusRequest::decode(&[0x1a, 2, b'n', b's', 0x12, 2, 0x0a, 0][..])?;
        assert_eq!(report.device_namespace, "ns");
        assert_eq!(report.reported_device.unwrap_or_default().twins.len(), 1);
        // PushMethod.otel is 4 and stands after mqtt, dbMethod is 3
        let push = PushMethod::decode(&[0x22, 3, 0x0a, 1, b'u', 0x1a, 0][..])?;
        assert_eq!(
            push.otel.map(|otel| otel.endpoint_url),
            Some("u".to_owned())
        );
        assert!(push.db_method.is_some());
        Ok(())
    }

    #[test]
    fn debug_never_shows_a_setting() {
        let settings = serde_json::json!({"password": "hunter2"});
        let value = CustomizedValue::from_json(settings.as_object().expect("an object"));
        let shown = format!(
            "{:?}",
            ProtocolConfig {
                protocol_name: "x".into(),
                config_data: Some(value)
            }
        );
        assert!(shown.contains("password") && !shown.contains("hunter2"));
    }
}
