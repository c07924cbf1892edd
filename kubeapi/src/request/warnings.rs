//! Warnings that are sent with a response.

use std::sync::Arc;

use http::Response;
use parking_lot::Mutex;

use crate::request::body::{self, Body};

/// The warnings of a request, each once.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

/// The most warnings of a response.
const MAX_WARNINGS: usize = 64;

impl Warnings {
    /// Adds a warning.
    pub fn add(&self, warning: String) {
        let mut all = self.0.lock();
        if all.len() < MAX_WARNINGS && !all.contains(&warning) {
            all.push(warning);
        }
    }

    /// Reports whether there is no warning.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Writes the warnings into the headers of a response.
    pub fn write_headers(&self, answer: &mut Response<Body>) {
        self.0
            .lock()
            .iter()
            .for_each(|warning| body::warn(answer, warning));
    }
}
