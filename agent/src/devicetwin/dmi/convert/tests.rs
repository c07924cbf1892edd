//! Objects as users write them, and the messages that mappers get.

use serde_json::json;

use super::*;

fn sample() -> (Device, DeviceModel) {
    let model = json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel",
        "metadata": {"name": "thermometer", "namespace": "hall"},
        "spec": {"protocol": "modbus", "protocolConfigData": {"timeout": 5, "parity": "even"},
            "properties": [
                {"name": "temperature", "type": "FLOAT", "accessMode": "ReadOnly", "minimum": "-20", "maximum": "60",
                    "unit": "celsius", "description": "of the air",
                    "visitors": {"protocolName": "modbus", "configData": {"register": "HoldingRegister", "offset": 0}}},
                {"name": "switch", "type": "INT", "accessMode": "ReadWrite"}]},
    });
    let device = json!({
        "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device",
        "metadata": {"name": "t1", "namespace": "hall"},
        "spec": {"deviceModelRef": {"name": "thermometer"}, "nodeName": "edge-1",
            "protocol": {"protocolName": "modbus", "configData": {"ip": "192.0.2.9", "parity": "odd"}},
            "stateReport": {"reportToCloud": true, "reportCycle": 5000},
            "properties": [
                {"name": "temperature", "collectCycle": 1000, "reportCycle": 2000, "reportToCloud": true,
                    "visitors": {"configData": {"offset": 2, "scale": 0.1}}},
                {"name": "switch", "desired": {"value": "1", "metadata": {"type": "int"}},
                    "pushMethod": {"mqtt": {"address": "tcp://broker:1883", "topic": "t", "qos": 1},
                        "dbMethod": {"redis": {"redisClientConfig": {"addr": "r:6379", "poolsize": 30}}}}}],
            "methods": [{"name": "Switch", "description": "on or off", "propertyNames": ["switch"]}]},
    });
    (
        serde_json::from_value(device).unwrap(),
        serde_json::from_value(model).unwrap(),
    )
}

fn settings(value: Option<&dmi::CustomizedValue>) -> Value {
    Value::Object(value.unwrap().to_json().unwrap())
}

#[test]
fn a_devices_settings_override_those_of_its_model() {
    let (own, of_model) = sample();
    let got = device(&own, &of_model);
    assert_eq!((got.name.as_str(), got.namespace.as_str()), ("t1", "hall"));
    let status = got.status.unwrap();
    assert_eq!((status.report_to_cloud, status.report_cycle), (true, 5000));
    let spec = got.spec.unwrap();
    assert_eq!(spec.device_model_reference, "thermometer");
    let protocol = spec.protocol.unwrap();
    assert_eq!(protocol.protocol_name, "modbus");
    let expected = json!({"ip": "192.0.2.9", "parity": "odd", "timeout": 5});
    assert_eq!(settings(protocol.config_data.as_ref()), expected);
    let temperature = &spec.properties[0];
    assert_eq!(
        (
            temperature.collect_cycle,
            temperature.report_cycle,
            temperature.report_to_cloud
        ),
        (1000, 2000, true)
    );
    let visitor = temperature.visitors.as_ref().unwrap();
    assert_eq!(visitor.protocol_name, "modbus");
    let expected = json!({"register": "HoldingRegister", "offset": 2, "scale": 0.1});
    assert_eq!(settings(visitor.config_data.as_ref()), expected);
    let switch = &spec.properties[1];
    assert_eq!(
        switch
            .desired
            .as_ref()
            .map(|desired| desired.value.as_str()),
        Some("1")
    );
    assert_eq!(switch.visitors, None);
    let push = switch.push_method.as_ref().unwrap();
    assert_eq!(
        push.mqtt
            .as_ref()
            .map(|mqtt| (mqtt.topic.as_str(), mqtt.qos)),
        Some(("t", 1))
    );
    let redis = push
        .db_method
        .as_ref()
        .and_then(|database| database.redis.as_ref())
        .unwrap();
    assert_eq!(
        redis
            .redis_client_config
            .as_ref()
            .map(|redis| redis.poolsize),
        Some(30)
    );
    assert_eq!(spec.methods[0].property_names, ["switch"]);
}

#[test]
fn a_model_has_types_and_limits_as_words() {
    let got = model(&sample().1);
    let temperature = &got.spec.unwrap().properties[0];
    let words = [
        &temperature.r#type,
        &temperature.access_mode,
        &temperature.minimum,
        &temperature.unit,
    ];
    assert_eq!(words, ["FLOAT", "ReadOnly", "-20", "celsius"]);
}

#[test]
fn a_device_without_settings_is_valid() {
    let got = device(&Device::default(), &DeviceModel::default());
    let spec = got.spec.unwrap();
    assert_eq!((spec.properties.len(), got.status), (0, None));
    assert_eq!(spec.protocol, Some(dmi::ProtocolConfig::default()));
}
