//! Which run of an agent it is that connects: a header of the upgrade by which the cloud tells a node that comes back from a second
//! one of the same name. Ours alone: CloudCore and EdgeCore do not know it, and nothing changes with them.
//!
//! The header says `<id> <start>`: an id that is made with each start, and when that was (RFC 3339).

use std::fmt;

/// The header.
pub const HEADER: &str = "outrigger-agent";
/// The code with which a connection is closed that another agent of the same name has taken over. WebSocket leaves those from 4000 on
/// to programs (RFC 6455 §7.4.2).
pub const TAKEN_OVER: u16 = 4409;
/// The status of the answer to an upgrade where another agent of the same name is connected: 409 Conflict.
pub const CONFLICT: u16 = 409;

/// Longest id and start.
const LONGEST: usize = 64;

/// One run of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    id: String,
    started: String,
}

impl Default for Instance {
    /// A run that tells nothing of itself.
    fn default() -> Self {
        Self { id: "unknown".to_owned(), started: "unknown".to_owned() }
    }
}

impl Instance {
    /// A run with an id of its own, and when it started; `None` where either has letters that a header or a line of a log should
    /// not have.
    pub fn new(id: &str, started: &str) -> Option<Self> {
        let fits = |text: &str, others: &[u8]| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
            !text.is_empty() && text.len() <= LONGEST && text.bytes().all(letter)
        };
        (fits(id, b"-") && fits(started, b"-:.+"))
            .then(|| Self { id: id.to_owned(), started: started.to_owned() })
    }

    /// From the header's value.
    pub fn parse(value: &str) -> Option<Self> {
        let (id, started) = value.split_once(' ')?;
        Self::new(id, started)
    }

    /// Its own, whatever else is the same.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// When it started, as it says.
    pub fn started(&self) -> &str {
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
        for bad in ["", "a", "a ", " b", "a b c", "a\n b", &format!("{long} b"), &format!("a {long}"), "é 1"]
        {
            assert_eq!(Instance::parse(bad), None, "{bad:?}");
        }
    }
}
