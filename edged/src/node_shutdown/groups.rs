//! Which pods end in which period of a shutdown. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::settings::ShutdownPeriod;

/// Distributes the pods to the periods, which are sorted by priority. A pod belongs to the last period whose priority it has or
/// exceeds; pods below the first period belong to that.
pub(super) fn by_priority(
    periods: &[ShutdownPeriod],
    pods: Vec<Arc<Pod>>,
) -> Vec<(ShutdownPeriod, Vec<Arc<Pod>>)> {
    let mut groups: Vec<_> = periods.iter().map(|one| (*one, Vec::new())).collect();
    for pod in pods {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
        let priority = priority.unwrap_or_default();
        let above = periods.partition_point(|period| period.priority <= priority);
        if let Some((_, group)) = groups.get_mut(above.saturating_sub(1)) {
            group.push(pod);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::settings::NodeShutdown;

    fn pod(priority: i32) -> Arc<Pod> {
        let pod = json!({"spec": {"containers": [], "priority": priority}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn distribution(settings: &NodeShutdown) -> Vec<(u64, Vec<i32>)> {
        let priorities = [-7, 0, 99, 100, 5000, 2_000_000_000, 2_000_001_000];
        let groups = by_priority(settings.periods(), priorities.map(pod).into());
        let priority = |pod: &Arc<Pod>| pod.spec.as_ref().unwrap().priority.unwrap();
        groups
            .iter()
            .map(|(period, pods)| (period.grace.as_secs(), pods.iter().map(priority).collect()))
            .collect()
    }

    #[test]
    fn pods_end_in_the_period_of_their_priority() {
        let seconds = Duration::from_secs;
        let two = NodeShutdown::with_critical_pods(seconds(30), seconds(10));
        assert_eq!(two.total(), seconds(30));
        assert_eq!(
            distribution(&two),
            [
                (20, vec![-7, 0, 99, 100, 5000]),
                (10, vec![2_000_000_000, 2_000_001_000])
            ]
        );
        let period = |priority, grace| ShutdownPeriod {
            priority,
            grace: seconds(grace),
        };
        let three = vec![period(5000, 3), period(0, 1), period(100, 2)];
        assert_eq!(
            distribution(&NodeShutdown::by_priority(three)),
            [
                (1, vec![-7, 0, 99]),
                (2, vec![100]),
                (3, vec![5000, 2_000_000_000, 2_000_001_000])
            ]
        );
        let none = NodeShutdown::with_critical_pods(Duration::ZERO, Duration::ZERO);
        assert!(none.periods().is_empty());
    }
}
