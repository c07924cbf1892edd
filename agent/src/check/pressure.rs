//! Check `pressure`: memory, disk space and process ids suffice for the node to take pods.

use edged::low_signals;

use super::{inputs::Inputs, report::CheckResult};

/// Checks that memory, disk and process ids suffice for the node to take pods.
pub(crate) fn check(inputs: &Inputs<'_>) -> CheckResult {
    let edged = &inputs.config.edged;
    let images = inputs
        .machine
        .answering()
        .find_map(|(_, found)| found.images.as_deref());
    let low = low_signals(&edged.eviction, &edged.root_dir, images);
    let Some(first) = low.first() else {
        return CheckResult::Passed(match edged.eviction.thresholds.as_slice() {
            [] => "eviction is disabled".into(),
            _ => "enough memory, disk space and process IDs for pods".into(),
        });
    };
    let what: Vec<String> = low.iter().map(ToString::to_string).collect();
    let when = match inputs.is_node() {
        true => "",
        false => " after joining",
    };
    let cure = format!(
        "{}, or lower evictionHard {} in {}{when}; new pods stay Pending until then",
        first.cure(),
        first.signal(),
        inputs.path.display()
    );
    CheckResult::Warning {
        what: what.join("; "),
        cure,
    }
}
