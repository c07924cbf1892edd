//! Converts devices and models to the messages that mappers get. Pure.
//!
//! As in EdgeCore, the model's settings of a property's visitor and of the protocol apply where the device has none.

use crds::devices::{
    Device, DeviceModel, DeviceProperty, ModelProperty, ProtocolConfig, PushMethod, TwinProperty,
    VisitorConfig,
};
use kube::ResourceExt;
use serde_json::{Map, Value};
use wire::dmi;

/// Converts a device, with the settings of its model.
pub(super) fn device(device: &Device, model: &DeviceModel) -> dmi::Device {
    let spec = &device.spec;
    let report = spec.state_report.as_ref().or(device.status.as_ref());
    dmi::Device {
        name: device.name_any(),
        namespace: device.namespace().unwrap_or_default(),
        spec: Some(dmi::DeviceSpec {
            device_model_reference: model.name_any(),
            protocol: Some(protocol(spec.protocol.as_ref(), model)),
            properties: spec
                .properties
                .iter()
                .map(|it| property(it, model))
                .collect(),
            methods: spec.methods.iter().map(method).collect(),
        }),
        status: report.map(|report| dmi::DeviceStatus {
            twins: Vec::new(),
            report_to_cloud: report.report_to_cloud.unwrap_or_default(),
            report_cycle: report.report_cycle.unwrap_or_default(),
        }),
    }
}

/// Converts a model.
pub(super) fn model(model: &DeviceModel) -> dmi::DeviceModel {
    dmi::DeviceModel {
        name: model.name_any(),
        namespace: model.namespace().unwrap_or_default(),
        spec: Some(dmi::DeviceModelSpec {
            properties: model.spec.properties.iter().map(model_property).collect(),
            commands: Vec::new(),
        }),
    }
}

fn model_property(property: &ModelProperty) -> dmi::ModelProperty {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    dmi::ModelProperty {
        name: text(&property.name),
        description: text(&property.description),
        r#type: word(&property.kind),
        access_mode: word(&property.access_mode),
        minimum: text(&property.minimum),
        maximum: text(&property.maximum),
        unit: text(&property.unit),
    }
}

/// Returns an enum as its schema writes it.
fn word<T: serde::Serialize>(value: &Option<T>) -> String {
    match value.as_ref().map(serde_json::to_value) {
        Some(Ok(Value::String(word))) => word,
        _ => String::new(),
    }
}

fn protocol(own: Option<&ProtocolConfig>, model: &DeviceModel) -> dmi::ProtocolConfig {
    let name = own
        .and_then(|own| own.protocol_name.clone())
        .or_else(|| model.spec.protocol.clone());
    let settings = own.map(|own| &own.config_data);
    dmi::ProtocolConfig {
        protocol_name: name.unwrap_or_default(),
        config_data: merge(Some(&model.spec.protocol_config_data), settings),
    }
}

fn property(own: &DeviceProperty, model: &DeviceModel) -> dmi::DeviceProperty {
    let of_model = model
        .spec
        .properties
        .iter()
        .find(|property| property.name == own.name);
    let of_model = of_model.and_then(|property| property.visitors.as_ref());
    dmi::DeviceProperty {
        name: own.name.clone().unwrap_or_default(),
        desired: own.desired.as_ref().map(twin_property),
        visitors: visitor(own.visitors.as_ref(), of_model),
        report_cycle: own.report_cycle.unwrap_or_default(),
        collect_cycle: own.collect_cycle.unwrap_or_default(),
        report_to_cloud: own.report_to_cloud.unwrap_or_default(),
        push_method: own.push_method.as_ref().map(push_method),
    }
}

fn visitor(
    own: Option<&VisitorConfig>,
    of_model: Option<&VisitorConfig>,
) -> Option<dmi::VisitorConfig> {
    let name = [own, of_model]
        .into_iter()
        .flatten()
        .find_map(|visitor| visitor.protocol_name.clone());
    own.or(of_model)?;
    Some(dmi::VisitorConfig {
        protocol_name: name.unwrap_or_default(),
        config_data: merge(
            of_model.map(|visitor| &visitor.config_data),
            own.map(|visitor| &visitor.config_data),
        ),
    })
}

/// Merges settings: those of the device override those of the model.
fn merge(
    of_model: Option<&Map<String, Value>>,
    own: Option<&Map<String, Value>>,
) -> Option<dmi::CustomizedValue> {
    let mut settings = of_model.cloned().unwrap_or_default();
    settings.extend(
        own.into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    (!settings.is_empty()).then(|| dmi::CustomizedValue::from_json(&settings))
}

fn twin_property(property: &TwinProperty) -> dmi::TwinProperty {
    dmi::TwinProperty {
        value: property.value.clone(),
        metadata: property.metadata.clone(),
    }
}

fn method(method: &crds::devices::DeviceMethod) -> dmi::DeviceMethod {
    dmi::DeviceMethod {
        name: method.name.clone().unwrap_or_default(),
        description: method.description.clone().unwrap_or_default(),
        property_names: method.property_names.clone(),
    }
}

fn push_method(push: &PushMethod) -> dmi::PushMethod {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    dmi::PushMethod {
        http: push.http.as_ref().map(|http| dmi::PushMethodHttp {
            hostname: text(&http.host_name),
            port: http.port.unwrap_or_default(),
            requestpath: text(&http.request_path),
            timeout: http.timeout.unwrap_or_default(),
        }),
        mqtt: push.mqtt.as_ref().map(|mqtt| dmi::PushMethodMqtt {
            address: text(&mqtt.address),
            topic: text(&mqtt.topic),
            qos: mqtt.qos.unwrap_or_default(),
            retained: mqtt.retained.unwrap_or_default(),
        }),
        otel: push.otel.as_ref().map(|otel| dmi::PushMethodOtel {
            endpoint_url: text(&otel.endpoint_url),
        }),
        db_method: push.db_method.as_ref().map(super::database::method),
        anomaly_detection: (!push.anomaly_detection.is_empty())
            .then(|| dmi::AnomalyDetection::from_json(&push.anomaly_detection)),
    }
}

#[cfg(test)]
mod tests;
