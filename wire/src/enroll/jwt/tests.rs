//! Service account tokens, and forged tokens.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;
use crate::enroll::vectors;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn key() -> EcKey {
    EcKey::from_sec1_der(&vectors::ca_key()).unwrap()
}

#[test]
fn claims_come_out_as_they_went_in() {
    let claims = json!({
        "iss": "https://cloud", "aud": ["a", "b"], "sub": "system:serviceaccount:default:app",
        "iat": 100, "nbf": 100, "exp": 200, "kubernetes.io": {"namespace": "default"},
    });
    let jwt = key().sign_es256(&claims).unwrap();
    for now in [100, 199] {
        assert_eq!(
            verify_es256(&jwt, key().public_key(), at(now)).unwrap(),
            claims
        );
    }
    let error = |now| verify_es256(&jwt, key().public_key(), at(now)).unwrap_err();
    assert!(matches!(error(99), TokenError::TooEarly { until } if until.as_secs() == 1));
    assert!(matches!(error(200), TokenError::Expired { since } if since.is_zero()));
}

#[test]
fn other_keys_and_algorithms_are_refused() {
    let (key, other) = (key(), EcKey::generate().unwrap());
    let claims = json!({"exp": 200});
    let jwt = key.sign_es256(&claims).unwrap();
    assert!(matches!(
        verify_es256(&jwt, other.public_key(), at(0)),
        Err(TokenError::BadSignature)
    ));
    assert!(matches!(
        verify_es256(&jwt, b"no point", at(0)),
        Err(TokenError::BadSignature)
    ));
    // signed with the public key as an HMAC secret, and not signed at all
    let confused = sign_hs256(&claims, key.public_key()).unwrap();
    assert!(matches!(
        verify_es256(&confused, key.public_key(), at(0)),
        Err(TokenError::Malformed(_))
    ));
    assert!(matches!(
        verify_hs256(&jwt, key.public_key(), at(0)),
        Err(TokenError::Malformed(_))
    ));
    let body = jwt.split('.').nth(1).unwrap();
    for header in [r#"{"alg":"none"}"#, r#"{"alg":"HS512"}"#, "{}", "[]", ""] {
        let unsigned = format!("{}.{body}.", URL_SAFE_NO_PAD.encode(header));
        assert!(
            matches!(
                verify_es256(&unsigned, key.public_key(), at(0)),
                Err(TokenError::Malformed(_))
            ),
            "{header}"
        );
    }
}

#[test]
fn a_token_must_say_its_time() {
    for claims in [
        json!({}),
        json!({"exp": "200"}),
        json!({"exp": -1}),
        json!({"exp": 200, "nbf": null}),
        json!([]),
    ] {
        let jwt = key().sign_es256(&claims).unwrap();
        assert!(
            matches!(
                verify_es256(&jwt, key().public_key(), at(0)),
                Err(TokenError::Malformed(_))
            ),
            "{claims}"
        );
    }
}

#[test]
fn an_endless_token_is_not_read() {
    let jwt = format!("{}.a.b", "a".repeat(LIMIT));
    assert!(matches!(
        verify_es256(&jwt, key().public_key(), at(0)),
        Err(TokenError::Malformed("it is too long"))
    ));
}

#[test]
fn a_token_of_an_account_is_good_for_another_minute_with_leeway() {
    let key = EcKey::generate().unwrap();
    let jwt = key.sign_es256(&json!({"exp": 1000, "nbf": 500})).unwrap();
    let leeway = Duration::from_secs(60);
    for (now, good) in [
        (439, false),
        (440, true),
        (999, true),
        (1059, true),
        (1060, false),
        (1061, false),
    ] {
        let now = UNIX_EPOCH + Duration::from_secs(now);
        assert_eq!(
            verify_es256_within(&jwt, key.public_key(), now, leeway).is_ok(),
            good,
            "{now:?}"
        );
    }
    assert!(
        verify_es256(
            &jwt,
            key.public_key(),
            UNIX_EPOCH + Duration::from_secs(1000)
        )
        .is_err()
    );
}
