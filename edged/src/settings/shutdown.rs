//! Settings of graceful node shutdown.
//!
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/>.

use std::time::Duration;

/// Priority of pods without a priority class.
const DEFAULT_PRIORITY: i32 = 0;
/// Priority from which a pod is critical: Kubernetes' `SystemCriticalPriority`.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// How long pods may take to end when the machine shuts down. Disabled if there are no periods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeShutdown {
    /// The periods, one after the other, in the order of their priorities.
    periods: Vec<ShutdownPeriod>,
}

/// The time for the pods of one range of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownPeriod {
    /// The lowest priority of these pods; the first period is also for pods below.
    pub priority: i32,
    /// How long the shutdown waits for them.
    pub grace: Duration,
}

impl NodeShutdown {
    /// Returns the settings with these periods, in any order: `shutdownGracePeriodByPodPriority`.
    pub fn by_priority(mut periods: Vec<ShutdownPeriod>) -> Self {
        periods.sort_by_key(|period| period.priority);
        Self { periods }
    }

    /// Returns the settings with `shutdownGracePeriod`, of which the last part, `shutdownGracePeriodCriticalPods`, is for critical
    /// pods.
    pub fn with_critical_pods(total: Duration, critical: Duration) -> Self {
        let periods = [
            (DEFAULT_PRIORITY, total.saturating_sub(critical)),
            (SYSTEM_CRITICAL_PRIORITY, critical.min(total)),
        ];
        // whole seconds, as in the kubelet
        let period = |(priority, grace): (i32, Duration)| ShutdownPeriod {
            priority,
            grace: Duration::from_secs(grace.as_secs()),
        };
        let periods = periods.map(period).to_vec();
        let is_enabled = !total.is_zero();
        Self {
            periods: if is_enabled { periods } else { Vec::new() },
        }
    }

    /// Returns the periods in the order of their priorities.
    pub fn periods(&self) -> &[ShutdownPeriod] {
        &self.periods
    }

    /// Returns the duration of all periods.
    pub fn total(&self) -> Duration {
        self.periods.iter().map(|period| period.grace).sum()
    }
}
