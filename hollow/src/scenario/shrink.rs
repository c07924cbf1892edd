//! The faults of a scenario, and the search for a small set of them with which it still fails. Pure.

use std::collections::BTreeSet;

use cloudsim::faults::{Certificate, Conditions, Period};

use super::{
    Outcome, Scenario, Verdict,
    file::{LinkFaults, Step},
};

/// The fields of [`Conditions`] that are no faults: they say which messages are concerned, and for how long.
const NO_FAULTS: [&str; 3] = ["for", "direction", "kinds"];

/// A fault of a scenario: a step, or one condition of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFault {
    /// The line of the step, or of the `repeat` that contains it.
    pub line: u64,
    /// The step, or the condition with its value and node.
    pub title: String,
    /// The number of the step, and its number inside of each `repeat`.
    path: Vec<usize>,
    /// The condition, unless it is the whole step.
    condition: Option<String>,
}

/// Where a scenario failed first: the line, and the title of the step.
pub type Failure = (u64, String);

impl Outcome {
    /// Returns the step that failed.
    pub fn failure(&self) -> Option<Failure> {
        let failed = |verdict: &Verdict| matches!(verdict, Verdict::Failed(_));
        let step = self.steps.iter().find(|step| failed(&step.verdict))?;
        Some((step.line, step.title.clone()))
    }
}

impl Scenario {
    /// Returns the faults, in the order of the file.
    pub fn faults(&self) -> Vec<ScenarioFault> {
        let mut all = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            collect(
                &step.value,
                step.referenced.line(),
                &mut vec![number],
                &mut all,
            );
        }
        all
    }

    /// Returns the scenario without these faults. Other steps have the same numbers and lines.
    #[must_use]
    pub fn without(&self, faults: &[&ScenarioFault]) -> Self {
        let mut scenario = self.clone();
        let mut steps: Vec<_> = scenario.steps.iter_mut().map(|it| &mut it.value).collect();
        for fault in faults {
            remove(&mut steps, &fault.path, fault.condition.as_deref());
        }
        scenario
    }
}

