//! The modules around the pods. A disabled module is not checked.

use std::path::Path;

use super::values::{Values, optional, parse_host_port, secret};
use crate::config::{
    file,
    typed::{
        DeviceTwin, EdgeStream, Endpoint, EventBus, InternalAccess, MetaManager, MetaServer,
        MqttMode, TaskManager, TlsFiles,
    },
};

/// The node's own certificate and key, which EdgeCore's defaults name for MetaServer and which are invalid for servers.
const DEFAULT_CERT: &str = "/etc/kubeedge/certs/server.crt";
const DEFAULT_KEY: &str = "/etc/kubeedge/certs/server.key";

pub(super) fn task_manager(
    written: &file::TaskManager,
    values: &mut Values<'_>,
) -> Option<TaskManager> {
    if !written.enable && written.allow_connection_updates {
        let path = "modules.taskManager.allowConnectionUpdates".to_owned();
        values.no_effect(path, "modules.taskManager.enable is false");
    }
    written.enable.then_some(TaskManager {
        allow_connection_updates: written.allow_connection_updates,
    })
}

pub(super) fn meta_manager(
    written: file::MetaManager,
    requires_authorization: bool,
    values: &mut Values<'_>,
) -> MetaManager {
    let at = |key: &str| format!("modules.metaManager.{key}");
    let interval = values.seconds(
        &at("podStatusSyncInterval"),
        written.pod_status_sync_interval,
        0,
    );
    MetaManager {
        remote_query_timeout: values.seconds(
            &at("remoteQueryTimeout"),
            written.remote_query_timeout,
            1,
        ),
        pod_status_sync_interval: (!interval.is_zero()).then_some(interval),
        meta_server: (written.meta_server.enable)
            .then(|| meta_server(written.meta_server, requires_authorization, values)),
    }
}

fn meta_server(
    written: file::MetaServer,
    requires_authorization: bool,
    values: &mut Values<'_>,
) -> MetaServer {
    let at = |key: &str| format!("modules.metaManager.metaServer.{key}");
    if written.anonymous_auth && requires_authorization {
        values.error(
            &at("anonymousAuth"),
            "is true together with featureGates.requireAuthorization, which authenticates callers; remove one of them",
        );
    }
    if !written.client_group.is_empty() && (requires_authorization || written.anonymous_auth) {
        values.no_effect(
            at("clientGroup"),
            "no kubeconfig is written with requireAuthorization or anonymousAuth",
        );
    }
    if !written.allowed_hosts.is_empty() && requires_authorization {
        values.no_effect(
            at("allowedHosts"),
            "featureGates.requireAuthorization is true",
        );
    }
    if requires_authorization
        && written.tls_cert_file == DEFAULT_CERT
        && written.tls_private_key_file != DEFAULT_KEY
    {
        values.no_effect(
            at("tlsPrivateKeyFile"),
            "tlsCertFile names no certificate and one is requested",
        );
    }
    if !requires_authorization {
        unused_without_accounts(&written, values);
    }
    for host in &written.allowed_hosts {
        if parse_host_port(&format!("{host}:1")).is_err() {
            values.error(
                &at("allowedHosts"),
                format!("has {host:?}, but must have names or addresses without a port"),
            );
        }
    }
    for (key, texts) in [
        (
            "serviceAccountIssuers",
            Some(&written.service_account_issuers),
        ),
        ("apiAudiences", written.api_audiences.as_ref()),
    ] {
        if texts.is_some_and(|texts| texts.iter().any(|text| text.trim().is_empty())) {
            values.error(&at(key), "has an empty element; remove it");
        }
    }
    MetaServer {
        server: values.socket(&at("server"), &written.server),
        dummy_server: values.socket(&at("dummyServer"), &written.dummy_server),
        tls: TlsFiles {
            ca: values.path(&at("tlsCaFile"), written.tls_ca_file),
            cert: values.path(&at("tlsCertFile"), written.tls_cert_file),
            key: values.path(&at("tlsPrivateKeyFile"), written.tls_private_key_file),
        },
        issuers: written.service_account_issuers,
        audiences: written.api_audiences.unwrap_or_default(),
        key_files: (written
            .service_account_key_files
            .unwrap_or_default()
            .into_iter())
        .map(|file| values.path(&at("serviceAccountKeyFiles"), file))
        .collect(),
        anonymous_auth: written.anonymous_auth,
        client_group: optional(written.client_group),
        allowed_hosts: written.allowed_hosts,
    }
}

