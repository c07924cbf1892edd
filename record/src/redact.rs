//! Replaces secrets in texts and documents: those that are known, and whatever looks like one. Pure.

use std::collections::BTreeSet;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use serde_json::{Map, Value};
use wire::{Message, ResourceType};

/// The text that replaces a secret.
pub const MASK: &str = "***";
/// Shorter secrets are not searched for: they would match anywhere.
const MIN_LENGTH: usize = 6;
/// Keys whose values are secret end with one of these words, without regard to case, `-` and `_`.
const SECRET_KEYS: [&str; 18] = [
    "token",
    "tokens",
    "password",
    "passwords",
    "apikeys",
    "passwd",
    "pass",
    "pwd",
    "passphrase",
    "secret",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "secretkey",
    "cookie",
];
/// Keys of volumes and projections whose value names a Secret.
const SOURCE_KEYS: [&str; 2] = ["secret", "serviceAccountToken"];
/// The fields of such a value.
const SOURCE_FIELDS: [&str; 8] = [
    "secretName",
    "name",
    "items",
    "optional",
    "defaultMode",
    "audience",
    "expirationSeconds",
    "path",
];
/// The shortest text that is decoded as base64 to search it.
const MIN_BASE64: usize = 16;
/// The beginning of a JSON Web Token: `{"` in base64.
const JWT: &str = "eyJ";
/// The shortest token that is recognized as one.
const MIN_TOKEN: usize = 30;
/// The lines around a private key.
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";
const PRIVATE: &str = "PRIVATE KEY-----";

/// Replaces secrets.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// The known secrets in all their forms, the longest first.
    known: Vec<String>,
}

