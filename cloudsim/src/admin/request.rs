//! Parses requests to the administrators' API. Pure.

use http::{Method, StatusCode};
use serde::Deserialize;
use wire::enroll::is_node_name;

use crate::{
    faults::{Answers, Certificate, Conditions, FaultTarget, Shape},
    pki::TokenRequest,
};

/// A refusal: status and reason.
pub(super) type Refusal = (StatusCode, String);

/// A request.
#[derive(Debug, PartialEq)]
pub(super) enum AdminRequest {
    /// Show the sessions.
    Nodes,
    /// Show the relay between nodes.
    Mesh,
    /// Show all faults.
    Faults,
    /// Show what the cloud and its nodes send to each other.
    Messages,
    /// Take a snapshot.
    Snapshot,
    /// Create a login link to the page.
    Login,
    /// Change something.
    Command(Command),
}

/// A change.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    /// Set the conditions of links.
    Set(FaultTarget, Box<Conditions>),
    /// Add a fault of links.
    Add(FaultTarget, Box<Conditions>),
    /// Remove a fault by its id.
    Remove(FaultTarget, u64),
    /// Remove the conditions of links; `None` for all faults.
    Clear(Option<FaultTarget>),
    /// Send a hostile message to a node.
    Hostile(String, Shape),
    /// Set the certificate that servers show.
    Certificate(Certificate),
    /// Set how the enrolment server answers.
    Answers(Answers),
    /// Revoke a node's certificates.
    Reset(String),
    /// Free all names whose records were lost.
    ResetLost,
    /// Issue a join token.
    Token(TokenRequest),
    /// Send a message of this node, or to it, through a rule.
    Message(String, RuleMessage),
}

impl Command {
    /// Returns what changes, in words.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Set(..) => "set conditions of links",
            Self::Add(..) => "inject a fault",
            Self::Remove(..) => "remove a fault",
            Self::Clear(_) => "remove conditions of links",
            Self::Hostile(..) => "send a malformed message",
            Self::Certificate(_) => "set the certificate that servers show",
            Self::Answers(_) => "set the answers to enrolment",
            Self::Reset(_) => "revoke a node's certificates",
            Self::ResetLost => "free all names whose records were lost",
            Self::Token(_) => "issue a join token",
            Self::Message(..) => "send a message through a rule",
        }
    }
}

