//! `modules.serviceBus`. A disabled module is not checked.

use std::{net::SocketAddr, time::Duration};

use super::values::Values;
use crate::config::{
    file,
    typed::{CertificateFiles, ServiceBus},
};

/// EdgeCore's value, which is not configurable there.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn convert(written: file::ServiceBus, values: &mut Values<'_>) -> Option<ServiceBus> {
    if !written.enable {
        return None;
    }
    let at = |key: &str| format!("modules.serviceBus.{key}");
    let server = if written.server == "localhost" {
        "127.0.0.1"
    } else {
        &written.server
    };
    let address = values.address(&at("server"), server);
    if !address.is_loopback() && !written.allow_non_loopback {
        let why = "which other machines can reach, and callers are not authenticated; choose a loopback address, or set allowNonLoopback to true";
        values.error(&at("server"), format!("is {address}, {why}"));
    }
    if address.is_loopback() && written.allow_non_loopback {
        values.no_effect(at("allowNonLoopback"), "server is a loopback address");
    }
    let port = values.number(&at("port"), written.port, 1, 65535);
    let call_timeout = values.seconds(&at("callTimeout"), written.call_timeout, 0);
    let ports = written.allowed_ports.into_iter();
    Some(ServiceBus {
        server: SocketAddr::new(address, port),
        tls: tls(written.tls_cert_file, written.tls_private_key_file, values),
        timeout: values.seconds(&at("timeout"), written.timeout, 1),
        call_timeout: if call_timeout.is_zero() {
            CALL_TIMEOUT
        } else {
            call_timeout
        },
        allowed_ports: ports
            .map(|port| values.number(&at("allowedPorts"), port, 1, 65535))
            .collect(),
    })
}

fn tls(cert: String, key: String, values: &mut Values<'_>) -> Option<CertificateFiles> {
    let [at_cert, at_key] = [
        "modules.serviceBus.tlsCertFile",
        "modules.serviceBus.tlsPrivateKeyFile",
    ];
    for (given, missing, at) in [(&key, &cert, at_cert), (&cert, &key, at_key)] {
        if missing.is_empty() && !given.is_empty() {
            values.error(
                at,
                "is missing beside the other of certificate and key; give both, or none for plain HTTP",
            );
            return None;
        }
    }
    let cert = values.optional_path(at_cert, cert)?;
    Some(CertificateFiles {
        cert,
        key: values.optional_path(at_key, key)?,
    })
}
