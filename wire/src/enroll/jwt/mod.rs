//! JSON Web Tokens with ring: HS256 for join tokens, ES256 for service account tokens.
//!
//! The JWT library uses a process-wide cryptography provider; this file installs ring, the only one that is linked. Times are checked here
//! and not by the library, which would read the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Header, Validation,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey,
    },
};
use serde_json::Value;
use signature::{Signer, Verifier};

use super::{EcKey, TokenError};

/// The longest token that is read, bytes; a service account token has some 1,200.
const LIMIT: usize = 16 * 1024;

static RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs ring as this process's cryptography for JSON Web Tokens. Everything in this module calls it; call it yourself only before using
/// the JWT library directly. Repeated calls are harmless.
pub fn install_crypto() {
    // an error means that a provider is installed already
    let _ = RING.install_default();
}

impl EcKey {
    /// Signs these claims with ES256 and returns the token.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn sign_es256(&self, claims: &Value) -> Result<String, TokenError> {
        sign(
            Algorithm::ES256,
            claims,
            &EncodingKey::from_ec_der(self.pkcs8_der()),
        )
    }
}

/// Returns the claims of a token that the owner of `public_key` (see [`EcKey::public_key`]) has signed with ES256 and that is valid at
/// `now`. The caller must check issuer and audience.
///
/// # Errors
/// The token is malformed, signed by another key, not valid yet, or expired.
pub fn verify_es256(jwt: &str, public_key: &[u8], now: SystemTime) -> Result<Value, TokenError> {
    verify_es256_within(jwt, public_key, now, Duration::ZERO)
}

/// Verifies a token like [`verify_es256`], for clocks that may differ by `leeway`.
///
/// # Errors
/// As [`verify_es256`].
pub fn verify_es256_within(
    jwt: &str,
    public_key: &[u8],
    now: SystemTime,
    leeway: Duration,
) -> Result<Value, TokenError> {
    verify(
        Algorithm::ES256,
        jwt,
        &DecodingKey::from_ec_der(public_key),
        now,
        leeway,
    )
}

pub(super) fn sign_hs256(claims: &Value, key: &[u8]) -> Result<String, TokenError> {
    sign(Algorithm::HS256, claims, &EncodingKey::from_secret(key))
}

pub(super) fn verify_hs256(jwt: &str, key: &[u8], now: SystemTime) -> Result<Value, TokenError> {
    verify(
        Algorithm::HS256,
        jwt,
        &DecodingKey::from_secret(key),
        now,
        Duration::ZERO,
    )
}

fn sign(algorithm: Algorithm, claims: &Value, key: &EncodingKey) -> Result<String, TokenError> {
    install_crypto();
    jsonwebtoken::encode(&Header::new(algorithm), claims, key).map_err(TokenError::Sign)
}

fn verify(
    algorithm: Algorithm,
    jwt: &str,
    key: &DecodingKey,
    now: SystemTime,
    leeway: Duration,
) -> Result<Value, TokenError> {
    install_crypto();
    if jwt.len() > LIMIT {
        return Err(TokenError::Malformed("it is too long"));
    }
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let claims =
        jsonwebtoken::decode::<Value>(jwt, key, &validation).map_err(|error| {
            match error.kind() {
                ErrorKind::InvalidSignature => TokenError::BadSignature,
                ErrorKind::InvalidAlgorithm => {
                    TokenError::Malformed("it is signed with another algorithm")
                }
                _ => TokenError::Malformed("not a JSON Web Token"),
            }
        })?;
    in_time(&claims.claims, now, leeway)?;
    Ok(claims.claims)
}

/// Checks that `now` is before `exp`, which is required, and not before `nbf`, which is optional, with a tolerance of `leeway`.
fn in_time(claims: &Value, now: SystemTime, leeway: Duration) -> Result<(), TokenError> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = |name| {
        claims
            .get(name)
            .map(|value: &Value| value.as_u64().map(Duration::from_secs))
    };
    match (at("exp"), at("nbf")) {
        (Some(Some(expiry)), _) if now >= expiry.saturating_add(leeway) => {
            Err(TokenError::Expired {
                since: now - expiry,
            })
        }
        (_, Some(Some(start))) if now.saturating_add(leeway) < start => {
            Err(TokenError::TooEarly { until: start - now })
        }
        (Some(Some(_)), None | Some(Some(_))) => Ok(()),
        _ => Err(TokenError::Malformed("its period of validity is missing")),
    }
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Ok(match algorithm {
        Algorithm::HS256 => Box::new(Hmac(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))),
        Algorithm::ES256 => Box::new(EcdsaSigner(
            EcdsaKeyPair::from_pkcs8(
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                key.as_bytes(),
                &SystemRandom::new(),
            )
            .map_err(|_| ErrorKind::InvalidEcdsaKey)?,
        )),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    })
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    Ok(match (algorithm, key.kind()) {
        (Algorithm::HS256, _) => Box::new(Hmac(hmac::Key::new(
            hmac::HMAC_SHA256,
            key.try_get_as_bytes()?,
        ))),
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => Box::new(EcdsaVerifier(
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point.clone()),
        )),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    })
}

struct Hmac(hmac::Key);

impl Signer<Vec<u8>> for Hmac {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hmac {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct EcdsaSigner(EcdsaKeyPair);

impl Signer<Vec<u8>> for EcdsaSigner {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        let signed = self
            .0
            .sign(&SystemRandom::new(), message)
            .map_err(|_| signature::Error::new())?;
        Ok(signed.as_ref().to_vec())
    }
}

impl JwtSigner for EcdsaSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

struct EcdsaVerifier(UnparsedPublicKey<Vec<u8>>);

impl Verifier<Vec<u8>> for EcdsaVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        self.0
            .verify(message, signature)
            .map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for EcdsaVerifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

#[cfg(test)]
mod tests;
