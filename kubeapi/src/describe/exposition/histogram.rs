//! A histogram of durations.

use std::time::Duration;

/// Counts durations by upper bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The upper bounds in seconds, ascending.
    bounds: &'static [f64],
    /// For each bound, the number of durations above the previous bound and not above this one.
    counts: Box<[u64]>,
    /// The number of all durations.
    count: u64,
    /// The sum of all durations in seconds.
    sum: f64,
}

impl Histogram {
    /// Creates an empty histogram; `bounds` are in seconds, ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len()].into(),
            count: 0,
            sum: 0.0,
        }
    }

    /// Counts one duration.
    pub fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }

    /// Returns each bound with the number of durations that are not above it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds
            .iter()
            .zip(&self.counts)
            .scan(0, |below, (bound, count)| {
                *below += count;
                Some((*bound, *below))
            })
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all durations in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_counts_what_took_at_most_that_long() {
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        for milliseconds in [50, 100, 101, 5_000] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        assert_eq!(
            histogram.cumulative().collect::<Vec<_>>(),
            [(0.1, 2), (1.0, 3)]
        );
        assert_eq!(histogram.count(), 4);
        assert!((histogram.sum() - 5.251).abs() < 1e-9);
    }
}
