//! A node and a cloud with one property, and a connection that is interrupted: the cloud behaves as it must for both to agree.

use std::collections::VecDeque;

use super::*;

const NAME: &str = "t";

/// A possible event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The edge changes the desired value.
    EdgeWants,
    /// The device changes the reported value.
    EdgeIs,
    /// The cloud changes the desired value.
    CloudWants,
    /// A message arrives at the cloud, which confirms it.
    Up,
    /// A message arrives at the edge.
    Down,
    /// The connection is interrupted and restored; messages under way are lost.
    Cut,
}

impl Step {
    pub(super) const ALL: [Self; 6] = [
        Self::EdgeWants,
        Self::EdgeIs,
        Self::CloudWants,
        Self::Up,
        Self::Down,
        Self::Cut,
    ];
}

/// A message of the cloud.
#[derive(Clone, Debug)]
enum Downward {
    Confirmed,
    Twin(Value, Version),
}

#[derive(Clone, Debug)]
pub(super) struct World {
    edge: Device,
    /// The cloud's desired and reported values.
    wanted: (Value, Version),
    is: (Value, Version),
    up: VecDeque<Twin>,
    down: VecDeque<Downward>,
    /// The report whose confirmation the edge waits for.
    told: Option<ReportedTwins>,
    edge_updates: usize,
    cloud_updates: usize,
    /// The number of further interruptions; `None` for any number.
    cuts: Option<usize>,
    count: usize,
}

impl World {
    pub(super) fn new(edge_updates: usize, cloud_updates: usize, cuts: Option<usize>) -> Self {
        let nothing = (Value::Null, Version::default());
        Self {
            edge: Device::default(),
            wanted: nothing.clone(),
            is: nothing,
            up: VecDeque::new(),
            down: VecDeque::new(),
            told: None,
            edge_updates,
            cloud_updates,
            cuts,
            count: 0,
        }
    }

    /// Two worlds with the same key have the same future, but for the names of values.
    pub(super) fn key(&self) -> String {
        format!("{self:?}")
    }

    /// Takes a step if it is possible. No version decreases.
    pub(super) fn step(&mut self, step: Step) -> bool {
        let before = self.versions();
        let is_taken = self.take(step);
        self.report();
        for (old, new) in before.into_iter().zip(self.versions()) {
            assert!(
                new.cloud >= old.cloud && new.edge >= old.edge,
                "{step:?} took {old:?} back to {new:?}"
            );
        }
        is_taken
    }

    fn take(&mut self, step: Step) -> bool {
        match step {
            Step::EdgeWants | Step::EdgeIs => {
                if self.edge_updates == 0 {
                    return false;
                }
                self.edge_updates -= 1;
                self.count += 1;
                let side = if matches!(step, Step::EdgeWants) {
                    "expected"
                } else {
                    "actual"
                };
                apply_update(
                    &mut self.edge,
                    json!({NAME: {side: {"value": format!("e{}", self.count)}}}),
                )
                .unwrap();
                true
            }
            Step::CloudWants => {
                if self.cloud_updates == 0 {
                    return false;
                }
                self.cloud_updates -= 1;
                self.count += 1;
                self.wanted.0 = json!(format!("c{}", self.count));
                self.wanted.1.cloud += 1;
                self.send_wanted();
                true
            }
            Step::Up => {
                let Some(twin) = self.up.pop_front() else {
                    return false;
                };
                self.cloud_hears(&twin);
                self.down.push_back(Downward::Confirmed);
                true
            }
            Step::Down => {
                match self.down.pop_front() {
                    None => return false,
                    Some(Downward::Confirmed) => {
                        let told = self.told.take().expect("one is confirmed that was told");
                        confirm(&mut self.edge, &told);
                    }
                    Some(Downward::Twin(value, version)) => {
                        let twin = json!({NAME: {"expected": {"value": value}, "expected_version": version, "metadata": {"type": "string"}}});
                        sync(&mut self.edge, PropertyRules::default(), &twins(twin), 9);
                    }
                }
                true
            }
            Step::Cut => {
                match &mut self.cuts {
                    Some(0) => return false,
                    Some(left) => *left -= 1,
                    None => {}
                }
                self.up.clear();
                self.down.clear();
                self.told = None;
                self.send_wanted();
                true
            }
        }
    }

    fn send_wanted(&mut self) {
        if !self.wanted.0.is_null() {
            self.down
                .push_back(Downward::Twin(self.wanted.0.clone(), self.wanted.1));
        }
    }

    /// The node sends one report at a time, and waits for its confirmation.
    fn report(&mut self) {
        if self.told.is_none()
            && let Some((mut twins, told)) = report(&self.edge)
        {
            self.up.extend(twins.remove(NAME).flatten());
            self.told = Some(told);
        }
    }

    /// Of two concurrent changes the edge's wins, and the cloud sends it back.
    fn cloud_hears(&mut self, twin: &Twin) {
        let value = |side: &Option<wire::twin::Value>| {
            json!(side.as_ref().and_then(|side| side.value.clone()))
        };
        if let Some(version) = twin.actual_version {
            let is_newer = version.edge > self.is.1.edge;
            if is_newer {
                self.is = (value(&twin.actual), version);
            }
        }
        if let Some(version) = twin.expected_version {
            let mine = self.wanted.1;
            if version.edge > mine.edge {
                let both = Version {
                    cloud: mine.cloud.max(version.cloud),
                    edge: version.edge,
                };
                let seen = value(&twin.expected);
                self.wanted = (seen, both);
                if both != version {
                    self.send_wanted();
                }
            }
        }
    }

    fn versions(&self) -> [Version; 4] {
        let property = self.edge.twins.get(NAME).cloned().unwrap_or_default();
        [
            property.expected.version,
            property.actual.version,
            self.wanted.1,
            self.is.1,
        ]
    }

    /// Delivers all messages.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.step(Step::Up) && !self.step(Step::Down) {
                return;
            }
        }
        panic!("they never stop talking: {self:?}");
    }

    /// Asserts, when no message is under way, that both have the same values at the same versions.
    pub(super) fn agree(&self) {
        let property = self.edge.twins.get(NAME).cloned().unwrap_or_default();
        let edge = (json!(property.expected.value), property.expected.version);
        assert_eq!(edge, self.wanted, "{self:?}");
        assert_eq!(
            (json!(property.actual.value), property.actual.version),
            self.is,
            "{self:?}"
        );
    }
}
