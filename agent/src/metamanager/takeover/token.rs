//! Parses and formats the keys under which EdgeCore stores tokens of service accounts. Pure.
//!
//! A key is written by Go's `fmt` verbs `%q` and `%#v`:
//! `"app"/"default"/[]string(nil)/3607/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"p", UID:"…"}`.
//!
//! Source: KubeEdge, `edge/pkg/metamanager/client/serviceaccount.go`; the kubelet's token manager.

use objectstore::Key;
use serde_json::{Value, json};

use crate::metamanager::remote::stored_token;

/// The lifetimes that pods request by default, seconds.
const DEFAULT_LIFETIMES_SECONDS: [i64; 2] = [3607, 3600];

/// The request that a token was issued for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::metamanager) struct TokenRequest {
    pub(in crate::metamanager) account: String,
    pub(in crate::metamanager) namespace: String,
    audiences: Vec<String>,
    seconds: i64,
    /// The UID of the pod that the token is bound to; empty if it is not bound.
    pod_uid: String,
    /// The name of the pod; empty if it is not known.
    pod_name: String,
}

impl TokenRequest {
    /// Parses a key; `None` if it is no key of a token.
    pub(in crate::metamanager) fn read(key: &str) -> Option<Self> {
        let (account, rest) = parse_quoted(key)?;
        let (namespace, rest) = parse_quoted(rest.strip_prefix('/')?)?;
        let (audiences, rest) = audiences(rest.strip_prefix('/')?)?;
        let (seconds, reference) = rest.strip_prefix('/')?.split_once('/')?;
        let field = |name: &str| {
            let found = reference
                .split_once(name)
                .and_then(|(_, text)| parse_quoted(text));
            found.map(|(text, _)| text).unwrap_or_default()
        };
        let (pod_uid, pod_name) = (field(", UID:"), field(", Name:"));
        Some(Self {
            account,
            namespace,
            audiences,
            seconds: seconds.parse().ok()?,
            pod_uid,
            pod_name,
        })
    }

