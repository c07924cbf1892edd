//! Counts the calls between this node and its mappers.

use std::{collections::BTreeMap, sync::Arc};

use componentbase::Metric;
use parking_lot::Mutex;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Caller {
    /// A mapper.
    Mapper,
    /// This node.
    Agent,
}

impl Caller {
    fn as_str(self) -> &'static str {
        match self {
            Self::Mapper => "mapper",
            Self::Agent => "agent",
        }
    }
}

/// The caller, the method's name in the .proto, and whether the call succeeded.
type Kind = (Caller, &'static str, bool);

/// The counters since the start; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct CallCounts(Arc<Mutex<BTreeMap<Kind, u64>>>);

impl CallCounts {
    /// Counts a finished call.
    pub(super) fn count(&self, caller: Caller, method: &'static str, is_done: bool) {
        *self.0.lock().entry((caller, method, is_done)).or_default() += 1;
    }

    /// Returns all counters.
    pub(super) fn metric(&self) -> Metric {
        let calls = Metric::counter(
            "dmi_calls_total",
            "DMI calls, by caller (mapper, agent), method and result (ok, error).",
        );
        self.0
            .lock()
            .iter()
            .fold(calls, |calls, ((caller, method, is_done), count)| {
                let result = if *is_done { "ok" } else { "error" };
                calls.with(
                    &[
                        ("caller", caller.as_str()),
                        ("method", method),
                        ("result", result),
                    ],
                    *count,
                )
            })
    }
}
