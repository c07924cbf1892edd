//! What to do next for one device: pure, with a clock that is handed in.
//!
//! A wanted value is written before anything is read. What was read is reported at once for the first time and after a value was
//! written, then in the device's own rhythm. A report that did not arrive is made again, with the newest values.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Device, Property};

/// After a report did not arrive.
const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Write this property: its place in the device, and the value.
    Write(usize, String),
    /// Read this property.
    Read(usize),
    /// Report these.
    Report(Vec<Reading>),
    /// Nothing before then; `None`: nothing at all.
    Wait(Option<Instant>),
}

/// What was read of a property.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// The property.
    pub(crate) property: String,
    /// The word of its type.
    pub(crate) kind: &'static str,
    /// The value.
    pub(crate) value: String,
    /// When, milliseconds since the Unix epoch.
    pub(crate) at: i64,
    /// The wanted value that was written.
    pub(crate) observed: Option<String>,
}

/// The state of the work on one connection.
#[derive(Debug)]
pub(crate) struct Work {
    device: Arc<Device>,
    properties: BTreeMap<String, State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// The wanted value that was written.
    written: Option<String>,
    /// Not before this is a write that failed tried again.
    write_at: Option<Instant>,
    read_at: Option<Instant>,
    reading: Option<(String, i64)>,
    /// What was read has not been reported yet.
    is_new: bool,
    report_at: Option<Instant>,
}

impl Work {
    /// On a new connection: everything is read, and what is wanted is written.
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self { device, properties: BTreeMap::new() }
    }

    /// The device as it is now.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The device has changed, but not how it is reached.
    pub(crate) fn update(&mut self, device: Arc<Device>) {
        self.properties.retain(|name, _| device.properties.iter().any(|property| property.name == *name));
        for state in self.properties.values_mut() {
            // cycles may be shorter now
            (state.write_at, state.read_at) = (None, None);
        }
        self.device = device;
    }

    /// What to do now.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let mut wake: Option<Instant> = None;
        let mut later = |at: Instant| wake = Some(wake.map_or(at, |wake| wake.min(at)));
        // the one that has waited longest; one that has not been read at all comes before the others
        let mut read: Option<(Option<Instant>, usize)> = None;
        for (index, property) in self.device.properties.iter().enumerate() {
            let state = self.properties.get(&property.name);
            if let Some(value) = property.to_write(state) {
                match state.and_then(|state| state.write_at) {
                    Some(at) if at > now => later(at),
                    _ => return Next::Write(index, value.to_owned()),
                }
            }
            match state.and_then(|state| state.read_at) {
                Some(at) if at > now => later(at),
                at if read.is_none_or(|(longest, _)| at < longest) => read = Some((at, index)),
                _ => {}
            }
        }
        if let Some((None, index)) = read {
            return Next::Read(index);
        }
        let mut due = Vec::new();
        for property in &self.device.properties {
            let Some((state, reading)) = self.to_report(property) else { continue };
            match state.report_at {
                Some(at) if at > now => later(at),
                _ => due.push(reading),
            }
        }
        match read {
            // before what is read again: that may be due at all times
            _ if !due.is_empty() => Next::Report(due),
            Some((_, index)) => Next::Read(index),
            None => Next::Wait(wake),
        }
    }

    fn to_report(&self, property: &Property) -> Option<(&State, Reading)> {
        let state = self.properties.get(&property.name).filter(|state| state.is_new && property.to_cloud)?;
        let (value, at) = state.reading.clone()?;
        let observed = state.written.clone();
        Some((
            state,
            Reading { property: property.name.clone(), kind: property.kind.word(), value, at, observed },
        ))
    }

    /// A value was written, or not.
    pub(crate) fn wrote(&mut self, index: usize, value: &str, is_done: bool, now: Instant) {
        let Some(property) = self.device.properties.get(index) else { return };
        let state = self.properties.entry(property.name.clone()).or_default();
        if is_done {
            state.written = Some(value.to_owned());
            // what came of it is read and reported at once
            (state.read_at, state.report_at) = (None, None);
        } else {
            state.write_at = Some(now + property.collect);
        }
    }

    /// A value was read; `at` in milliseconds since the Unix epoch.
    pub(crate) fn read(&mut self, index: usize, value: String, at: i64, now: Instant) {
        let Some(property) = self.device.properties.get(index) else { return };
        let state = self.properties.entry(property.name.clone()).or_default();
        state.reading = Some((value, at));
        state.is_new = true;
        state.read_at = Some(now + property.collect);
    }

    /// Readings were reported, or have to be reported again.
    pub(crate) fn reported(&mut self, readings: &[Reading], is_done: bool, now: Instant) {
        for reading in readings {
            let property = self.device.properties.iter().find(|property| property.name == reading.property);
            let (Some(property), Some(state)) = (property, self.properties.get_mut(&reading.property)) else {
                continue;
            };
            // what was read meanwhile has not been reported
            state.is_new &= !is_done || state.reading.as_ref().is_some_and(|(_, at)| *at != reading.at);
            state.report_at = Some(now + if is_done { property.report } else { REPORT_AGAIN });
        }
    }
}

