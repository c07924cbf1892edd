//! Check `certificate`: the node's certificate is valid, of this cloud and this node, and belongs to its key.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use rustls::{RootCertStore, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, UnixTime};
use wire::{
    enroll::{Identity, identity_of, validity_of},
    text::with_causes,
};

use super::{
    cloud_answer::read_ca,
    inputs::Inputs,
    report::{CheckResult, Finding},
    token,
};
use crate::{
    config::{Config, TlsFiles},
    tls::files::{self, TlsError},
};

/// A certificate that expires sooner is reported. The agent renews certificates long before.
const WARN_BEFORE: Duration = Duration::from_hours(7 * 24);
/// The cure of a certificate that cannot be used.
const REJOIN: &str = "run `edge-agent reset`, then `edge-agent join --cloud HOST --token TOKEN` with a new token; add --rejoin if the \
                      cloud still has the Node";

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    let config = inputs.config;
    let found = judge(config, clock::system_now());
    match found.result {
        // without a certificate, the token decides
        CheckResult::Remark(_) if config.edge_hub.token.is_some() => {
            token::check_of_node(config).await.into()
        }
        _ => found,
    }
}

fn judge(config: &Config, now: SystemTime) -> Finding {
    let tls = &config.edge_hub.tls;
    let read = match files::read_all(tls) {
        Ok(read) => read,
        Err(error) => return unreadable(config, &error).into(),
    };
    let Some(certificate) = read.chain.first() else {
        return CheckResult::bad(format!("{} is empty", tls.cert.display()), REJOIN).into();
    };
    let mut parts = vec![
        validity(&tls.cert, certificate, now, "node certificate"),
        owner(config, certificate),
        issuer(tls, certificate, read.roots),
        key(tls),
    ];
    if let Ok(ca) = read_ca(&tls.ca) {
        let found = validity(&tls.ca, &ca, now, "CA certificate of the cloud");
        parts.extend((!matches!(found, CheckResult::Passed(_))).then_some(found));
    }
    Finding::combine(parts, CheckResult::NotApplicable("no certificate".into()))
}

fn unreadable(config: &Config, error: &TlsError) -> CheckResult {
    if error.is_missing() {
        return match config.edge_hub.token {
            Some(_) => CheckResult::Remark(token::NO_CERTIFICATE.into()),
            None => CheckResult::bad(
                format!("{}, and there is no join token", with_causes(error)),
                format!("restore the file, or {REJOIN}"),
            ),
        };
    }
    let cure = match error.is_permission_denied() {
        true => "run this command as root".to_owned(),
        false => format!("restore the file, or {REJOIN}"),
    };
    CheckResult::bad(with_causes(error), cure)
}

fn validity(path: &Path, certificate: &[u8], now: SystemTime, what: &str) -> CheckResult {
    let Ok((begin, end)) = validity_of(certificate) else {
        return CheckResult::bad(format!("{} is no certificate", path.display()), REJOIN);
    };
    let date = |time: SystemTime| {
        Timestamp::try_from(time)
            .map_or_else(|_| "?".to_owned(), |time| time.strftime("%F").to_string())
    };
    if now < begin {
        return CheckResult::bad(
            format!("{what} is not valid before {}", date(begin)),
            "set the clock of this machine: timedatectl set-ntp true",
        );
    }
    match end.duration_since(now) {
        Err(_) => CheckResult::bad(
            format!("{what} expired on {}", date(end)),
            format!("if the check clock fails, set the clock of this machine; otherwise {REJOIN}"),
        ),
        Ok(rest) if rest <= WARN_BEFORE => CheckResult::warning(
            format!(
                "{what} expires on {}, in {} h",
                date(end),
                rest.as_secs() / 3600
            ),
            "connect the node to the cloud: the agent renews its certificate, if modules.edgeHub.rotateCertificates is true; \
             `journalctl -u edge-agent -g certificate` shows failures",
        ),
        Ok(_) => CheckResult::Passed(format!("{what} valid until {}", date(end))),
    }
}

fn owner(config: &Config, certificate: &[u8]) -> CheckResult {
    let name = &config.node.name;
    match identity_of(certificate) {
        Ok(Identity::Node(owner)) if owner == *name => {
            CheckResult::Passed(format!("of node {name}"))
        }
        Ok(other) => CheckResult::bad(
            format!("the certificate is of {other}, but modules.edged.hostnameOverride is {name}"),
            "correct the name in edgecore.yaml, or reset and join again",
        ),
        Err(error) => CheckResult::bad(with_causes(&error), REJOIN),
    }
}

/// Checks that the CA in the file has issued the certificate, whatever the time.
fn issuer(tls: &TlsFiles, certificate: &CertificateDer<'_>, roots: RootCertStore) -> CheckResult {
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
    let begin = validity_of(certificate).map(|(begin, _)| begin).ok();
    let since = begin.and_then(|begin| begin.duration_since(SystemTime::UNIX_EPOCH).ok());
    let time = UnixTime::since_unix_epoch(since.unwrap_or_default());
    let verified = verifier
        .map_err(|error| error.to_string())
        .and_then(|verifier| {
            verifier
                .verify_client_cert(certificate, &[], time)
                .map_err(|error| error.to_string())
        });
    match verified {
        Ok(_) => CheckResult::Passed("issued by the cloud's CA".into()),
        Err(why) => CheckResult::bad(
            format!(
                "the CA in {} has not issued the certificate in {}: {why}",
                tls.ca.display(),
                tls.cert.display()
            ),
            REJOIN,
        ),
    }
}

fn key(tls: &TlsFiles) -> CheckResult {
    match files::client_config(tls) {
        Ok(_) => CheckResult::Passed("belongs to its key".into()),
        Err(error) => CheckResult::bad(with_causes(&error), REJOIN),
    }
}

#[cfg(test)]
mod tests;
