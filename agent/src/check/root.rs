//! Check `root`: the user.

use super::{inputs::Inputs, report::CheckResult};

pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    if nix::unistd::geteuid().is_root() {
        return CheckResult::Passed("running as root".into());
    }
    if inputs.paths.is_system_wide() {
        return CheckResult::bad(
            "not running as root",
            "run the same command with sudo, or choose a directory with --root",
        );
    }
    CheckResult::Remark("not running as root: no memory volumes, no limits for whole pods".into())
}
