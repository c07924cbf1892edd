//! What an administrator wants. Pure.

use http::{Method, StatusCode};
use serde::Deserialize;
use wire::enroll::is_node_name;

use crate::{
    faults::{Answers, Certificate, Conditions, Shape, Whom},
    pki::TokenRequest,
};

/// A refusal: a status and why.
pub(super) type Refusal = (StatusCode, String);

/// What is wanted.
#[derive(Debug, PartialEq)]
pub(super) enum Wanted {
    /// The sessions.
    Nodes,
    /// The relay between nodes.
    Mesh,
    /// Everything that is wrong.
    Faults,
    /// Something is to be changed.
    Order(Order),
}

/// What is to be changed.
#[derive(Debug, PartialEq)]
pub(super) enum Order {
    /// The conditions of links.
    Set(Whom, Box<Conditions>),
    /// As without; `None`: everything.
    Clear(Option<Whom>),
    /// A message to a node.
    Hostile(String, Shape),
    /// What servers show.
    Certificate(Certificate),
    /// How the enrolment server answers.
    Answers(Answers),
    /// The end of a node's certificates.
    Reset(String),
    /// The same for all nodes whose records were lost.
    ResetLost,
    /// A join token.
    Token(TokenRequest),
    /// A message of this node, or to it, through a rule.
    Message(String, RuleMessage),
}