impl Redactor {
    /// Creates a redactor that knows these secrets, in plain text and in base64.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut known = BTreeSet::new();
        for secret in secrets {
            let secret = secret.trim();
            if secret.len() < MIN_LENGTH {
                continue;
            }
            for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                known.insert(engine.encode(secret));
            }
            // a Secret's data is in base64 already
            if let Ok(plain) = STANDARD.decode(secret)
                && let Ok(plain) = String::from_utf8(plain)
                && plain.trim().len() >= MIN_LENGTH
            {
                known.insert(plain.trim().to_owned());
            }
            known.insert(secret.to_owned());
        }
        let mut known: Vec<String> = known.into_iter().collect();
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { known }
    }

    /// Returns a log without secrets.
    pub fn bytes(&self, log: &[u8]) -> Vec<u8> {
        self.text(&String::from_utf8_lossy(log)).into_bytes()
    }

    /// Returns the text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut is_in_key = false;
        for line in self.mask_known(text).split_inclusive('\n') {
            let is_begin = line.contains(KEY_BEGIN) && line.contains(PRIVATE);
            if is_begin {
                // a whole key on one line, with escaped ends of lines
                if line.contains(KEY_END) {
                    result.push_str(MASK);
                    result.push('\n');
                    continue;
                }
                is_in_key = true;
                result.push_str(MASK);
                result.push('\n');
            }
            if !is_in_key {
                result.push_str(&mask_line(line));
            }
            if is_in_key && line.contains(KEY_END) {
                is_in_key = false;
            }
        }
        result
    }

    /// Replaces secrets in a document.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                for (key, value) in map {
                    if !mask_secret(key, value) {
                        self.value(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the arguments of a program without secrets: the value of an option such as `--token` may follow it.
    pub fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let mut is_value = false;
        let mask = |argument: &&str| {
            let is_option = argument.starts_with('-');
            let is_secret = std::mem::replace(&mut is_value, is_option && is_secret_key(argument));
            match is_secret && !is_option {
                true => MASK.to_owned(),
                false => self.text(argument),
            }
        };
        arguments.iter().map(mask).collect()
    }

    /// Replaces secrets in a message, also in JSON text and in base64 inside of it. The data of a Secret stays base64.
    pub fn message(&self, message: &mut Message) {
        let object = message.route.resource.as_object();
        let is_secret = object.is_some_and(|object| object.kind == ResourceType::Secret);
        self.content(&mut message.content, is_secret);
    }

    /// Replaces secrets in the body of a request or a response, base64.
    pub(crate) fn body(&self, body: &mut String) {
        if let Some(masked) = self.mask_embedded(body, false) {
            *body = masked;
        }
    }

    /// Replaces secrets in a content. `is_secret`: it is a Secret, or contains one.
    fn content(&self, value: &mut Value, is_secret: bool) {
        match value {
            Value::String(text) => {
                if let Some(masked) = self.mask_embedded(text, is_secret) {
                    *text = masked;
                }
            }
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.content(item, is_secret)),
            Value::Object(map) => {
                let is_secret = is_secret || has_secrets(map);
                for (key, value) in map {
                    match (key.as_str(), value) {
                        ("data" | "stringData", Value::Object(data)) if is_secret => {
                            mask_data(data, key == "data");
                        }
                        ("annotations", Value::Object(annotations)) if is_secret => {
                            mask_data(annotations, false);
                        }
                        ("env", Value::Array(variables)) => {
                            variables.iter_mut().for_each(mask_variable);
                        }
                        (key, value) => {
                            if !mask_secret(key, value) {
                                self.content(value, is_secret);
                            }
                        }
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns a text without secrets, which may be JSON or base64; `None` if it has none.
    fn mask_embedded(&self, text: &str, is_secret: bool) -> Option<String> {
        if text.starts_with(['{', '['])
            && let Ok(before) = serde_json::from_str::<Value>(text)
        {
            let mut after = before.clone();
            self.content(&mut after, is_secret);
            return (after != before).then(|| after.to_string());
        }
        if text.len() >= MIN_BASE64
            && let Ok(bytes) = STANDARD.decode(text)
            && let Ok(plain) = String::from_utf8(bytes)
        {
            return self
                .mask_embedded(&plain, is_secret)
                .map(|masked| STANDARD.encode(masked));
        }
        Some(self.text(text)).filter(|masked| masked != text)
    }

    fn mask_known(&self, text: &str) -> String {
        let found = self.known.iter().filter(|secret| text.contains(*secret));
        found.fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

/// Reports whether an object is a Secret, a list of Secrets or a request for one.
fn has_secrets(map: &Map<String, Value>) -> bool {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let is_opaque = map.contains_key("data") && text("type").is_some();
    // a request of MetaServer has the plural
    let is_request = text("Key").is_some_and(|key| key.contains("/secrets"));
    matches!(text("kind"), Some("Secret" | "SecretList")) || is_opaque || is_request
}

/// Replaces all texts of a map.
fn mask_data(data: &mut Map<String, Value>, is_base64: bool) {
    let mask = if is_base64 {
        STANDARD.encode(MASK)
    } else {
        MASK.to_owned()
    };
    for value in data.values_mut().filter(|value| value.is_string()) {
        *value = mask.clone().into();
    }
}

/// Replaces the value of a secret key, and all texts and numbers in it. Returns false if the key is none, or its value names a Secret.
fn mask_secret(key: &str, value: &mut Value) -> bool {
    let names_secret = SOURCE_KEYS.contains(&key)
        && (value.as_object()).is_some_and(|source| source.keys().all(|key| is_of_source(key)));
    if !is_secret_key(key) || names_secret {
        return false;
    }
    mask_all(value);
    true
}

/// Reports whether a volume or a reference may have this field beside the name of its Secret.
fn is_of_source(key: &str) -> bool {
    SOURCE_FIELDS.contains(&key)
}

fn mask_all(value: &mut Value) {
    match value {
        Value::String(text) if !text.is_empty() => MASK.clone_into(text),
        Value::Number(_) => *value = MASK.into(),
        Value::Array(items) => items.iter_mut().for_each(mask_all),
        Value::Object(map) => map.values_mut().for_each(mask_all),
        Value::String(_) | Value::Null | Value::Bool(_) => {}
    }
}

/// Replaces the value of an environment variable. Its name cannot tell whether it is a secret.
fn mask_variable(variable: &mut Value) {
    if let Some(value) = variable.get_mut("value").filter(|value| value.is_string()) {
        *value = Value::from(MASK);
    }
}

/// Reports whether the values of a key are secret.
fn is_secret_key(key: &str) -> bool {
    let key: String = key
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    SECRET_KEYS.iter().any(|word| key.ends_with(word))
}

fn mask_line(line: &str) -> String {
    let line = mask_values(line);
    let line = mask_credentials(&line);
    mask_tokens(&line)
}

/// Replaces the values of secret keys: `key: value`, `"key": "value"`, `key=value`.
fn mask_values(line: &str) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find([':', '=']) {
        let (before, after) = rest.split_at(at + 1);
        result.push_str(before);
        rest = after;
        let word = before[..at].trim_end_matches(['"', '\'', ' ']);
        let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
        let start = word.rfind(|letter| !is_letter(letter)).map_or(0, |found| {
            found + word[found..].chars().next().map_or(1, char::len_utf8)
        });
        if !is_secret_key(&word[start..]) || rest.starts_with("//") {
            continue;
        }
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let value = &rest[blank..];
        let length = value_length(value);
        if length == 0 {
            continue;
        }
        result.push_str(&rest[..blank]);
        result.push_str(MASK);
        rest = &value[length..];
    }
    result.push_str(rest);
    result
}

/// Returns the length of a value: up to its closing quote, or the next blank, comma or bracket. A scheme such as `Bearer` is part of it.
fn value_length(value: &str) -> usize {
    let mut letters = value.char_indices();
    if let Some((_, quote @ ('"' | '\''))) = letters.next() {
        let mut is_escaped = false;
        let end = letters.find(|(_, letter)| {
            let is_end = *letter == quote && !is_escaped;
            is_escaped = *letter == '\\' && !is_escaped;
            is_end
        });
        return match end {
            // an empty text is no secret
            Some((1, _)) => 0,
            Some((at, _)) => at + 1,
            None => value.trim_end().len(),
        };
    }
    for scheme in ["Bearer ", "Basic "] {
        if let Some(rest) = value.strip_prefix(scheme) {
            return scheme.len() + value_length(rest);
        }
    }
    let is_end =
        |letter: char| letter.is_whitespace() || [',', '}', ']', ')', '&', ';'].contains(&letter);
    value.find(is_end).unwrap_or(value.len())
}

/// Replaces user and password in URLs.
fn mask_credentials(line: &str) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        result.push_str(before);
        let is_end =
            |letter: char| letter.is_whitespace() || ['/', '"', '\'', '?', '#'].contains(&letter);
        let end = after.find(is_end).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(host) => {
                result.push_str(MASK);
                rest = &after[host..];
            }
            None => rest = after,
        }
    }
    result.push_str(rest);
    result
}

/// Replaces JSON Web Tokens, and join tokens, which begin with a hash.
fn mask_tokens(line: &str) -> String {
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&letter);
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(is_part) {
        let (before, after) = rest.split_at(begin);
        result.push_str(before);
        let end = after.find(|letter| !is_part(letter)).unwrap_or(after.len());
        let word = &after[..end];
        let is_token = word.len() >= MIN_TOKEN
            && word.matches('.').count() >= 2
            && word.split('.').any(|part| part.starts_with(JWT));
        result.push_str(if is_token { MASK } else { word });
        rest = &after[end..];
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_look_like_secrets_are_replaced_and_names_of_files_are_not() {
        let jwt = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJlZGdlLTEifQ.c2lnbmF0dXJl";
        let hash = "0123456789abcdef".repeat(4);
        for (line, expected) in [
            ("token: abc", "token: ***"),
            ("    token: \"\"", "    token: \"\""),
            ("mqttPassword: 'a b' # note", "mqttPassword: *** # note"),
            (
                "{\"password\": \"x\\\"y\", \"user\": \"me\"}",
                "{\"password\": ***, \"user\": \"me\"}",
            ),
            ("password=abc,uid=0", "password=***,uid=0"),
            ("Authorization: Bearer abc.def", "Authorization: ***"),
            (
                "tlsPrivateKeyFile: /etc/a.key",
                "tlsPrivateKeyFile: /etc/a.key",
            ),
            ("secretName: db", "secretName: db"),
            (
                "HTTPS_PROXY=http://me:pw@proxy:3128/x",
                "HTTPS_PROXY=http://***@proxy:3128/x",
            ),
            ("https://cloud:10002/ca.crt", "https://cloud:10002/ca.crt"),
            ("mail@example.com", "mail@example.com"),
            (
                &format!("error with {jwt}, retrying"),
                "error with ***, retrying",
            ),
            (&format!("join {hash}.{jwt}"), "join ***"),
            ("a.b.c version 1.2.3", "a.b.c version 1.2.3"),
            ("ä: ü token=ß", "ä: ü token=***"),
        ] {
            assert_eq!(Redactor::default().text(line), expected);
        }
    }

    #[test]
    fn private_keys_are_replaced_whole() {
        let text =
            "a\n-----BEGIN EC PRIVATE KEY-----\nMHcC\nAQEE\n-----END EC PRIVATE KEY-----\nb\n";
        assert_eq!(Redactor::default().text(text), "a\n***\nb\n");
        let one = "x -----BEGIN PRIVATE KEY-----\\nMHcC\\n-----END PRIVATE KEY----- y\n";
        assert_eq!(Redactor::default().text(one), "***\n");
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        assert_eq!(Redactor::default().text(certificate), certificate);
        assert!(
            !Redactor::default()
                .text("-----BEGIN RSA PRIVATE KEY-----\nMHcC")
                .contains("MHcC")
        );
    }

    #[test]
    fn values_of_secret_options_are_replaced() {
        let arguments = [
            "up",
            "--token",
            "abc",
            "--name",
            "x",
            "--password=y",
            "--token-file",
            "f",
            "-v",
        ];
        let expected = [
            "up",
            "--token",
            "***",
            "--name",
            "x",
            "--password=***",
            "--token-file",
            "f",
            "-v",
        ];
        assert_eq!(Redactor::default().arguments(&arguments), expected);
    }

    #[test]
    fn known_secrets_are_replaced_in_plain_text_and_in_base64() {
        let redactor = Redactor::new([
            "canary-7".to_owned(),
            STANDARD.encode("other-canary"),
            "ab".to_owned(),
        ]);
        let text = format!(
            "log of canary-7, {}, {}, other-canary, {}, abba",
            STANDARD.encode("canary-7"),
            URL_SAFE_NO_PAD.encode("canary-7"),
            STANDARD.encode("other-canary"),
        );
        assert_eq!(redactor.text(&text), "log of ***, ***, ***, ***, ***, abba");
        let mut value =
            json!({"a": ["canary-7", {"apiKey": "k", "api_key": "", "Token": 5}], "user": "me"});
        redactor.value(&mut value);
        let expected =
            json!({"a": ["***", {"apiKey": "***", "api_key": "", "Token": "***"}], "user": "me"});
        assert_eq!(value, expected);
    }

    #[test]
    fn values_below_secret_keys_are_replaced_and_names_of_secrets_are_not() {
        let mut value = json!({
            "password": {"value": "p", "list": [{"deep": 1}], "isSet": true},
            "credentials": [{"key": "k"}, null],
            "secret": {"secretName": "db", "items": [{"key": "k", "path": "p"}]},
            "serviceAccountToken": {"path": "token", "expirationSeconds": 3600},
        });
        Redactor::default().value(&mut value);
        let expected = json!({
            "password": {"value": "***", "list": [{"deep": "***"}], "isSet": true},
            "credentials": [{"key": "***"}, null],
            "secret": {"secretName": "db", "items": [{"key": "k", "path": "p"}]},
            "serviceAccountToken": {"path": "token", "expirationSeconds": 3600},
        });
        assert_eq!(value, expected);
    }
}
