//! Errors of the container runtime.

use tonic::{Code, Status};

/// The length of ids of sandboxes and containers, hexadecimal digits.
const ID_LENGTH: usize = 64;
/// The beginning of a time in the log lines of OCI runtimes, which CRI-O repeats.
const TIME: &str = "time=\"";

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[error("the container runtime's {call}: {}", stable_text(status.message()))]
pub struct CallError {
    pub(super) call: &'static str,
    pub(super) status: Status,
}

impl CallError {
    /// Returns the gRPC status code.
    pub(crate) fn code(&self) -> Code {
        self.status.code()
    }

    /// Reports whether the object of the call does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status.code() == Code::NotFound
    }

    /// Reports whether the call timed out.
    pub(crate) fn is_timeout(&self) -> bool {
        self.status.code() == Code::DeadlineExceeded
    }

    /// Reports whether the runtime's socket does not answer.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.status.code() == Code::Unavailable
    }

    /// Logs that something cannot be done now. If the runtime is unreachable this is a debug message, as PLEG warns once for all
    /// that need it.
    pub(crate) fn log(&self, what: &str) {
        if self.is_unreachable() {
            tracing::debug!("failed to {what}: container runtime not responding");
        } else {
            tracing::warn!(error = self as &dyn std::error::Error, "failed to {what}");
        }
    }

    /// Reports whether the runtime does not implement the call.
    pub(crate) fn is_unimplemented(&self) -> bool {
        self.status.code() == Code::Unimplemented
    }

    /// Returns the runtime's error message.
    pub(crate) fn message(&self) -> String {
        stable_text(self.status.message())
    }
}

/// Returns a message without ids and times, which differ at each attempt: containerd 2 names the sandbox that it did not create, and CRI-O
/// repeats log lines of the OCI runtime. Only a different cause is a new log line, event and status.
fn stable_text(message: &str) -> String {
    let mut stable = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find(TIME) {
        let after = &rest[start + TIME.len()..];
        let Some(end) = after.find('"') else { break };
        stable.push_str(&rest[..start]);
        rest = after[end + 1..].trim_start();
    }
    stable.push_str(rest);
    let is_id_part = |character: char| character.is_ascii_hexdigit();
    let ids: Vec<&str> = stable
        .split(|character| !is_id_part(character))
        .filter(|word| word.len() == ID_LENGTH)
        .collect();
    ids.iter()
        .fold(stable.clone(), |text, id| text.replace(id, "ID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_equal_at_each_attempt() {
        let id = "2c005bc56d4657bc9f9b74608372f0d3837a8a05b360a43d474c137381ad168c";
        for (message, expected) in [
            (
                format!("unable to get OCI runtime for sandbox \"{id}\": no runtime for \"nowhere\" is configured"),
                "unable to get OCI runtime for sandbox \"ID\": no runtime for \"nowhere\" is configured",
            ),
            (
                "container create failed: time=\"2026-11-29T09:59:07Z\" level=error msg=\"runc create failed\"".to_owned(),
                "container create failed: level=error msg=\"runc create failed\"",
            ),
            ("ends in time=\"2026".to_owned(), "ends in time=\"2026"),
            ("no such image deadbeef".to_owned(), "no such image deadbeef"),
        ] {
            assert_eq!(stable_text(&message), expected);
        }
    }
}
