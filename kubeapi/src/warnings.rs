//! What callers are told beside the answer.

use std::sync::Arc;

use http::Response;
use parking_lot::Mutex;

use crate::body::{self, Body};

/// Texts that are told with the answer, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

/// How many warnings are told.
const MAX_WARNINGS: usize = 64;

impl Warnings {
    /// Adds one.
    pub(crate) fn add(&self, warning: String) {
        let mut all = self.0.lock();
        if all.len() < MAX_WARNINGS && !all.contains(&warning) {
            all.push(warning);
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Tells them with an answer.
    pub(crate) fn told(&self, answer: &mut Response<Body>) {
        self.0.lock().iter().for_each(|warning| body::warn(answer, warning));
    }
}
