//! The object of a request in other versions of its kind, for the owners of fields who wrote in those versions.
//!
//! Owners are determined by pure functions, but a webhook may have to convert. A function that misses a version notes which, and fails;
//! its caller converts the object, and calls it again. If the conversion fails, too, the function learns why.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::patch::PatchError;

/// How many objects one write may convert for the owners of fields.
const MAX_CONVERSIONS: usize = 128;

/// An object in two versions.
#[derive(Debug)]
pub(super) struct Converted {
    pub(super) from: Value,
    pub(super) api_version: String,
    pub(super) to: Value,
}

#[derive(Debug, Default)]
struct State {
    known: Vec<Converted>,
    missing: Vec<(Value, String)>,
    /// Why a conversion failed. No more are tried.
    failure: Option<String>,
}

/// The conversions of one request. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ConvertedVersions(Arc<Mutex<State>>);

impl ConvertedVersions {
    /// Takes what was missing since the last call.
    pub(super) fn take_missing(&self) -> Vec<(Value, String)> {
        std::mem::take(&mut self.0.lock().missing)
    }

    /// Adds a conversion; returns false if there are too many already.
    pub(super) fn add(&self, converted: Converted) -> bool {
        let known = &mut self.0.lock().known;
        let has_room = known.len() < MAX_CONVERSIONS;
        if has_room {
            known.push(converted);
        }
        has_room
    }

    /// Notes that a conversion failed.
    pub(super) fn fail(&self, why: &str) {
        self.0.lock().failure = Some(why.to_owned());
    }

    /// Returns the object in a version.
    ///
    /// # Errors
    /// [`PatchError::Unconverted`] if it has to be converted first, which is noted; [`PatchError::Inconvertible`] if that failed.
    pub(super) fn find(&self, object: &Value, api_version: &str) -> Result<Value, PatchError> {
        let mut state = self.0.lock();
        let known = state
            .known
            .iter()
            .find(|known| known.api_version == api_version && known.from == *object);
        match (known, &state.failure) {
            (Some(known), _) => Ok(known.to.clone()),
            (None, Some(why)) => Err(PatchError::Inconvertible(why.clone())),
            (None, None) => {
                state.missing.push((object.clone(), api_version.to_owned()));
                Err(PatchError::Unconverted)
            }
        }
    }
}
