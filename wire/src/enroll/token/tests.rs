//! Which join tokens are accepted.

use proptest::prelude::*;

use super::*;
use crate::enroll::vectors;

const EXPIRY: u64 = 2_000_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn openssl_ca() -> Ca {
    Ca::from_der(&vectors::ca(), &vectors::ca_key()).unwrap()
}

#[test]
fn a_token_made_elsewhere_is_taken() {
    let (ca, token) = (openssl_ca(), Token::parse(vectors::TOKEN).unwrap());
    token.check_ca(&vectors::ca()).unwrap();
    token.verify(&ca, at(EXPIRY - 1)).unwrap();
    assert_eq!(
        token.jwt(),
        vectors::TOKEN.trim().split_once('.').unwrap().1
    );
}

#[test]
fn a_token_says_when_it_ends_and_nothing_else() {
    let ca = openssl_ca();
    let minted = Token::mint(&ca, at(EXPIRY - 60), Duration::from_secs(60)).unwrap();
    Token::parse(&minted)
        .unwrap()
        .verify(&ca, at(EXPIRY - 1))
        .unwrap();
    let parts = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (minted, elsewhere) = (parts(&minted), parts(vectors::TOKEN));
    assert_eq!((&minted[0], &minted[2]), (&elsewhere[0], &elsewhere[2]));
}

#[test]
fn a_token_expires() {
    let (ca, token) = (openssl_ca(), Token::parse(vectors::TOKEN).unwrap());
    for (late, now) in [(0, at(EXPIRY)), (9, at(EXPIRY + 9))] {
        let error = token.verify(&ca, now).unwrap_err();
        assert!(
            matches!(error, TokenError::Expired { since } if since.as_secs() == late),
            "{error}"
        );
        assert!(error.to_string().contains("get a new one"));
    }
}

#[test]
fn another_clouds_token_is_refused() {
    let (ca, other) = (openssl_ca(), Ca::generate(at(EXPIRY)).unwrap());
    let text = Token::mint(&other, at(EXPIRY), Duration::from_secs(60)).unwrap();
    let token = Token::parse(&text).unwrap();
    let error = token.check_ca(ca.cert_der()).unwrap_err().to_string();
    assert!(
        error.contains(&sha256_hex(ca.cert_der())) && error.contains(&sha256_hex(other.cert_der())),
        "{error}"
    );
    assert!(matches!(
        token.verify(&ca, at(EXPIRY)),
        Err(TokenError::WrongCa { .. })
    ));
    // the right CA's hash before a wrong signature
    let spliced = format!("{}.{}", sha256_hex(ca.cert_der()), token.jwt());
    let error = Token::parse(&spliced)
        .unwrap()
        .verify(&ca, at(EXPIRY))
        .unwrap_err();
    assert!(matches!(error, TokenError::BadSignature), "{error}");
}

#[test]
fn what_is_no_token_is_refused() {
    let good = vectors::TOKEN.trim();
    let (hash, jwt) = good.split_once('.').unwrap();
    for bad in [
        "",
        ".",
        "...",
        hash,
        jwt,
        &format!("{hash}.{jwt}.x"),
        &format!("{}.{jwt}", &hash[1..]),
        &format!("{}g.{jwt}", &hash[1..]),
        &format!("{hash}.a.b"),
        &format!("{hash}.a..b"),
        &format!("{hash}.a.b.c d"),
        &good.replace('.', " "),
        &"a".repeat(LIMIT + 1),
    ] {
        assert!(
            matches!(Token::parse(bad), Err(TokenError::Malformed(_))),
            "{bad}"
        );
    }
    assert_eq!(
        Token::parse(&format!(" {}.{jwt}\n", hash.to_uppercase())).unwrap(),
        Token::parse(good).unwrap()
    );
}

#[test]
fn debug_keeps_the_secret() {
    let token = Token::parse(vectors::TOKEN).unwrap();
    assert!(!format!("{token:?}").contains(token.jwt.rsplit_once('.').unwrap().1));
}

#[test]
fn lifetimes_beyond_the_calendar_are_refused() {
    assert!(matches!(
        Token::mint(&openssl_ca(), at(0), Duration::MAX),
        Err(TokenError::Malformed(_))
    ));
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}|[0-9a-f]{64}\\.[A-Za-z0-9_-]{1,20}\\.[A-Za-z0-9_-]{1,20}\\.[A-Za-z0-9_-]{1,20}") {
        let ca = openssl_ca();
        if let Ok(token) = Token::parse(&text) {
            prop_assert!(token.verify(&ca, at(0)).is_err());
        }
        prop_assert!(verify_bearer(&text, &ca, at(0)).is_err());
    }

    #[test]
    fn a_changed_token_is_refused(place in 0_usize..190, by in 1_u8..127) {
        let (ca, good) = (openssl_ca(), vectors::TOKEN.trim());
        let mut bytes = good.as_bytes().to_vec();
        let place = place % bytes.len();
        bytes[place] = (bytes[place] + by) % 128;
        let changed = String::from_utf8(bytes).unwrap();
        // trimmed ends and another case of the hash do not change the token
        prop_assume!(changed.trim().len() == good.len() && !changed.eq_ignore_ascii_case(good));
        let taken = Token::parse(&changed).and_then(|token| token.verify(&ca, at(EXPIRY - 1)));
        prop_assert!(taken.is_err(), "{}", changed);
    }
}