    /// Reconstructs the request of the token at `key`, which holds only a fingerprint of it; `None` if that is impossible.
    /// `pod_name` is the name of the pod that the token is bound to.
    pub(in crate::metamanager) fn of_kept(
        key: &Key,
        kept: &Value,
        pod_name: Option<&str>,
    ) -> Option<Self> {
        let (account, _) = key.name.rsplit_once('.')?;
        let text = |pointer: &str| {
            kept.pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let pod_uid = text("/pod").unwrap_or_default();
        let pod_name = match pod_uid.as_str() {
            "" => String::new(),
            _ => pod_name
                .map(str::to_owned)
                .or_else(|| text("/token/spec/boundObjectRef/name"))?,
        };
        let granted = kept
            .pointer("/token/spec/audiences")
            .and_then(Value::as_array);
        let granted = granted
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect();
        let seconds = kept
            .pointer("/token/spec/expirationSeconds")
            .and_then(Value::as_i64);
        for audiences in [Vec::new(), granted] {
            for seconds in seconds.into_iter().chain(DEFAULT_LIFETIMES_SECONDS) {
                let (account, namespace) = (account.to_owned(), key.namespace.clone());
                let (audiences, pod_uid, pod_name) =
                    (audiences.clone(), pod_uid.clone(), pod_name.clone());
                let request = Self {
                    account,
                    namespace,
                    audiences,
                    seconds,
                    pod_uid,
                    pod_name,
                };
                let place = stored_token(
                    &request.namespace,
                    &request.account,
                    &request.request(),
                    "",
                    Value::Null,
                )
                .0;
                if place == *key {
                    return Some(request);
                }
            }
        }
        None
    }

    /// Formats the key.
    pub(in crate::metamanager) fn write(&self) -> String {
        let Self {
            account,
            namespace,
            audiences,
            seconds,
            pod_uid,
            pod_name,
        } = self;
        let quote = |text: &str| Value::from(text).to_string();
        let audiences = match audiences.as_slice() {
            [] => "[]string(nil)".to_owned(),
            all => format!(
                "[]string{{{}}}",
                all.iter()
                    .map(|one| quote(one))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
        let (kind, version) = if pod_uid.is_empty() {
            ("", "")
        } else {
            ("Pod", "v1")
        };
        format!(
            "{}/{}/{audiences}/{seconds}/v1.BoundObjectReference{{Kind:{}, APIVersion:{}, Name:{}, UID:{}}}",
            quote(account),
            quote(namespace),
            quote(kind),
            quote(version),
            quote(pod_name),
            quote(pod_uid),
        )
    }

    /// Returns the fields of the request that distinguish one token from another.
    pub(in crate::metamanager) fn request(&self) -> Value {
        json!({"spec": {
            "audiences": self.audiences, "expirationSeconds": self.seconds, "boundObjectRef": {"uid": self.pod_uid},
        }})
    }
}

/// Parses a quoted string at the beginning, and returns it with the rest. Go's quoting of printable text is JSON's.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    Some((value, text.get(values.byte_offset()..)?))
}

fn audiences(text: &str) -> Option<(Vec<String>, &str)> {
    if let Some(rest) = text.strip_prefix("[]string(nil)") {
        return Some((Vec::new(), rest));
    }
    let mut rest = text.strip_prefix("[]string{")?;
    let mut all = Vec::new();
    while !rest.starts_with('}') {
        let (audience, after) = parse_quoted(rest)?;
        all.push(audience);
        rest = after.strip_prefix(", ").unwrap_or(after);
    }
    Some((all, &rest[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        let reference =
            r#"v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"p2", UID:"u-1"}"#;
        let request = |audiences: &[&str], pod_uid: &str| {
            Some(TokenRequest {
                account: "app".into(),
                namespace: "default".into(),
                audiences: audiences.iter().map(|&text| text.to_owned()).collect(),
                seconds: 3607,
                pod_uid: pod_uid.into(),
                pod_name: if pod_uid.is_empty() {
                    String::new()
                } else {
                    "p2".into()
                },
            })
        };
        let none = r#"v1.BoundObjectReference{Kind:"", APIVersion:"", Name:"", UID:""}"#;
        let rows = [
            (
                format!(r#""app"/"default"/[]string(nil)/3607/{reference}"#),
                request(&[], "u-1"),
            ),
            (
                format!(r#""app"/"default"/[]string{{}}/3607/{reference}"#),
                request(&[], "u-1"),
            ),
            (
                format!(r#""app"/"default"/[]string{{"https://a/b", "c"}}/3607/{reference}"#),
                request(&["https://a/b", "c"], "u-1"),
            ),
            (
                format!(r#""app"/"default"/[]string(nil)/3607/{none}"#),
                request(&[], ""),
            ),
            (
                format!(r#""app"/"default"/[]string{{"a"/3607/{reference}"#),
                None,
            ),
            (r#""app"/"default"/[]string(nil)/many/x"#.into(), None),
            ("default/pod/p1".into(), None),
            (r#""app"#.into(), None),
            (String::new(), None),
        ];
        for (key, expected) in rows {
            assert_eq!(TokenRequest::read(&key), expected, "{key}");
        }
    }

    #[test]
    fn tokens_are_exported_under_their_original_key() {
        let reference =
            r#"v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"p2", UID:"u-1"}"#;
        let none = r#"v1.BoundObjectReference{Kind:"", APIVersion:"", Name:"", UID:""}"#;
        for (key, pod) in [
            (
                format!(r#""my.app"/"default"/[]string(nil)/3607/{reference}"#),
                Some("p2"),
            ),
            (
                format!(r#""app"/"default"/[]string{{"https://a/b"}}/7200/{reference}"#),
                Some("p2"),
            ),
            (format!(r#""app"/"default"/[]string(nil)/600/{none}"#), None),
        ] {
            let request = TokenRequest::read(&key).unwrap();
            let granted = json!({"spec": {"audiences": ["https://a/b"], "expirationSeconds": request.seconds}});
            let (place, kept) = stored_token(
                &request.namespace,
                &request.account,
                &request.request(),
                "",
                granted,
            );
            let found = TokenRequest::of_kept(&place, &kept, pod).unwrap();
            assert_eq!((found.write(), found), (key, request));
        }
        let (place, kept) = stored_token(
            "ns",
            "a",
            &json!({"spec": {"expirationSeconds": 77}}),
            "",
            Value::Null,
        );
        assert_eq!(
            TokenRequest::of_kept(&place, &kept, None),
            None,
            "nothing says what was asked for"
        );
    }
}
