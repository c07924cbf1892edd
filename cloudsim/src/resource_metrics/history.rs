//! The usage between the last two samples of a node and of its containers. Pure.
//!
//! Source: metrics-server's storage, `pkg/storage/{node,pod,types}.go`.

use std::collections::BTreeMap;

use super::page::{Page, PodName, Point};

/// A container of at least this age, in milliseconds, is measured from its start …
const MIN_START_AGE_MS: i64 = 10_000;
/// … unless it is older than this: then it has an earlier sample.
const MAX_START_AGE_MS: i64 = 15_000;

/// The usage within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// The average CPU usage, nanocores.
    pub(super) cpu: u64,
    /// The working set at the end, bytes.
    pub(super) memory: u64,
    /// The end of the window, milliseconds since 1970.
    pub(super) at: i64,
    /// The length of the window, milliseconds; above 0.
    pub(super) window: i64,
}

impl Usage {
    /// Returns `None` if a counter has decreased, or no time has passed.
    fn between(before: Point, last: Point) -> Option<Self> {
        let used = last.cpu.checked_sub(before.cpu)?;
        let window = last
            .at
            .checked_sub(before.at)
            .filter(|window| *window > 0)?;
        let cpu = u128::from(used) * 1000 / u128::try_from(window).ok()?;
        Some(Self {
            cpu: u64::try_from(cpu).ok()?,
            memory: last.memory,
            at: last.at,
            window,
        })
    }
}

/// The last two samples of a node and its containers.
#[derive(Debug, Default)]
pub(super) struct History {
    last: Page,
    node_before: Option<Point>,
    /// The earlier samples; a restarted container has none.
    pods_before: BTreeMap<PodName, BTreeMap<String, Point>>,
}

impl History {
    /// Adds a newer page. What is not on it is forgotten.
    pub(super) fn take(&mut self, page: Page) {
        let older = |last: Option<Point>, before: Option<Point>, new: Point| {
            // the same sample again: the one before it is kept
            let older = if last.is_some_and(|last| last.at < new.at) {
                last
            } else {
                before
            };
            older.filter(|older| older.at < new.at)
        };
        self.node_before = page
            .node
            .and_then(|new| older(self.last.node, self.node_before, new));
        let of_pod = |(name, containers): (&PodName, &BTreeMap<String, Point>)| {
            let of_container = |(container, new): (&String, &Point)| {
                let age = new.at.saturating_sub(new.start);
                if (MIN_START_AGE_MS..MAX_START_AGE_MS).contains(&age) {
                    return Some((
                        container.clone(),
                        Point {
                            at: new.start,
                            cpu: 0,
                            ..*new
                        },
                    ));
                }
                let point = |pods: &BTreeMap<PodName, BTreeMap<String, Point>>| {
                    pods.get(name)
                        .and_then(|containers| containers.get(container))
                        .copied()
                };
                let last = point(&self.last.pods).filter(|last| new.start < last.at)?;
                older(Some(last), point(&self.pods_before), *new)
                    .map(|older| (container.clone(), older))
            };
            (
                name.clone(),
                containers.iter().filter_map(of_container).collect(),
            )
        };
        self.pods_before = page.pods.iter().map(of_pod).collect();
        self.last = page;
    }

    /// Reports whether something needs another sample before its usage is known.
    pub(super) fn needs_another(&self) -> bool {
        self.last.node.is_some() && self.node_before.is_none()
    }

    /// Returns the usage of the node.
    pub(super) fn node(&self) -> Option<Usage> {
        Usage::between(self.node_before?, self.last.node?)
    }

