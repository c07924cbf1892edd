//! `modules.edgeHub`.

use super::values::{Values, parse_host_port};
use crate::config::{
    file,
    typed::{EdgeHub, HostPort, Secret, TlsFiles, Transport},
};

/// The hexadecimal digits of a SHA-256 sum.
const HASH_DIGITS: usize = 64;

pub(super) fn convert(hub: file::EdgeHub, values: &mut Values<'_>) -> EdgeHub {
    let (transport, path, endpoint) = transport(hub.websocket, hub.quic, values);
    EdgeHub {
        transport,
        servers: servers(&format!("{path}.server"), &endpoint.server, values),
        handshake_timeout: values.seconds(
            &format!("{path}.handshakeTimeout"),
            endpoint.handshake_timeout,
            1,
        ),
        write_deadline: values.seconds(
            &format!("{path}.writeDeadline"),
            endpoint.write_deadline,
            1,
        ),
        http_servers: http_servers(&hub.http_server, values),
        token: token(&hub.token, values),
        // 0 would mean messages in a loop without a pause
        heartbeat: values.seconds("modules.edgeHub.heartbeat", hub.heartbeat, 1),
        qps: values.number(
            "modules.edgeHub.messageQPS",
            hub.message_qps,
            0,
            i64::from(i32::MAX),
        ),
        burst: values.number(
            "modules.edgeHub.messageBurst",
            hub.message_burst,
            0,
            i64::from(i32::MAX),
        ),
        project_id: project_id(hub.project_id, values),
        tls: TlsFiles {
            ca: values.path("modules.edgeHub.tlsCaFile", hub.tls_ca_file),
            cert: values.path("modules.edgeHub.tlsCertFile", hub.tls_cert_file),
            key: values.path(
                "modules.edgeHub.tlsPrivateKeyFile",
                hub.tls_private_key_file,
            ),
        },
        rotate_certificates: hub.rotate_certificates,
    }
}

/// Returns the enabled transport, exactly one of the two; on an error WebSocket.
fn transport(
    websocket: file::Endpoint,
    quic: file::Endpoint,
    values: &mut Values<'_>,
) -> (Transport, &'static str, file::Endpoint) {
    match (websocket.enable, quic.enable) {
        (true, true) => {
            values.error(
                "modules.edgeHub",
                "websocket.enable and quic.enable are both true; set one of them to false",
            );
        }
        (false, false) => {
            values.error(
                "modules.edgeHub",
                "websocket.enable and quic.enable are both false; set websocket.enable to true",
            );
        }
        (true, false) | (false, true) => {}
    }
    if quic.enable && !websocket.enable {
        (Transport::Quic, "modules.edgeHub.quic", quic)
    } else {
        (Transport::WebSocket, "modules.edgeHub.websocket", websocket)
    }
}

/// Parses one server, or several separated by commas. EdgeCore accepts one.
fn servers(path: &str, list: &str, values: &mut Values<'_>) -> Vec<HostPort> {
    list.split(',')
        .map(|server| values.host_port(path, server.trim()))
        .collect()
}

/// Parses one URL, or several separated by commas.
fn http_servers(list: &str, values: &mut Values<'_>) -> Vec<HostPort> {
    let path = "modules.edgeHub.httpServer";
    let server = |url: &str| {
        let why = match url
            .trim()
            .trim_end_matches('/')
            .strip_prefix("https://")
            .map(parse_host_port)
        {
            Some(Ok(server)) => return Some(server),
            Some(Err(why)) => format!("is {url:?}: {why}, such as https://cloud.example.com:10002"),
            None => {
                format!("is {url:?}, but must be an URL such as https://cloud.example.com:10002")
            }
        };
        values.error(path, why);
        None
    };
    list.split(',').filter_map(server).collect()
}

/// Checks the project id, which becomes a part of a URL and a header.
fn project_id(id: String, values: &mut Values<'_>) -> String {
    if id.is_empty()
        || !id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    {
        values.error(
            "modules.edgeHub.projectID",
            "must be letters, digits, '-', '_' and '.'",
        );
    }
    id
}

/// Checks the CA's hash and the three parts of a JWT. The error does not repeat the token.
fn token(text: &str, values: &mut Values<'_>) -> Option<Secret> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let parts: Vec<&str> = text.split('.').collect();
    let hash = parts.first().copied().unwrap_or_default();
    let wrong = if parts.len() != 4 {
        Some(format!(
            "is not a join token, which has 4 parts separated by dots; this has {}",
            parts.len()
        ))
    } else if hash.len() != HASH_DIGITS || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
        Some(format!(
            "does not begin with the {HASH_DIGITS} hexadecimal digits of the CA's hash"
        ))
    } else if parts.iter().any(|part| part.is_empty()) {
        Some("has an empty part".to_owned())
    } else {
        None
    };
    if let Some(wrong) = wrong {
        values.error(
            "modules.edgeHub.token",
            format!("{wrong}; get one with `cloudsim token` or `keadm gettoken`"),
        );
    }
    Some(Secret::new(text))
}
