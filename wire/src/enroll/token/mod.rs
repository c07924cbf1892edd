//! The join token: `<sha256 of the CA's certificate, hex>.<JSON Web Token>`. The first half authenticates the cloud to the node, the second
//! half the node to the cloud.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Ca, TokenError, jwt, key::sha256_hex};

/// The longest join token that is read, characters; real ones have some 190.
const LIMIT: usize = 4096;
/// The length of a SHA-256 hash in hex, characters.
const HASH: usize = 64;

/// A parsed join token. It is a secret, so its `Debug` text does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    ca_hash: String,
    jwt: String,
}

impl Token {
    /// Creates a join token of this authority that is valid for `lifetime` from `now` on.
    ///
    /// # Errors
    /// Its end is beyond the calendar.
    pub fn mint(ca: &Ca, now: SystemTime, lifetime: Duration) -> Result<String, TokenError> {
        let expiry = now
            .checked_add(lifetime)
            .and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let expiry = expiry
            .ok_or(TokenError::Malformed("its lifetime is too long for a date"))?
            .as_secs();
        Self::sign(ca, &json!({ "exp": expiry }))
    }

    /// Creates a join token with a `scope`: its permissions, and the name under which its uses are counted.
    ///
    /// # Errors
    /// As [`Token::mint`].
    pub fn mint_for(
        ca: &Ca,
        now: SystemTime,
        lifetime: Duration,
        scope: &TokenScope,
    ) -> Result<String, TokenError> {
        let expiry = now
            .checked_add(lifetime)
            .and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let expiry = expiry
            .ok_or(TokenError::Malformed("its lifetime is too long for a date"))?
            .as_secs();
        let mut claims = json!({ "exp": expiry });
        for (claim, value) in [("node", &scope.node), ("jti", &scope.id)] {
            if let Some(value) = value {
                claims[claim] = value.as_str().into();
            }
        }
        Self::sign(ca, &claims)
    }

    fn sign(ca: &Ca, claims: &Value) -> Result<String, TokenError> {
        let jwt = jwt::sign_hs256(claims, ca.key_sec1_der())?;
        Ok(format!("{}.{jwt}", sha256_hex(ca.cert_der())))
    }

    /// Parses a join token; surrounding spaces and line ends are ignored.
    ///
    /// # Errors
    /// The text does not have the four parts of a token.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() > LIMIT {
            return Err(TokenError::Malformed("it is too long"));
        }
        let (ca_hash, jwt) = text
            .split_once('.')
            .ok_or(TokenError::Malformed("it has no dots"))?;
        if ca_hash.len() != HASH || !ca_hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(TokenError::Malformed(
                "its first part is no SHA-256 hash in hex",
            ));
        }
        let is_base64 = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if jwt.split('.').count() != 3 || !jwt.split('.').all(is_base64) {
            return Err(TokenError::Malformed(
                "it does not have four parts, the last three in base64",
            ));
        }
        Ok(Self {
            ca_hash: ca_hash.to_ascii_lowercase(),
            jwt: jwt.to_owned(),
        })
    }

    /// Checks that the token is for the cloud with this CA certificate.
    ///
    /// # Errors
    /// The token is for another cloud.
    pub fn check_ca(&self, ca_der: &[u8]) -> Result<(), TokenError> {
        let found = sha256_hex(ca_der);
        if found == self.ca_hash {
            Ok(())
        } else {
            Err(TokenError::WrongCa {
                expected: self.ca_hash.clone(),
                found,
            })
        }
    }

    /// Returns the half that is sent to the cloud, as a bearer token.
    pub fn jwt(&self) -> &str {
        &self.jwt
    }

    /// Returns the token's claims. Only the authority can verify them.
    ///
    /// # Errors
    /// The claims cannot be parsed.
    pub fn claims(&self) -> Result<Claims, TokenError> {
        let malformed = TokenError::Malformed("its third part holds no claims");
        let Some(part) = self.jwt.split('.').nth(1) else {
            return Err(malformed);
        };
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(part) else {
            return Err(malformed);
        };
        serde_json::from_slice(&bytes).map_err(|_| malformed)
    }

    /// Checks that this authority issued the token and that it is valid at `now`.
    ///
    /// # Errors
    /// The token is from another authority, has a false signature, or is not valid at `now`.
    pub fn verify(&self, ca: &Ca, now: SystemTime) -> Result<(), TokenError> {
        self.check_ca(ca.cert_der())?;
        verify_bearer(&self.jwt, ca, now).map(drop)
    }
}

/// Checks that this authority issued the bearer token (the half that [`Token::jwt`] returns) and that it is valid at `now`.
///
/// # Errors
/// The token is malformed, has a false signature, or is not valid at `now`.
pub fn verify_bearer(jwt: &str, ca: &Ca, now: SystemTime) -> Result<TokenScope, TokenError> {
    let claims = jwt::verify_hs256(jwt, ca.key_sec1_der(), now)?;
    let text = |claim: &str| match claims.get(claim) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(TokenError::Malformed(
            "it names a node or itself by something that is no text",
        )),
    };
    Ok(TokenScope {
        node: text("node")?,
        id: text("jti")?,
    })
}

/// The claims of a join token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Claims {
    /// The expiry, seconds since 1970.
    #[serde(rename = "exp")]
    pub expires: u64,
    /// The only node that may use the token.
    #[serde(default)]
    pub node: Option<String>,
}

/// The permitted use of a join token. KubeEdge's own tokens are for any node and have no id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenScope {
    /// The only node that may use the token.
    pub node: Option<String>,
    /// The token's id, if its uses are counted.
    pub id: Option<String>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("ca_hash", &self.ca_hash)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
