//! Connections that are refused again and again, as from an agent of another cloud: they are logged at growing intervals.

use std::{error::Error, net::IpAddr, sync::Arc, time::Instant};

use limits::Repeated;
use parking_lot::Mutex;

/// The refusals that were counted and logged; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Repeated>>);

impl Refusals {
    /// Counts a refused connection from `peer`. Returns the number of refusals if it is to be logged now.
    pub(crate) fn count(&self, peer: IpAddr, why: &dyn Error, now: Instant) -> Option<u64> {
        let mut fault = format!("{peer}: {why}");
        let mut cause = why.source();
        while let Some(next) = cause {
            fault.push_str(&format!(": {next}"));
            cause = next.source();
        }
        self.0.lock().count(&fault, now)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;

    #[test]
    fn a_refusal_that_comes_again_is_told_ever_more_rarely_and_another_one_at_once() {
        let (refusals, begun) = (Refusals::default(), Instant::now());
        let error = |why: &str| io::Error::other(why.to_owned());
        let count = |peer: u8, why: &str, second| {
            let at = begun + Duration::from_secs(second);
            refusals.count([10, 0, 0, peer].into(), &error(why), at)
        };
        let told: Vec<u64> = (0..100).filter(|second| count(1, "unknown CA", *second).is_some()).collect();
        assert_eq!(told, [0, 10, 30, 70]);
        assert_eq!(count(2, "unknown CA", 100), Some(1));
        assert_eq!(count(1, "no certificate", 100), Some(1));
    }
}
