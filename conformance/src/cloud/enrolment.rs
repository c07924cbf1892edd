//! How a node gets its certificate.

use std::sync::Arc;

use peer::{Failure, ensure, session::Automatic};
use wire::enroll::{Csr, identity_of, sha256_hex};

use super::target::Target;

pub(super) async fn ca(target: Arc<Target>) -> Result<(), Failure> {
    let answer = target.dialer.request_ca().await?;
    let status = answer.status().as_u16();
    ensure!(status == 200, "/ca.crt answered {status}");
    target.token.check_ca(answer.body())?;
    Ok(())
}

pub(super) async fn token(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("token");
    let csr = Csr::for_node(&name)?;
    let bearer = target.token.jwt();
    let answer = target
        .dialer
        .certify(&name, Some(bearer), None, csr.der().to_vec())
        .await?;
    let status = answer.status().as_u16();
    let certificate = answer.body();
    ensure!(status == 200, "the request was answered with {status}");
    let owner = format!("{:?}", identity_of(certificate)?);
    ensure!(owner.contains(&name), "the certificate is for {owner}");
    // a certificate of another key gives no session
    let identity = peer::identity::Identity {
        certificate: certificate.to_vec(),
        key: csr.key_sec1_der(),
    };
    target.connect(&name, &identity, Automatic::EDGE).await?;
    Ok(())
}

pub(super) async fn bad_token(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("bad-token");
    let jwt = target.token.jwt();
    // another signature of the same length
    let (claims, signature) = jwt.rsplit_once('.').unwrap_or((jwt, ""));
    let reversed: String = signature.chars().rev().collect();
    for bearer in [
        format!("{claims}.{reversed}"),
        format!("{claims}."),
        "x".to_owned(),
    ] {
        let csr = Csr::for_node(&name)?;
        let answer = target
            .dialer
            .certify(&name, Some(&bearer), None, csr.der().to_vec())
            .await?;
        let status = answer.status().as_u16();
        ensure!(status == 401, "a damaged token was answered with {status}");
    }
    Ok(())
}

pub(super) async fn no_token(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("no-token");
    let csr = Csr::for_node(&name)?;
    let answer = target
        .dialer
        .certify(&name, None, None, csr.der().to_vec())
        .await?;
    let status = answer.status().as_u16();
    ensure!(
        status == 401,
        "a request without a token was answered with {status}"
    );
    Ok(())
}

pub(super) async fn renewal(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("renewal");
    let identity = target.enrol(&name).await?;
    let csr = Csr::for_node(&name)?;
    let answer = target
        .dialer
        .certify(&name, None, Some(&identity), csr.der().to_vec())
        .await?;
    let status = answer.status().as_u16();
    let certificate = answer.body();
    ensure!(status == 200, "the renewal was answered with {status}");
    ensure!(
        sha256_hex(certificate) != sha256_hex(&identity.certificate),
        "the renewal returned the former certificate"
    );
    let owner = format!("{:?}", identity_of(certificate)?);
    ensure!(owner.contains(&name), "the certificate is for {owner}");
    Ok(())
}

pub(super) async fn other_name(target: Arc<Target>) -> Result<(), Failure> {
    let (name, other) = (target.node_name("renewal-a"), target.node_name("renewal-b"));
    let identity = target.enrol(&name).await?;
    let csr = Csr::for_node(&other)?;
    let answer = target
        .dialer
        .certify(&other, None, Some(&identity), csr.der().to_vec())
        .await?;
    let status = answer.status().as_u16();
    ensure!(
        (400..500).contains(&status),
        "the certificate of one node gave one for another: {status}"
    );
    Ok(())
}

pub(super) async fn bad_request(target: Arc<Target>) -> Result<(), Failure> {
    let name = target.node_name("bad-request");
    let bearer = target.token.jwt();
    for body in [Vec::new(), b"no request".to_vec(), vec![0x30; 4096]] {
        let answer = target
            .dialer
            .certify(&name, Some(bearer), None, body)
            .await?;
        let status = answer.status().as_u16();
        ensure!(
            (400..600).contains(&status),
            "a damaged request was answered with {status}"
        );
    }
    target.enrol(&name).await?;
    Ok(())
}
