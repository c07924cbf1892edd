//! Check `name`: the node's name.

use super::{inputs::Inputs, report::CheckResult};

pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    let name = &inputs.config.node.name;
    if !inputs.is_name_chosen() && inputs.host.has_fallback_name() {
        return CheckResult::bad(
            "this machine's host name is not a valid node name",
            "set one with --name: lower-case letters, digits, dashes and dots",
        );
    }
    CheckResult::Passed(name.clone())
}