/// A message through a rule.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleMessage {
    /// The source of the rule, as `controllers::rules` has it.
    pub(super) to: String,
    /// The message.
    #[serde(default)]
    pub(super) body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateBody {
    certificate: Certificate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswersBody {
    answers: Answers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostileBody {
    shape: Shape,
}

/// Parses a request; `path` is without the prefix.
pub(super) fn parse_request(
    method: &Method,
    path: &str,
    body: &[u8],
) -> Result<AdminRequest, Refusal> {
    let (place, name) = path
        .split_once('/')
        .map_or((path, None), |(place, name)| (place, Some(name)));
    let order = |order| Ok(AdminRequest::Command(order));
    match (method.as_str(), place, name) {
        ("GET", "nodes", None) => Ok(AdminRequest::Nodes),
        ("GET", "mesh", None) => Ok(AdminRequest::Mesh),
        ("GET", "faults", None) => Ok(AdminRequest::Faults),
        ("GET", "messages", None) => Ok(AdminRequest::Messages),
        ("GET", "snapshot", None) => Ok(AdminRequest::Snapshot),
        ("POST", "login", None) => Ok(AdminRequest::Login),
        ("DELETE", "faults", None) => order(Command::Clear(None)),
        ("DELETE", "faults", Some(name)) => match name.split_once('/') {
            None => order(Command::Clear(Some(whom(name)?))),
            Some((name, id)) => {
                let id = id.parse().map_err(|_| {
                    let why = "the id of a fault is a number; `GET faults` shows it";
                    (StatusCode::BAD_REQUEST, why.to_owned())
                })?;
                order(Command::Remove(whom(name)?, id))
            }
        },
        ("POST", "faults", Some(name)) => order(Command::Add(whom(name)?, Box::new(read(body)?))),
        ("PUT", "faults", Some(name)) => order(Command::Set(whom(name)?, Box::new(read(body)?))),
        ("PUT", "certificate", None) => order(Command::Certificate(
            read::<CertificateBody>(body)?.certificate,
        )),
        ("PUT", "answers", None) => order(Command::Answers(read::<AnswersBody>(body)?.answers)),
        ("POST", "hostile", Some(name)) => match whom(name)? {
            FaultTarget::Node(node) => {
                order(Command::Hostile(node, read::<HostileBody>(body)?.shape))
            }
            FaultTarget::All => Err((
                StatusCode::BAD_REQUEST,
                "name one node; each is sent its own".to_owned(),
            )),
        },
        ("POST", "reset", Some(name)) => match whom(name)? {
            FaultTarget::Node(node) => order(Command::Reset(node)),
            FaultTarget::All => Err((
                StatusCode::BAD_REQUEST,
                "name one node; each is reset by itself".to_owned(),
            )),
        },
        ("POST", "reset", None) => order(Command::ResetLost),
        ("POST", "rules", Some(name)) => match whom(name)? {
            FaultTarget::Node(node) => order(Command::Message(node, read(body)?)),
            FaultTarget::All => Err((
                StatusCode::BAD_REQUEST,
                "name one node; a message goes to one".to_owned(),
            )),
        },
        ("POST", "tokens", None) => order(Command::Token(read(body)?)),
        (
            _,
            "nodes" | "mesh" | "faults" | "certificate" | "answers" | "hostile" | "reset"
            | "tokens" | "rules",
            _,
        ) => Err((
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{method} is not served at {path}"),
        )),
        _ => Err((StatusCode::NOT_FOUND, format!("there is nothing at {path}"))),
    }
}

fn whom(name: &str) -> Result<FaultTarget, Refusal> {
    match name {
        "all" => Ok(FaultTarget::All),
        name if is_node_name(name) => Ok(FaultTarget::Node(name.to_owned())),
        name => {
            let name: String = name.chars().take(80).collect();
            Err((
                StatusCode::BAD_REQUEST,
                format!("{name:?} is no name of a node"),
            ))
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        (
            StatusCode::BAD_REQUEST,
            format!("the body is unusable: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, path: &str, body: &str) -> Result<AdminRequest, u16> {
        let method = method.parse().unwrap();
        parse_request(&method, path, body.as_bytes()).map_err(|(code, _)| code.as_u16())
    }

    #[test]
    fn requests_say_what_is_wanted() {
        let one = || FaultTarget::Node("edge-1".to_owned());
        let cut = Conditions::link(crate::faults::Link::Cut);
        let order = |order| Ok(AdminRequest::Command(order));
        assert_eq!(ask("GET", "nodes", ""), Ok(AdminRequest::Nodes));
        assert_eq!(ask("GET", "mesh", ""), Ok(AdminRequest::Mesh));
        assert_eq!(ask("GET", "faults", ""), Ok(AdminRequest::Faults));
        assert_eq!(ask("DELETE", "faults", ""), order(Command::Clear(None)));
        assert_eq!(
            ask("DELETE", "faults/edge-1", ""),
            order(Command::Clear(Some(one())))
        );
        assert_eq!(
            ask("PUT", "faults/all", "{}"),
            order(Command::Set(FaultTarget::All, Box::default()))
        );
        let set = ask("PUT", "faults/edge-1", r#"{"link": "cut"}"#);
        assert_eq!(set, order(Command::Set(one(), Box::new(cut))));
        let added = ask("POST", "faults/all", r#"{"delay": "1s", "for": "10s"}"#);
        let Ok(AdminRequest::Command(Command::Add(FaultTarget::All, added))) = added else {
            panic!("{added:?}");
        };
        assert_eq!(
            added.lasting.map(|it| it.to_string()),
            Some("10s".to_owned())
        );
        assert_eq!(
            ask("DELETE", "faults/edge-1/7", ""),
            order(Command::Remove(one(), 7))
        );
        let shown = ask("PUT", "certificate", r#"{"certificate": "expired"}"#);
        assert_eq!(shown, order(Command::Certificate(Certificate::Expired)));
        let answers = ask("PUT", "answers", r#"{"answers": "endless"}"#);
        assert_eq!(answers, order(Command::Answers(Answers::Endless)));
        let hostile = ask("POST", "hostile/edge-1", r#"{"shape": "null"}"#);
        assert_eq!(
            hostile,
            order(Command::Hostile("edge-1".to_owned(), Shape::Null))
        );
        assert_eq!(
            ask("POST", "reset/edge-1", ""),
            order(Command::Reset("edge-1".to_owned()))
        );
        assert_eq!(ask("POST", "reset", ""), order(Command::ResetLost));
        let message = RuleMessage {
            to: "default/a".to_owned(),
            body: "1".to_owned(),
        };
        let asked = ask(
            "POST",
            "rules/edge-1",
            r#"{"to": "default/a", "body": "1"}"#,
        );
        assert_eq!(asked, order(Command::Message("edge-1".to_owned(), message)));
        let token = TokenRequest {
            node: Some("edge-1".to_owned()),
            seconds: Some(600),
            uses: Some(1),
        };
        let asked = r#"{"node": "edge-1", "seconds": 600, "uses": 1}"#;
        assert_eq!(ask("POST", "tokens", asked), order(Command::Token(token)));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (method, path, body, code) in [
            ("GET", "", "", 404),
            ("GET", "faults/edge-1", "", 405),
            ("POST", "nodes", "", 405),
            ("PUT", "faults/UPPER", "{}", 400),
            ("PUT", "faults/a/b", "{}", 400),
            ("DELETE", "faults/a/b", "", 400),
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
