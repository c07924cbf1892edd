//! Durations, counted by how long they were.

use std::time::Duration;

/// How many took at most so long.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// In seconds, rising.
    bounds: &'static [f64],
    /// One for each bound: those that are above the bound before it and not above this one.
    counts: Box<[u64]>,
    /// All of them.
    count: u64,
    /// Seconds.
    sum: f64,
}

impl Histogram {
    /// Nothing counted yet; `bounds` in seconds, rising.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()].into(), count: 0, sum: 0.0 }
    }

    /// One more.
    pub fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }

    /// Each bound, and how many took at most that long.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().zip(&self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((*bound, *below))
        })
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How long they took together, in seconds.
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
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(0.1, 2), (1.0, 3)]);
        assert_eq!(histogram.count(), 4);
        assert!((histogram.sum() - 5.251).abs() < 1e-9);
    }
}
