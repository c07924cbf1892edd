//! Decides what to do next for one device. It does no IO, and the time is a parameter.
//!
//! Desired values are written before anything is read. A reading is reported at once if it is the first one or follows a write, otherwise
//! at the device's own interval. A report that did not arrive is repeated with the newest values.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Device, Property};

/// The pause after a failed report.
const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// Write a property: its index in the device, and the value.
    Write(usize, String),
    /// Read the property with this index.
    Read(usize),
    /// Report these readings.
    Report(Vec<Reading>),
    /// Wait until this time; `None` means until the device changes.
    Wait(Option<Instant>),
}

/// A reading of a property.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// The property's name.
    pub(crate) property: String,
    /// The name of its type.
    pub(crate) kind: &'static str,
    /// The value as text.
    pub(crate) value: String,
    /// The time of the reading, milliseconds since the Unix epoch.
    pub(crate) at: i64,
    /// The desired value that was written.
    pub(crate) observed: Option<String>,
}

/// The state of the work on one connection to a device.
#[derive(Debug)]
pub(crate) struct Work {
    device: Arc<Device>,
    properties: BTreeMap<String, State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// The desired value that was written.
    written: Option<String>,
    /// The earliest time to repeat a failed write.
    write_at: Option<Instant>,
    read_at: Option<Instant>,
    reading: Option<(String, i64)>,
    /// Whether the reading has not been reported yet.
    is_new: bool,
    report_at: Option<Instant>,
}

impl Work {
    /// Creates the state of a new connection: everything is read, and the desired values are written.
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            properties: BTreeMap::new(),
        }
    }

    /// Returns the current device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Updates the device, whose connection settings have not changed. Unchanged properties keep their cycles: otherwise a device that
    /// changes all the time would never be read completely.
    pub(crate) fn update(&mut self, device: Arc<Device>) {
        let find = |device: &Device, name: &str| {
            device
                .properties
                .iter()
                .find(|property| property.name == name)
                .cloned()
        };
        let before = std::mem::replace(&mut self.device, device);
        self.properties.retain(|name, state| {
            let Some(property) = find(&self.device, name) else {
                return false;
            };
            let Some(mut before) = find(&before, name) else {
                return true;
            };
            if before.desired != property.desired {
                state.write_at = None;
            }
            before.desired.clone_from(&property.desired);
            if before != property {
                // the intervals may be shorter now
                (state.write_at, state.read_at) = (None, None);
            }
            true
        });
    }

    /// Returns the next step.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let mut wake: Option<Instant> = None;
        let mut later = |at: Instant| wake = Some(wake.map_or(at, |wake| wake.min(at)));
        // the property that has waited longest; one that has never been read comes first
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
            let Some((state, reading)) = self.to_report(property) else {
                continue;
            };
            match state.report_at {
                Some(at) if at > now => later(at),
                _ => due.push(reading),
            }
        }
        match read {
            // reports come before repeated readings, which may be due all the time
            _ if !due.is_empty() => Next::Report(due),
            Some((_, index)) => Next::Read(index),
            None => Next::Wait(wake),
        }
    }

    fn to_report(&self, property: &Property) -> Option<(&State, Reading)> {
        let state = self
            .properties
            .get(&property.name)
            .filter(|state| state.is_new && property.to_cloud)?;
        let (value, at) = state.reading.clone()?;
        let observed = state.written.clone();
        Some((
            state,
            Reading {
                property: property.name.clone(),
                kind: property.kind.word(),
                value,
                at,
                observed,
            },
        ))
    }

    /// Records the result of a write.
    pub(crate) fn wrote(&mut self, index: usize, value: &str, is_done: bool, now: Instant) {
        let Some(property) = self.device.properties.get(index) else {
            return;
        };
        let state = self.properties.entry(property.name.clone()).or_default();
        if is_done {
            state.written = Some(value.to_owned());
            // the result is read and reported at once
            (state.read_at, state.report_at) = (None, None);
        } else {
            state.write_at = Some(now + property.collect);
        }
    }

    /// Records a reading; `at` is in milliseconds since the Unix epoch.
    pub(crate) fn read(&mut self, index: usize, value: String, at: i64, now: Instant) {
        let Some(property) = self.device.properties.get(index) else {
            return;
        };
        let state = self.properties.entry(property.name.clone()).or_default();
        state.reading = Some((value, at));
        state.is_new = true;
        state.read_at = Some(now + property.collect);
    }

    /// Records that readings were reported, or must be reported again.
    pub(crate) fn record_reported(&mut self, readings: &[Reading], is_done: bool, now: Instant) {
        for reading in readings {
            let property = self
                .device
                .properties
                .iter()
                .find(|property| property.name == reading.property);
            let (Some(property), Some(state)) =
                (property, self.properties.get_mut(&reading.property))
            else {
                continue;
            };
            // a newer reading has not been reported
            state.is_new &= !is_done
                || state
                    .reading
                    .as_ref()
                    .is_some_and(|(_, at)| *at != reading.at);
            state.report_at = Some(
                now + if is_done {
                    property.report
                } else {
                    REPORT_AGAIN
                },
            );
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
mod tests;