/// A message through a rule.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleMessage {
    /// The source of the rule, as `controllers::rules` has it.
    pub(super) to: String,
    /// What is sent.
    #[serde(default)]
    pub(super) body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    certificate: Certificate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answering {
    answers: Answers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hostile {
    shape: Shape,
}

/// Reads a request; `path` is what follows the prefix.
pub(super) fn wanted(method: &Method, path: &str, body: &[u8]) -> Result<Wanted, Refusal> {
    let (place, name) = path.split_once('/').map_or((path, None), |(place, name)| (place, Some(name)));
    let order = |order| Ok(Wanted::Order(order));
    match (method.as_str(), place, name) {
        ("GET", "nodes", None) => Ok(Wanted::Nodes),
        ("GET", "mesh", None) => Ok(Wanted::Mesh),
        ("GET", "faults", None) => Ok(Wanted::Faults),
        ("DELETE", "faults", None) => order(Order::Clear(None)),
        ("DELETE", "faults", Some(name)) => order(Order::Clear(Some(whom(name)?))),
        ("PUT", "faults", Some(name)) => order(Order::Set(whom(name)?, Box::new(read(body)?))),
        ("PUT", "certificate", None) => order(Order::Certificate(read::<Shown>(body)?.certificate)),
        ("PUT", "answers", None) => order(Order::Answers(read::<Answering>(body)?.answers)),
        ("POST", "hostile", Some(name)) => match whom(name)? {
            Whom::Node(node) => order(Order::Hostile(node, read::<Hostile>(body)?.shape)),
            Whom::All => Err((StatusCode::BAD_REQUEST, "name one node; each is sent its own".to_owned())),
        },
        ("POST", "reset", Some(name)) => match whom(name)? {
            Whom::Node(node) => order(Order::Reset(node)),
            Whom::All => Err((StatusCode::BAD_REQUEST, "name one node; each is reset by itself".to_owned())),
        },
        ("POST", "reset", None) => order(Order::ResetLost),
        ("POST", "rules", Some(name)) => match whom(name)? {
            Whom::Node(node) => order(Order::Message(node, read(body)?)),
            Whom::All => Err((StatusCode::BAD_REQUEST, "name one node; a message goes to one".to_owned())),
        },
        ("POST", "tokens", None) => order(Order::Token(read(body)?)),
        (
            _,
            "nodes" | "mesh" | "faults" | "certificate" | "answers" | "hostile" | "reset" | "tokens"
            | "rules",
            _,
        ) => Err((StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not served at {path}"))),
        _ => Err((StatusCode::NOT_FOUND, format!("there is nothing at {path}"))),
    }
}

fn whom(name: &str) -> Result<Whom, Refusal> {
    match name {
        "all" => Ok(Whom::All),
        name if is_node_name(name) => Ok(Whom::Node(name.to_owned())),
        name => {
            let name: String = name.chars().take(80).collect();
            Err((StatusCode::BAD_REQUEST, format!("{name:?} is no name of a node")))
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("the body is unusable: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, path: &str, body: &str) -> Result<Wanted, u16> {
        let method = method.parse().unwrap();
        wanted(&method, path, body.as_bytes()).map_err(|(code, _)| code.as_u16())
    }

    #[test]
    fn requests_say_what_is_wanted() {
        let one = || Whom::Node("edge-1".to_owned());
        let cut = Conditions::link(crate::faults::Link::Cut);
        let order = |order| Ok(Wanted::Order(order));
        assert_eq!(ask("GET", "nodes", ""), Ok(Wanted::Nodes));
        assert_eq!(ask("GET", "mesh", ""), Ok(Wanted::Mesh));
        assert_eq!(ask("GET", "faults", ""), Ok(Wanted::Faults));
        assert_eq!(ask("DELETE", "faults", ""), order(Order::Clear(None)));
        assert_eq!(ask("DELETE", "faults/edge-1", ""), order(Order::Clear(Some(one()))));
        assert_eq!(ask("PUT", "faults/all", "{}"), order(Order::Set(Whom::All, Box::default())));
        let set = ask("PUT", "faults/edge-1", r#"{"link": "cut"}"#);
        assert_eq!(set, order(Order::Set(one(), Box::new(cut))));
        let shown = ask("PUT", "certificate", r#"{"certificate": "expired"}"#);
        assert_eq!(shown, order(Order::Certificate(Certificate::Expired)));
        let answers = ask("PUT", "answers", r#"{"answers": "endless"}"#);
        assert_eq!(answers, order(Order::Answers(Answers::Endless)));
        let hostile = ask("POST", "hostile/edge-1", r#"{"shape": "null"}"#);
        assert_eq!(hostile, order(Order::Hostile("edge-1".to_owned(), Shape::Null)));
        assert_eq!(ask("POST", "reset/edge-1", ""), order(Order::Reset("edge-1".to_owned())));
        assert_eq!(ask("POST", "reset", ""), order(Order::ResetLost));
        let message = RuleMessage { to: "default/a".to_owned(), body: "1".to_owned() };
        let asked = ask("POST", "rules/edge-1", r#"{"to": "default/a", "body": "1"}"#);
        assert_eq!(asked, order(Order::Message("edge-1".to_owned(), message)));
        let token = TokenRequest { node: Some("edge-1".to_owned()), seconds: Some(600), uses: Some(1) };
        let asked = r#"{"node": "edge-1", "seconds": 600, "uses": 1}"#;
        assert_eq!(ask("POST", "tokens", asked), order(Order::Token(token)));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (method, path, body, code) in [
            ("GET", "", "", 404),
            ("GET", "faults/edge-1", "", 405),
            ("POST", "nodes", "", 405),
            ("PUT", "faults/UPPER", "{}", 400),
            ("PUT", "faults/a/b", "{}", 400),
            ("PUT", "faults/edge-1", "", 400),
            ("PUT", "faults/edge-1", r#"{"dorp": 1}"#, 400),
            ("PUT", "faults/edge-1", r#"{"delay": "soon"}"#, 400),
            ("PUT", "certificate", r#"{"certificate": "golden"}"#, 400),
            ("POST", "hostile/all", r#"{"shape": "null"}"#, 400),
            ("POST", "reset/all", "", 400),
            ("POST", "reset/UPPER", "", 400),
            ("GET", "reset/edge-1", "", 405),
            ("POST", "rules/all", r#"{"to": "default/a"}"#, 400),
            ("POST", "rules/edge-1", "{}", 400),
            ("GET", "rules/edge-1", "", 405),
            ("POST", "tokens", "", 400),
            ("POST", "tokens", r#"{"nodes": 1}"#, 400),
        ] {
            assert_eq!(ask(method, path, body), Err(code), "{method} {path} {body}");
        }
    }
}
