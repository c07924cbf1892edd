//! The keys under which EdgeCore keeps tokens of service accounts. Pure.
//!
//! A key is written by Go's `fmt` verbs `%q` and `%#v`:
//! `"app"/"default"/[]string(nil)/3607/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"p", UID:"…"}`.
//!
//! Source: KubeEdge, `edge/pkg/metamanager/client/serviceaccount.go`; the kubelet's token manager.

use serde_json::{Value, json};

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) account: String,
    pub(super) namespace: String,
    audiences: Vec<String>,
    seconds: i64,
    /// Empty for a token that no pod bounds.
    pod_uid: String,
}

impl Asked {
    /// Reads a key; `None` where it is none of a token.
    pub(super) fn read(key: &str) -> Option<Self> {
        let (account, rest) = quoted(key)?;
        let (namespace, rest) = quoted(rest.strip_prefix('/')?)?;
        let (audiences, rest) = audiences(rest.strip_prefix('/')?)?;
        let (seconds, reference) = rest.strip_prefix('/')?.split_once('/')?;
        let pod_uid = reference.split_once("UID:").and_then(|(_, uid)| quoted(uid));
        let pod_uid = pod_uid.map(|(uid, _)| uid).unwrap_or_default();
        Some(Self { account, namespace, audiences, seconds: seconds.parse().ok()?, pod_uid })
    }

    /// The request, as far as it tells one token from another.
    pub(super) fn request(&self) -> Value {
        json!({"spec": {
            "audiences": self.audiences, "expirationSeconds": self.seconds, "boundObjectRef": {"uid": self.pod_uid},
        }})
    }
}

/// A quoted string at the beginning, and the rest. Go's quoting of printable text is JSON's.
fn quoted(text: &str) -> Option<(String, &str)> {
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
        let (audience, after) = quoted(rest)?;
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
        let reference = r#"v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"p2", UID:"u-1"}"#;
        let asked = |audiences: &[&str], pod_uid: &str| {
            Some(Asked {
                account: "app".into(),
                namespace: "default".into(),
                audiences: audiences.iter().map(|&text| text.to_owned()).collect(),
                seconds: 3607,
                pod_uid: pod_uid.into(),
            })
        };
        let none = r#"v1.BoundObjectReference{Kind:"", APIVersion:"", Name:"", UID:""}"#;
        let rows = [
            (format!(r#""app"/"default"/[]string(nil)/3607/{reference}"#), asked(&[], "u-1")),
            (format!(r#""app"/"default"/[]string{{}}/3607/{reference}"#), asked(&[], "u-1")),
            (
                format!(r#""app"/"default"/[]string{{"https://a/b", "c"}}/3607/{reference}"#),
                asked(&["https://a/b", "c"], "u-1"),
            ),
            (format!(r#""app"/"default"/[]string(nil)/3607/{none}"#), asked(&[], "")),
            (format!(r#""app"/"default"/[]string{{"a"/3607/{reference}"#), None),
            (r#""app"/"default"/[]string(nil)/many/x"#.into(), None),
            ("default/pod/p1".into(), None),
            (r#""app"#.into(), None),
            (String::new(), None),
        ];
        for (key, expected) in rows {
            assert_eq!(Asked::read(&key), expected, "{key}");
        }
    }
}
