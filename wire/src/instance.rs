//! Identifies the running instance of an agent: a header of the upgrade by which the cloud distinguishes a node that reconnects from a
//! second node of the same name. It is our extension: `CloudCore` and `EdgeCore` ignore it.
//!
//! The header's value is `<id> <start>`: an id that is new with each start of the agent, and the time of the start (RFC 3339).

use std::fmt;

/// The header's name.
pub const HEADER: &str = "outrigger-agent";
/// The close code of a connection that another agent of the same name has taken over. WebSocket leaves codes from 4000 to applications (RFC
/// 6455, section 7.4.2).
pub const TAKEN_OVER: u16 = 4409;
/// The response status of an upgrade while another agent of the same name is connected: 409 Conflict.
pub const CONFLICT: u16 = 409;

/// The longest id and the longest start, bytes.
const LONGEST: usize = 64;

/// One running instance of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    id: String,
    started: String,
}

impl Default for Instance {
    /// Returns the instance of an agent that does not identify itself: `unknown` as id and start.
    fn default() -> Self {
        Self {
            id: "unknown".to_owned(),
            started: "unknown".to_owned(),
        }
    }
}

impl Instance {
    /// Creates an instance from its id and start. Returns `None` if either has characters that must not be in a header or a log line.
    pub fn new(id: &str, started: &str) -> Option<Self> {
        let fits = |text: &str, others: &[u8]| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
            !text.is_empty() && text.len() <= LONGEST && text.bytes().all(letter)
        };
        (fits(id, b"-") && fits(started, b"-:.+")).then(|| Self {
            id: id.to_owned(),
            started: started.to_owned(),
        })
    }

    /// Parses the header's value.
    pub fn parse(value: &str) -> Option<Self> {
        let (id, started) = value.split_once(' ')?;
        Self::new(id, started)
    }

    /// Returns the id, which is unique to this start of the agent.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the time of the start, as the agent reported it.
    pub fn start_time(&self) -> &str {
        &self.started
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let one = Instance::new("0b3c-44", "2026-11-26T16:00:00Z").unwrap();
        assert_eq!(Instance::parse(&one.to_string()), Some(one));
        let long = "a".repeat(LONGEST + 1);
        for bad in [
            "",
            "a",
            "a ",
            " b",
            "a b c",
            "a\n b",
            &format!("{long} b"),
            &format!("a {long}"),
            "é 1",
        ] {
            assert_eq!(Instance::parse(bad), None, "{bad:?}");
        }
    }
}