    /// Returns the usage of each container of a pod; of all containers or of none.
    pub(super) fn pod(&self, name: &PodName) -> Option<Vec<(&str, Usage)>> {
        let before = self.pods_before.get(name)?;
        let of_container = |(container, last): (&'_ String, &Point)| {
            Usage::between(*before.get(container)?, *last)
        };
        let containers = self.last.pods.get(name)?;
        containers
            .iter()
            .map(|one| Some((one.0.as_str(), of_container(one)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> PodName {
        ("n".into(), "p".into())
    }

    fn point(at: i64, cpu: u64, start: i64) -> Point {
        Point {
            at,
            cpu,
            memory: 4096,
            start,
        }
    }

    fn page(node: Option<Point>, containers: &[(&str, Point)]) -> Page {
        let containers: BTreeMap<_, _> = containers
            .iter()
            .map(|(name, point)| ((*name).to_owned(), *point))
            .collect();
        let pods = if containers.is_empty() {
            BTreeMap::new()
        } else {
            [(name(), containers)].into()
        };
        Page { node, pods }
    }

    fn usage(cpu: u64, at: i64, window: i64) -> Usage {
        Usage {
            cpu,
            memory: 4096,
            at,
            window,
        }
    }

    #[test]
    fn a_node_is_measured_between_its_last_two_points() {
        let mut history = History::default();
        let mut take = |at, cpu| {
            history.take(page(Some(point(at, cpu, 0)), &[]));
            (history.node(), history.needs_another())
        };
        assert_eq!(take(1_000, 5_000), (None, true));
        // the same point again says nothing
        assert_eq!(take(1_000, 5_000), (None, true));
        assert_eq!(
            take(3_000, 7_000),
            (Some(usage(1_000, 3_000, 2_000)), false)
        );
        assert_eq!(
            take(3_000, 7_000),
            (Some(usage(1_000, 3_000, 2_000)), false)
        );
        // started anew
        assert_eq!(take(5_000, 10), (None, false));
        assert_eq!(take(6_000, 20), (Some(usage(10, 6_000, 1_000)), false));
        // its clock was set back: what was before lies in the future
        assert_eq!(take(2_000, 30), (None, true));
        history.take(page(None, &[]));
        assert_eq!((history.node(), history.needs_another()), (None, false));
    }

    #[test]
    fn a_pod_has_all_of_its_containers_or_none() {
        let mut history = History::default();
        history.take(page(
            None,
            &[
                ("a", point(50_000, 100, 1_000)),
                ("b", point(50_000, 100, 1_000)),
            ],
        ));
        assert_eq!(history.pod(&name()), None);
        history.take(page(
            None,
            &[
                ("a", point(60_000, 200, 1_000)),
                ("b", point(61_000, 320, 1_000)),
            ],
        ));
        let used = vec![
            ("a", usage(10, 60_000, 10_000)),
            ("b", usage(20, 61_000, 11_000)),
        ];
        assert_eq!(history.pod(&name()), Some(used));
        // one is new
        let [a, b] = [
            ("a", point(70_000, 300, 1_000)),
            ("b", point(71_000, 420, 1_000)),
        ];
        history.take(page(None, &[a, b, ("c", point(70_000, 1, 68_000))]));
        assert_eq!(history.pod(&name()), None);
        history.take(page(None, &[]));
        assert_eq!(history.pod(&name()), None);
        assert_eq!(history.pod(&("n".into(), "absent".into())), None);
    }

    #[test]
    fn a_container_that_starts_anew_is_measured_anew() {
        let mut history = History::default();
        let mut take = |point| {
            history.take(page(None, &[("a", point)]));
            history.pod(&name()).map(|used| used[0].1)
        };
        assert_eq!(take(point(50_000, 100, 1_000)), None);
        // with more than before it, too
        assert_eq!(take(point(60_000, 200, 55_000)), None);
        assert_eq!(
            take(point(64_000, 204, 55_000)),
            Some(usage(1, 64_000, 4_000))
        );
        // a counter that falls
        assert_eq!(take(point(90_000, 10, 55_000)), None);
        // a young one is measured from its start, if it is not too young
        assert_eq!(take(point(109_000, 90, 100_000)), None);
        assert_eq!(
            take(point(110_000, 100, 100_000)),
            Some(usage(10, 110_000, 10_000))
        );
    }
}