/// Warns of settings that only have an effect if MetaServer authenticates callers, and are not the default.
fn unused_without_accounts(written: &file::MetaServer, values: &mut Values<'_>) {
    let issuers = ["https://kubernetes.default.svc.cluster.local"];
    for (key, is_default) in [
        ("dummyServer", written.dummy_server == "169.254.30.10:10550"),
        (
            "tlsCaFile",
            written.tls_ca_file == "/etc/kubeedge/ca/rootCA.crt",
        ),
        ("tlsCertFile", written.tls_cert_file == DEFAULT_CERT),
        (
            "tlsPrivateKeyFile",
            written.tls_private_key_file == DEFAULT_KEY,
        ),
        (
            "serviceAccountIssuers",
            written.service_account_issuers == issuers,
        ),
        (
            "apiAudiences",
            written.api_audiences.as_ref().is_none_or(Vec::is_empty),
        ),
        (
            "serviceAccountKeyFiles",
            written
                .service_account_key_files
                .as_ref()
                .is_none_or(Vec::is_empty),
        ),
    ] {
        if !is_default {
            let cause = "featureGates.requireAuthorization is not true";
            values.no_effect(format!("modules.metaManager.metaServer.{key}"), cause);
        }
    }
}

pub(super) fn event_bus(written: file::EventBus, values: &mut Values<'_>) -> Option<EventBus> {
    if !written.enable {
        return None;
    }
    let at = |key: &str| format!("modules.eventBus.{key}");
    if !written.mqtt_pub_client_id.is_empty() {
        // one connection does both
        values.warn_unused(at("mqttPubClientID"));
    }
    unused_by_mode(&written, values);
    let tls = written.tls;
    let (internal_tls, internal) = broker(
        &at("mqttServerInternal"),
        &written.mqtt_server_internal,
        values,
    );
    let (external_tls, external) = broker(
        &at("mqttServerExternal"),
        &written.mqtt_server_external,
        values,
    );
    let mode = match values.number::<u8>(&at("mqttMode"), written.mqtt_mode, 0, 2) {
        0 => MqttMode::Internal,
        1 => MqttMode::Both,
        _ => MqttMode::External,
    };
    for (key, is_over_tls, is_used) in [
        (
            "mqttServerInternal",
            internal_tls,
            mode != MqttMode::External,
        ),
        (
            "mqttServerExternal",
            external_tls,
            mode != MqttMode::Internal,
        ),
    ] {
        if is_over_tls && is_used && !tls.enable {
            let cure = "set modules.eventBus.eventBusTLS.enable to true, and give its files";
            values.error(
                &at(key),
                format!("uses TLS, but no certificates are configured; {cure}"),
            );
        }
    }
    Some(EventBus {
        mode,
        // an address of this machine to listen on
        internal_server: values.socket(
            &at("mqttServerInternal"),
            &internal.replace("localhost:", "127.0.0.1:"),
        ),
        internal_tls,
        internal_access: written
            .internal_access
            .map(|access| internal_access(access, values)),
        external_server: values.host_port(&at("mqttServerExternal"), external),
        qos: values.number(&at("mqttQOS"), written.mqtt_qos, 0, 2),
        retain: written.mqtt_retain,
        session_queue_size: values.number(
            &at("mqttSessionQueueSize"),
            written.mqtt_session_queue_size,
            1,
            1_000_000,
        ),
        client_id: optional(written.mqtt_sub_client_id),
        username: optional(written.mqtt_username),
        password: secret(written.mqtt_password),
        tls: tls.enable.then(|| TlsFiles {
            ca: values.path(&at("eventBusTLS.tlsMqttCAFile"), tls.ca_file),
            cert: values.path(&at("eventBusTLS.tlsMqttCertFile"), tls.cert_file),
            key: values.path(&at("eventBusTLS.tlsMqttPrivateKeyFile"), tls.key_file),
        }),
    })
}