/// Adds the faults of a step.
fn collect(step: &Step, line: u64, path: &mut Vec<usize>, all: &mut Vec<ScenarioFault>) {
    let mut add = |title: String, condition: Option<String>| {
        all.push(ScenarioFault {
            line,
            title,
            path: path.clone(),
            condition,
        });
    };
    match step {
        Step::Faults(LinkFaults { node, conditions }) => {
            for (name, value) in fields(conditions) {
                add(format!("{name}: {value} for {node}"), Some(name));
            }
        }
        Step::Certificate(Certificate::Genuine) => {}
        Step::Cut(_)
        | Step::HalfOpen(_)
        | Step::Certificate(_)
        | Step::SendMalformed(_)
        | Step::Kill(_)
        | Step::Stop(_) => add(step.title(), None),
        Step::Repeat(repeat) => {
            for (number, step) in repeat.steps.iter().enumerate() {
                path.push(number);
                collect(step, line, path, all);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Returns the faults in conditions, by the names of their fields.
fn fields(conditions: &Conditions) -> Vec<(String, serde_json::Value)> {
    let object = serde_json::to_value(conditions).unwrap_or_default();
    let fields = object.as_object().cloned().unwrap_or_default().into_iter();
    let is_fault = |(name, _): &(String, _)| !NO_FAULTS.contains(&name.as_str());
    fields.filter(is_fault).collect()
}

/// Removes a fault. A step that is one becomes a pause of no time; with a kill or stop, the next start of the same node goes, too.
fn remove(steps: &mut [&mut Step], path: &[usize], condition: Option<&str>) {
    let Some((number, inner)) = path.split_first() else {
        return;
    };
    let nothing = || Step::Pause(Period::seconds(0));
    match (&mut *steps[*number], condition) {
        (Step::Repeat(repeat), condition) => {
            let mut steps: Vec<_> = repeat.steps.iter_mut().collect();
            remove(&mut steps, inner, condition);
        }
        (Step::Faults(faults), Some(condition)) => {
            let left = without_field(&faults.conditions, condition);
            let is_empty = fields(&left).is_empty();
            faults.conditions = left;
            if is_empty {
                *steps[*number] = nothing();
            }
        }
        (Step::Kill(node) | Step::Stop(node), _) => {
            let node = node.clone();
            let of_node = |step: &&mut &mut Step| matches!(step, Step::Kill(it) | Step::Stop(it) | Step::Start(it) if *it == node);
            let next = steps[number + 1..].iter_mut().find(of_node);
            if let Some(start @ Step::Start(_)) = next.map(|step| &mut **step) {
                *start = nothing();
            }
            *steps[*number] = nothing();
        }
        (step, _) => *step = nothing(),
    }
}

fn without_field(conditions: &Conditions, name: &str) -> Conditions {
    let mut object = serde_json::to_value(conditions).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.remove(name);
    }
    // what was serialized can be read again, with and without any of its fields
    serde_json::from_value(object).unwrap_or_default()
}

/// Searches for a set of faults from which none can be removed. `fails` says whether the scenario fails as before with these faults, by
/// their numbers below `count`.
pub async fn shrink<E>(
    count: usize,
    mut fails: impl AsyncFnMut(&BTreeSet<usize>) -> Result<bool, E>,
) -> Result<BTreeSet<usize>, E> {
    let mut kept: Vec<usize> = (0..count).collect();
    let mut size = kept.len();
    while size > 0 {
        let (before, mut at) = (kept.len(), 0);
        while at < kept.len() {
            let end = (at + size).min(kept.len());
            let tried = kept[..at].iter().chain(&kept[end..]).copied().collect();
            match fails(&tried).await? {
                true => kept = tried.into_iter().collect(),
                false => at = end,
            }
        }
        // a single fault may have become needless when others were removed
        if size > 1 || kept.len() == before {
            size /= 2;
        }
    }
    Ok(kept.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
name: faults
nodes: [{name: edge-1}, {name: edge-2}]
steps:
- faults: {node: all, conditions: {drop: 0.1, delay: 50ms, for: 1h}}
- cut: edge-1
- restore: edge-1
- repeat:
    every: 1m
    times: 2
    steps:
    - kill: edge-2
    - start: edge-2
    - halfOpen: edge-1
- certificate: expired
- certificate: genuine
- stop: cloud
- start: edge-2
- start: cloud
";

    #[test]
    fn the_faults_of_a_scenario_can_be_removed_one_by_one() {
        let scenario = Scenario::read(TEXT).unwrap();
        let faults = scenario.faults();
        let told: Vec<_> = faults.iter().map(|it| (it.line, &*it.title)).collect();
        let expected = [
            (4, "delay: \"50ms\" for all"),
            (4, "drop: 0.1 for all"),
            (5, "cut edge-1"),
            (7, "kill edge-2"),
            (7, "half-open edge-1"),
            (14, "certificate expired"),
            (16, "stop cloud"),
        ];
        assert_eq!(told, expected);
        let titles = |scenario: &Scenario| {
            let titles = scenario.steps.iter().map(|step| match &step.value {
                Step::Repeat(repeat) => {
                    let inner: Vec<_> = repeat.steps.iter().map(Step::title).collect();
                    inner.join(", ")
                }
                Step::Faults(faults) => format!("{:?}", faults.conditions.drop),
                step => step.title(),
            });
            titles.collect::<Vec<_>>()
        };
        let some = scenario.without(&[&faults[0], &faults[3], &faults[6]]);
        let expected = [
            "Some(0.1)",
            "cut edge-1",
            "restore edge-1",
            "pause 0s, pause 0s, half-open edge-1",
            "certificate expired",
            "certificate genuine",
            "pause 0s",
            "start edge-2",
            "pause 0s",
        ];
        assert_eq!(titles(&some), expected);
        assert_eq!(some.faults().len(), 4);
        let all: Vec<_> = faults.iter().collect();
        assert_eq!(scenario.without(&all).faults(), []);
    }

    #[tokio::test]
    async fn the_smallest_set_that_fails_remains() {
        for (count, needed) in [
            (0, vec![]),
            (1, vec![0]),
            (7, vec![]),
            (20, vec![3, 17]),
            (9, vec![0, 1, 8]),
        ] {
            let needed: BTreeSet<usize> = needed.into_iter().collect();
            let mut runs = 0;
            let found = shrink(count, async |tried: &BTreeSet<usize>| {
                runs += 1;
                Ok::<_, ()>(tried.is_superset(&needed))
            });
            assert_eq!(found.await.unwrap(), needed);
            assert!(runs < 60, "{runs} runs for {count} faults");
        }
    }
}
