//! Limits how many log lines one place in the code may write, so that an outside client cannot fill a disk with them.

use std::{
    collections::HashMap,
    fmt::{self, Debug, Write},
    sync::Arc,
    time::Duration,
};

use clock::Instant;
use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

/// The lines that one place may write at once.
const BURST: u32 = 100;
/// A line that is longer than this, bytes, counts as several.
const LINE_BYTES: usize = 1024;
/// The interval at which one place may write a further line.
const INTERVAL: Duration = Duration::from_secs(10);

/// A log filter: one place in the code may write 100 lines at once, then one every ten seconds; each KiB of a long line counts as a line.
/// Dropped lines are counted for [`LogThrottle::left_out`]. Lines of `DEBUG` and `TRACE` are never dropped, because somebody has asked
/// for them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LogThrottle(Arc<Mutex<HashMap<Identifier, Place>>>);

/// The state of one place in the code.
#[derive(Debug)]
struct Place {
    /// The place, for the report of dropped lines.
    at: String,
    /// The lines that it may write now.
    tokens: u32,
    /// The time of the last refill.
    refilled: Instant,
    left_out: u64,
}

impl LogThrottle {
    /// Returns the lines dropped since the last call: place in the code and number of lines.
    pub fn left_out(&self) -> Vec<(String, u64)> {
        let mut places = self.0.lock();
        let told = places.values_mut().filter(|place| place.left_out > 0);
        told.map(|place| (place.at.clone(), std::mem::take(&mut place.left_out)))
            .collect()
    }

    /// Reports whether a line of this place is written at `now`. It counts as `lines()`, which is not asked of a place that may write
    /// nothing: under a flood no line is formatted.
    fn admit(&self, metadata: &Metadata<'_>, lines: impl FnOnce() -> u32, now: Instant) -> bool {
        // without the lock, since it formats values of any type
        self.take(metadata, 0, now) && self.take(metadata, lines(), now)
    }

    /// Takes the tokens of so many lines, or counts a line as dropped if there are not as many, or none.
    fn take(&self, metadata: &Metadata<'_>, lines: u32, now: Instant) -> bool {
        let mut places = self.0.lock();
        let place = places.entry(metadata.callsite()).or_insert_with(|| Place {
            at: format!(
                "{}:{}",
                metadata.target(),
                metadata.line().unwrap_or_default()
            ),
            tokens: BURST,
            refilled: now,
            left_out: 0,
        });
        let gained = now.saturating_duration_since(place.refilled).as_secs() / INTERVAL.as_secs();
        if gained > 0 {
            place.tokens = u32::try_from(u64::from(place.tokens) + gained)
                .unwrap_or(BURST)
                .min(BURST);
            place.refilled = now;
        }
        if place.tokens < lines.max(1) {
            place.left_out += 1;
            return false;
        }
        place.tokens -= lines;
        true
    }
}

/// The bytes of a line's fields, as far as they matter.
struct Size(usize);

impl Size {
    /// Returns as how many lines the event counts: a place that has written nothing may always write one, however long it is.
    fn lines(event: &Event<'_>) -> u32 {
        let mut size = Self(0);
        event.record(&mut size);
        u32::try_from(1 + size.0 / LINE_BYTES)
            .unwrap_or(BURST)
            .min(BURST)
    }
}

impl Visit for Size {
    fn record_str(&mut self, _: &Field, value: &str) {
        self.0 += value.len();
    }

    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        // fails only when it counts as a whole burst
        let _ = write!(self, "{value:?}");
    }
}

impl Write for Size {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        if self.0 > BURST as usize * LINE_BYTES {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

impl<S: Subscriber> Filter<S> for LogThrottle {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        // those of DEBUG and TRACE are asked for
        *event.metadata().level() > Level::INFO
            || self.admit(event.metadata(), || Size::lines(event), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::prelude::*;

    use super::*;
    use testkit::LogBuffer;

    #[test]
    fn a_flood_of_one_line_leaves_the_log_readable_and_is_counted() {
        let (log, throttle) = (LogBuffer::default(), LogThrottle::default());
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(log.clone())
            .with_filter(throttle.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            for number in 0..10_000 {
                tracing::warn!(number, "refused");
            }
            tracing::warn!("another place");
        });
        let text = log.text();
        assert_eq!(text.lines().count(), BURST as usize + 1);
        assert!(text.ends_with("another place\n"), "{text}");
        let left_out = throttle.left_out();
        assert!(
            matches!(&left_out[..], [(at, 9_900)] if at.contains("log_throttle")),
            "{left_out:?}"
        );
        assert!(throttle.left_out().is_empty());
    }

    #[test]
    fn long_lines_use_up_what_a_place_may_write() {
        let (log, throttle) = (LogBuffer::default(), LogThrottle::default());
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(log.clone())
            .with_filter(throttle.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let (text, huge) = (
                "x".repeat(10 * LINE_BYTES),
                "y".repeat(10 * BURST as usize * LINE_BYTES),
            );
            for _ in 0..100 {
                tracing::warn!(text, "refused");
            }
            for _ in 0..100 {
                tracing::warn!(%text, "refused as well");
            }
            for _ in 0..2 {
                tracing::warn!(huge, "a single one is written");
            }
        });
        // ten lines' worth and one for the rest
        assert_eq!(log.text().lines().count(), 9 + 9 + 1);
        assert_eq!(
            throttle
                .left_out()
                .iter()
                .map(|(_, lines)| lines)
                .sum::<u64>(),
            91 + 91 + 1
        );
    }
}