/// Warns of settings of a broker that this mode does not have, if they are not the default.
fn unused_by_mode(written: &file::EventBus, values: &mut Values<'_>) {
    let (internal, external) = (written.mqtt_mode != 2, written.mqtt_mode != 0);
    for (key, is_used, is_default) in [
        (
            "mqttServerInternal",
            internal,
            written.mqtt_server_internal == "tcp://127.0.0.1:1884",
        ),
        ("mqttRetain", internal, !written.mqtt_retain),
        (
            "mqttSessionQueueSize",
            internal,
            written.mqtt_session_queue_size == 100,
        ),
        (
            "internalAccess",
            internal,
            written.internal_access.is_none(),
        ),
        (
            "mqttServerExternal",
            external,
            written.mqtt_server_external == "tcp://127.0.0.1:1883",
        ),
        (
            "mqttSubClientID",
            external,
            written.mqtt_sub_client_id.is_empty(),
        ),
        ("mqttUsername", external, written.mqtt_username.is_empty()),
        ("mqttPassword", external, written.mqtt_password.is_empty()),
    ] {
        if !is_used && !is_default {
            let cause = if internal {
                "mqttMode 0 is the broker inside alone"
            } else {
                "mqttMode 2 is the broker beside alone"
            };
            values.no_effect(format!("modules.eventBus.{key}"), cause);
        }
    }
}

fn internal_access(written: file::InternalAccess, values: &mut Values<'_>) -> InternalAccess {
    let at = |key: &str| format!("modules.eventBus.internalAccess.{key}");
    let rules = written.rules.into_iter().enumerate().map(|(number, rule)| {
        let at = |key: &str| at(&format!("rules[{number}].{key}"));
        let action = match rule.action.as_str() {
            "publish" => mqtt::Action::Publish,
            "subscribe" => mqtt::Action::Subscribe,
            "all" => mqtt::Action::All,
            other => {
                values.error(
                    &at("action"),
                    format!("is {other:?}, but must be publish, subscribe or all"),
                );
                mqtt::Action::All
            }
        };
        if !mqtt::is_filter(&rule.filter) {
            values.error(
                &at("filter"),
                format!(
                    "is {:?}, but must be a topic filter such as a/+/#",
                    rule.filter
                ),
            );
        }
        mqtt::Rule {
            user: optional(rule.user),
            action,
            filter: rule.filter,
            allow: rule.allow.unwrap_or(true),
        }
    });
    let rules = rules.collect();
    InternalAccess {
        password_file: values.optional_path(&at("passwordFile"), written.password_file),
        anonymous: written.anonymous,
        rules,
    }
}

/// Returns whether the URL is TLS, and its address.
fn broker<'a>(path: &str, url: &'a str, values: &mut Values<'_>) -> (bool, &'a str) {
    let (scheme, server) = url.split_once("://").unwrap_or_default();
    let is_over_tls = match scheme {
        "tcp" | "mqtt" => false,
        "ssl" | "tls" | "mqtts" => true,
        _ => {
            values.error(
                path,
                format!("is {url:?}, but must be an URL such as tcp://127.0.0.1:1883"),
            );
            // one error is enough
            return (false, "127.0.0.1:1883");
        }
    };
    (is_over_tls, server.trim_end_matches('/'))
}

pub(super) fn device_twin(
    written: file::DeviceTwin,
    values: &mut Values<'_>,
) -> Option<DeviceTwin> {
    if !written.enable {
        return None;
    }
    let path = values.path("modules.deviceTwin.dmiSockPath", written.dmi_sock_path);
    // older configurations name the socket itself
    let is_socket = path
        .extension()
        .is_some_and(|extension| extension == "sock");
    let directory = path.parent().filter(|_| is_socket).map(Path::to_owned);
    Some(DeviceTwin {
        dmi_socket_dir: directory.unwrap_or(path),
    })
}

pub(super) fn edge_stream(
    written: file::EdgeStream,
    values: &mut Values<'_>,
) -> Option<EdgeStream> {
    let at = |key: &str| format!("modules.edgeStream.{key}");
    written.enable.then(|| EdgeStream {
        endpoint: Endpoint {
            server: values.host_port(&at("server"), &written.server),
            handshake_timeout: values.seconds(
                &at("handshakeTimeout"),
                written.handshake_timeout,
                1,
            ),
            read_deadline: values.seconds(&at("readDeadline"), written.read_deadline, 1),
            write_deadline: values.seconds(&at("writeDeadline"), written.write_deadline, 1),
        },
        tls: TlsFiles {
            ca: values.path(&at("tlsTunnelCAFile"), written.ca_file),
            cert: values.path(&at("tlsTunnelCertFile"), written.cert_file),
            key: values.path(&at("tlsTunnelPrivateKeyFile"), written.key_file),
        },
    })
}
