//! Enrolment of a node: tokens, certificates, requests, keys.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use wire::enroll::{
    Ca, EcKey, Token, Usage, identity_of, install_crypto, validity_of, verify_bearer, verify_es256,
};

use crate::corpus;

/// A time within the validity of openssl's token.
const NOW: Duration = Duration::from_secs(1_800_000_000);

static CA: LazyLock<Ca> = LazyLock::new(|| {
    install_crypto();
    let (certificate, key) = (corpus::der("ca.pem"), corpus::der("ca-key.pem"));
    Ca::from_der(&certificate[0], &key[0]).expect("openssl's CA")
});

fn now() -> SystemTime {
    UNIX_EPOCH + NOW
}

pub(super) fn token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(token) = Token::parse(&text)
        && token.verify(&CA, now()).is_ok()
    {
        let good = String::from_utf8(tokens().remove(0)).expect("text");
        assert_eq!(
            token.jwt(),
            Token::parse(&good).expect("a token").jwt(),
            "only the real one is good"
        );
    }
}

pub(super) fn tokens() -> Vec<Vec<u8>> {
    corpus::files("wire/tests/fixtures/openssl", "join-token.txt")
}

pub(super) fn jwt(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let key = EcKey::from_sec1_der(CA.key_sec1_der()).expect("openssl's key");
    let _ = verify_bearer(&text, &CA, now());
    let _ = verify_es256(&text, key.public_key(), now());
}

pub(super) fn jwts() -> Vec<Vec<u8>> {
    let key = EcKey::from_sec1_der(CA.key_sec1_der()).expect("openssl's key");
    let claims = serde_json::json!({"exp": 2_000_000_000_u64, "sub": "system:serviceaccount:default:web", "aud": ["a"]});
    let mut all = vec![key.sign_es256(&claims).expect("a signature").into_bytes()];
    let tokens = tokens();
    let jwt = tokens.first().map(|token| {
        token
            .splitn(2, |byte| *byte == b'.')
            .last()
            .unwrap_or_default()
            .to_vec()
    });
    all.extend(jwt);
    all
}

pub(super) fn certificate(bytes: &[u8]) {
    let _ = identity_of(bytes);
    if let Ok((begin, end)) = validity_of(bytes) {
        // Years beyond the calendar are an error and must not panic.
        let _ = end.duration_since(begin);
    }
    let _ = Ca::from_der(bytes, CA.key_sec1_der());
}

pub(super) fn certificates() -> Vec<Vec<u8>> {
    let mut all = corpus::der("ca.pem");
    let usages = [Usage::ClientAuth];
    let signed = requests().into_iter().filter_map(|request| {
        CA.sign_edge(&request, &usages, Duration::from_secs(3600), now())
            .ok()
    });
    all.extend(signed);
    all
}

pub(super) fn request(bytes: &[u8]) {
    if let Ok(certificate) = CA.sign_edge(
        bytes,
        &[Usage::ClientAuth],
        Duration::from_secs(3600),
        now(),
    ) {
        let identity = identity_of(&certificate).expect("what was signed names somebody");
        assert!(
            matches!(identity, wire::enroll::Identity::Node(_)),
            "{identity:?} was signed"
        );
    }
}

pub(super) fn requests() -> Vec<Vec<u8>> {
    corpus::der("csr-")
}

pub(super) fn key(bytes: &[u8]) {
    if let Ok(key) = EcKey::from_sec1_der(bytes) {
        EcKey::from_sec1_der(key.sec1_der()).expect("what was read is written so that it is read");
    }
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    corpus::der("key-")
        .into_iter()
        .chain(corpus::der("ca-key"))
        .collect()
}