impl Property {
    fn to_write(&self, state: Option<&State>) -> Option<&str> {
        let desired = self.desired.as_deref().filter(|_| !self.is_read_only)?;
        (state.and_then(|state| state.written.as_deref()) != Some(desired)).then_some(desired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Settings};

    const SECOND: Duration = Duration::from_secs(1);

    fn property(name: &str, desired: Option<&str>) -> Property {
        Property {
            name: name.into(),
            kind: Kind::Float,
            is_read_only: false,
            minimum: String::new(),
            maximum: String::new(),
            unit: String::new(),
            settings: Settings::default(),
            desired: desired.map(str::to_owned),
            collect: SECOND,
            report: 10 * SECOND,
            to_cloud: true,
        }
    }

    fn device(properties: Vec<Property>) -> Arc<Device> {
        let settings = Settings::default();
        Arc::new(Device { namespace: "ns".into(), name: "d".into(), settings, properties })
    }

    fn reading(value: &str, at: i64, observed: Option<&str>) -> Reading {
        let observed = observed.map(str::to_owned);
        Reading { property: "t".into(), kind: "float", value: value.into(), at, observed }
    }

    #[test]
    fn a_value_is_read_in_its_cycle_and_reported_in_its_own() {
        let mut work = Work::new(device(vec![property("t", None)]));
        let begun = Instant::now();
        assert_eq!(work.next(begun), Next::Read(0));
        work.read(0, "1".into(), 100, begun);
        let first = vec![reading("1", 100, None)];
        assert_eq!(work.next(begun), Next::Report(first.clone()));
        work.reported(&first, true, begun);
        assert_eq!(work.next(begun), Next::Wait(Some(begun + SECOND)));
        for second in 1..10 {
            let now = begun + second * SECOND;
            assert_eq!(work.next(now), Next::Read(0));
            work.read(0, second.to_string(), 100 + i64::from(second), now);
            assert!(matches!(work.next(now), Next::Wait(_)), "not before its cycle has ended");
        }
        let now = begun + 10 * SECOND;
        work.read(0, "10".into(), 110, now);
        assert_eq!(work.next(now), Next::Report(vec![reading("10", 110, None)]));
    }

    #[test]
    fn a_wanted_value_is_written_once_and_what_came_of_it_reported_at_once() {
        let mut work = Work::new(device(vec![property("t", Some("20"))]));
        let now = Instant::now();
        assert_eq!(work.next(now), Next::Write(0, "20".into()));
        work.wrote(0, "20", false, now);
        assert_eq!(work.next(now), Next::Read(0), "a write that failed holds up nothing");
        work.read(0, "5".into(), 1, now);
        work.reported(&[reading("5", 1, None)], true, now);
        assert_eq!(work.next(now), Next::Wait(Some(now + SECOND)));
        let now = now + SECOND;
        assert_eq!(work.next(now), Next::Write(0, "20".into()));
        work.wrote(0, "20", true, now);
        assert_eq!(work.next(now), Next::Read(0));
        work.read(0, "19.9".into(), 2, now);
        assert_eq!(work.next(now), Next::Report(vec![reading("19.9", 2, Some("20"))]));
        // another value is wanted
        work.update(device(vec![property("t", Some("25"))]));
        assert_eq!(work.next(now), Next::Write(0, "25".into()));
        work.wrote(0, "25", true, now);
        assert_eq!(work.next(now), Next::Read(0));
    }

    #[test]
    fn a_report_that_did_not_arrive_is_made_again_with_the_newest_value() {
        let mut work = Work::new(device(vec![property("t", None)]));
        let now = Instant::now();
        work.read(0, "1".into(), 1, now);
        work.reported(&[reading("1", 1, None)], false, now);
        let now = now + SECOND;
        work.read(0, "2".into(), 2, now);
        assert_eq!(work.next(now), Next::Report(vec![reading("2", 2, None)]));
        // a value that was read while the report was under way is reported in its turn
        work.read(0, "3".into(), 3, now);
        work.reported(&[reading("2", 2, None)], true, now);
        work.read(0, "3".into(), 3, now + 9 * SECOND);
        assert_eq!(work.next(now + 10 * SECOND - SECOND / 2), Next::Wait(Some(now + 10 * SECOND)));
    }

    #[test]
    fn a_device_that_is_slower_than_its_cycles_is_read_in_turn_and_reported() {
        let names = ["a", "b", "c"];
        let mut work = Work::new(device(names.map(|name| property(name, None)).into()));
        let mut now = Instant::now();
        let (mut read, mut reported) = ([0; 3], 0);
        for at in 0..40 {
            match work.next(now) {
                Next::Read(index) => {
                    read[index] += 1;
                    // all others are due again meanwhile
                    now += 2 * SECOND;
                    work.read(index, "1".into(), at, now);
                }
                Next::Report(readings) => {
                    assert!(read.iter().all(|count| *count > 0), "not before everything was read");
                    reported += readings.len();
                    work.reported(&readings, true, now);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(reported > names.len(), "{reported}");
        let (least, most) = (read.iter().min().unwrap(), read.iter().max().unwrap());
        assert!(most - least <= 1, "{read:?}");
    }

    #[test]
    fn what_is_read_only_or_not_for_the_cloud_is_left_alone() {
        let mut own = property("t", Some("20"));
        own.is_read_only = true;
        own.to_cloud = false;
        let mut work = Work::new(device(vec![own]));
        let now = Instant::now();
        assert_eq!(work.next(now), Next::Read(0));
        work.read(0, "1".into(), 1, now);
        assert_eq!(work.next(now), Next::Wait(Some(now + SECOND)));
        assert_eq!(Work::new(device(Vec::new())).next(now), Next::Wait(None));
    }
}
