//! The topics that rules may use: those on which the cloud may publish at a node, and those to which it may subscribe.

use std::fmt;

/// The longest topic of a rule, bytes.
const MAX_TOPIC: usize = 1024;
/// The most levels of a rule's topic.
const MAX_LEVELS: usize = 64;

/// Why a rule may not use a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicFault {
    /// The topic is empty, too long or too deep.
    Size,
    /// The topic has a control character.
    Control,
    /// A topic to publish on has a wildcard, or a wildcard is not a whole level, or a `#` is not the last level.
    Wildcard,
    /// The topic begins with `$` (devices, the broker, shared subscriptions) or `SYS/` (records). A message there would be taken for a
    /// device's own.
    Reserved,
    /// The topic has a level `.` or `..`, which `CloudCore` would resolve as in a path.
    Dots,
}

impl fmt::Display for TopicFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size => write!(
                f,
                "a topic has 1 to {MAX_TOPIC} bytes and at most {MAX_LEVELS} levels"
            ),
            Self::Control => f.write_str("a topic has no control characters"),
            Self::Wildcard => f.write_str(
                "a wildcard (+, #) is a whole level of a topic to listen to, and # the last one",
            ),
            Self::Reserved => {
                f.write_str("topics that begin with $ or SYS/ belong to devices and the broker")
            }
            Self::Dots => f.write_str("a topic has no level . or .."),
        }
    }
}

impl std::error::Error for TopicFault {}

/// Checks that a rule may publish on this topic.
///
/// # Errors
/// The reason why it may not.
pub fn check_publication(topic: &str) -> Result<(), TopicFault> {
    if topic.contains(['+', '#']) {
        return Err(TopicFault::Wildcard);
    }
    check(topic)
}

/// Checks that a rule may subscribe to this topic, which may have wildcards.
///
/// # Errors
/// The reason why it may not.
pub fn check_subscription(filter: &str) -> Result<(), TopicFault> {
    let whole = |level: &str| level.len() == 1 || !level.contains(['+', '#']);
    let ends = |filter: &str| filter.split('/').rev().skip(1).all(|level| level != "#");
    if !filter.split('/').all(whole) || !ends(filter) {
        return Err(TopicFault::Wildcard);
    }
    check(filter)
}

fn check(topic: &str) -> Result<(), TopicFault> {
    let mut levels = topic.split('/');
    if topic.is_empty() || topic.len() > MAX_TOPIC || levels.clone().count() > MAX_LEVELS {
        return Err(TopicFault::Size);
    }
    if topic.contains(char::is_control) {
        return Err(TopicFault::Control);
    }
    if topic.starts_with('$') || topic == "SYS" || topic.starts_with("SYS/") {
        return Err(TopicFault::Reserved);
    }
    if levels.any(|level| matches!(level, "." | "..")) {
        return Err(TopicFault::Dots);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_publishes_as_a_device() {
        for topic in [
            "$hw/events/device/default/a/twin/update",
            "$SYS/x",
            "SYS/dis/upload_records",
            "$",
        ] {
            assert_eq!(
                check_publication(topic),
                Err(TopicFault::Reserved),
                "{topic}"
            );
            assert_eq!(
                check_subscription(topic),
                Err(TopicFault::Reserved),
                "{topic}"
            );
        }
        for topic in [
            "test",
            "a/b/c",
            "default/up",
            "/a",
            "a//b",
            "a/$hw/b",
            "ü/é",
            "SYSTEM",
        ] {
            assert_eq!(check_publication(topic), Ok(()), "{topic}");
        }
    }

    #[test]
    fn a_topic_that_is_none_is_refused() {
        let (long, deep) = ("a".repeat(1025), "a/".repeat(64));
        for (topic, fault) in [
            ("", TopicFault::Size),
            (&*long, TopicFault::Size),
            (&*deep, TopicFault::Size),
            ("a\0", TopicFault::Control),
            ("a\r\nb", TopicFault::Control),
            ("a/+", TopicFault::Wildcard),
            ("#", TopicFault::Wildcard),
            ("a/../$hw", TopicFault::Dots),
            ("./a", TopicFault::Dots),
        ] {
            assert_eq!(check_publication(topic), Err(fault), "{topic}");
        }
        for filter in ["default/#/a", "default/a+", "default/a#"] {
            assert_eq!(
                check_subscription(filter),
                Err(TopicFault::Wildcard),
                "{filter}"
            );
        }
        for filter in ["default/#", "default/+/a", "default/a/+/#"] {
            assert_eq!(check_subscription(filter), Ok(()), "{filter}");
        }
    }
}
