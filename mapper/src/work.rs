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

    /// The device has changed, but not how it is reached. Where a property is what it was, its cycles go on: were all of them
    /// begun anew, a device that changes all the time would never be read as a whole.
    pub(crate) fn update(&mut self, device: Arc<Device>) {
        let find = |device: &Device, name: &str| {
            device.properties.iter().find(|property| property.name == name).cloned()
        };
        let before = std::mem::replace(&mut self.device, device);
        self.properties.retain(|name, state| {
            let Some(property) = find(&self.device, name) else { return false };
            let Some(mut before) = find(&before, name) else { return true };
            if before.desired != property.desired {
                state.write_at = None;
            }
            before.desired.clone_from(&property.desired);
            if before != property {
                // cycles may be shorter now
                (state.write_at, state.read_at) = (None, None);
            }
            true
        });
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
mod tests;
