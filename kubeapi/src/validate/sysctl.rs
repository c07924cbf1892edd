//! Checks the names of kernel settings that a pod requests. Whether a node allows them is the node's decision.

use std::collections::HashSet;

use super::place::Place;
use crate::{cause::Cause, object::text_or_empty};

const LONGEST: usize = 253;
/// The real server's message about the format of names.
const RULE: &str = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Adds the faults of the kernel settings of a pod.
pub(crate) fn sysctls(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, sysctl) in list.list().iter().enumerate() {
        let field = list.item(index, sysctl).field("name");
        match text_or_empty(sysctl, "/name") {
            "" => causes.push(Cause::required(field, "")),
            name if !is_name(name) => causes.push(Cause::invalid(field, &name.into(), RULE)),
            name if !taken.insert(name) => causes.push(Cause::duplicate(field, name)),
            _ => {}
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(is_end)
            && bytes.last().is_some_and(is_end)
            && bytes
                .iter()
                .all(|byte| is_end(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= LONGEST && name.split(['.', '/']).all(is_segment)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_are_none_are_told() {
        for name in [
            "kernel.shmmax",
            "net/ipv4/tcp_syncookies",
            "safe-and-unsafe",
            "a",
            "a.b-c.d_e",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in ["foo-", "bar..", ".a", "A", "a b", "a//b", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
        let named = |name: &str| json!({"name": name, "value": "1"});
        let list = json!([
            named("foo-"),
            named("kernel.shmmax"),
            named("kernel.shmmax"),
            named("")
        ]);
        let (object, mut causes) = (json!({"sysctls": list}), Vec::new());
        sysctls(
            &Place::root(&object).child("sysctls", "sysctls"),
            &mut causes,
        );
        assert_eq!(
            causes,
            [
                Cause::invalid("sysctls[0].name", &json!("foo-"), RULE),
                Cause::duplicate("sysctls[2].name", "kernel.shmmax"),
                Cause::required("sysctls[3].name", ""),
            ]
        );
    }
}
