//! The modules around the pods, as they are written.

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct MetaManager {
    pub(in crate::config) enable: bool,
    pub(in crate::config) remote_query_timeout: i64,
    /// Not a setting of EdgeCore any more.
    #[serde(default)]
    pub(in crate::config) pod_status_sync_interval: i64,
    pub(in crate::config) meta_server: MetaServer,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct MetaServer {
    pub(in crate::config) enable: bool,
    pub(in crate::config) server: String,
    pub(in crate::config) dummy_server: String,
    pub(in crate::config) tls_ca_file: String,
    pub(in crate::config) tls_cert_file: String,
    pub(in crate::config) tls_private_key_file: String,
    pub(in crate::config) service_account_issuers: Vec<String>,
    pub(in crate::config) api_audiences: Option<Vec<String>>,
    pub(in crate::config) service_account_key_files: Option<Vec<String>>,
    /// Not a setting of EdgeCore, as the two that follow.
    #[serde(default)]
    pub(in crate::config) anonymous_auth: bool,
    #[serde(default)]
    pub(in crate::config) client_group: String,
    #[serde(default)]
    pub(in crate::config) allowed_hosts: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct EventBus {
    pub(in crate::config) enable: bool,
    pub(in crate::config) mqtt_mode: i64,
    pub(in crate::config) mqtt_server_internal: String,
    pub(in crate::config) mqtt_server_external: String,
    #[serde(rename = "mqttQOS")]
    pub(in crate::config) mqtt_qos: i64,
    pub(in crate::config) mqtt_retain: bool,
    pub(in crate::config) mqtt_session_queue_size: i64,
    #[serde(rename = "mqttSubClientID")]
    pub(in crate::config) mqtt_sub_client_id: String,
    #[serde(rename = "mqttPubClientID")]
    pub(in crate::config) mqtt_pub_client_id: String,
    pub(in crate::config) mqtt_username: String,
    pub(in crate::config) mqtt_password: String,
    #[serde(rename = "eventBusTLS")]
    pub(in crate::config) tls: EventBusTls,
    #[serde(default)]
    pub(in crate::config) internal_access: Option<InternalAccess>,
}

/// Not a setting of EdgeCore.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::config) struct InternalAccess {
    pub(in crate::config) anonymous: bool,
    pub(in crate::config) password_file: String,
    pub(in crate::config) rules: Vec<AccessRule>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::config) struct AccessRule {
    pub(in crate::config) user: String,
    pub(in crate::config) action: String,
    pub(in crate::config) filter: String,
    pub(in crate::config) allow: Option<bool>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(in crate::config) struct EventBusTls {
    pub(in crate::config) enable: bool,
    #[serde(rename = "tlsMqttCAFile")]
    pub(in crate::config) ca_file: String,
    #[serde(rename = "tlsMqttCertFile")]
    pub(in crate::config) cert_file: String,
    #[serde(rename = "tlsMqttPrivateKeyFile")]
    pub(in crate::config) key_file: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct DeviceTwin {
    pub(in crate::config) enable: bool,
    pub(in crate::config) dmi_sock_path: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct EdgeStream {
    pub(in crate::config) enable: bool,
    pub(in crate::config) server: String,
    pub(in crate::config) handshake_timeout: i64,
    pub(in crate::config) read_deadline: i64,
    pub(in crate::config) write_deadline: i64,
    #[serde(rename = "tlsTunnelCAFile")]
    pub(in crate::config) ca_file: String,
    #[serde(rename = "tlsTunnelCertFile")]
    pub(in crate::config) cert_file: String,
    #[serde(rename = "tlsTunnelPrivateKeyFile")]
    pub(in crate::config) key_file: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct TaskManager {
    pub(in crate::config) enable: bool,
    /// Not a setting of EdgeCore.
    #[serde(default)]
    pub(in crate::config) allow_connection_updates: bool,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::config) struct ServiceBus {
    pub(in crate::config) enable: bool,
    pub(in crate::config) server: String,
    pub(in crate::config) port: i64,
    pub(in crate::config) timeout: i64,
    #[serde(default)]
    pub(in crate::config) tls_cert_file: String,
    #[serde(default)]
    pub(in crate::config) tls_private_key_file: String,
    /// Not a setting of EdgeCore, as the two that follow.
    #[serde(default)]
    pub(in crate::config) call_timeout: i64,
    #[serde(default)]
    pub(in crate::config) allowed_ports: Vec<i64>,
    #[serde(default)]
    pub(in crate::config) allow_non_loopback: bool,
}
