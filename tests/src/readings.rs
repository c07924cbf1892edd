//! A machine whose memory, disks and process ids are set by a test.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use edged::{Observation, Reading, Signal, Signals};
use futures::future::BoxFuture;
use tokio::sync::Notify;

/// The capacity of every resource.
const CAPACITY: i64 = 1000;
/// How much of it is available by default.
const PLENTY: i64 = 900;

/// What is available of every resource.
#[derive(Clone, Debug, Default)]
pub struct Readings(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set: Mutex<BTreeMap<Signal, i64>>,
    once: Mutex<BTreeMap<Signal, i64>>,
    changed: Notify,
}

impl Readings {
    /// Sets how much of 1000 is available of one resource from now on. The node checks at once.
    pub fn set(&self, signal: Signal, available: i64) {
        self.0
            .set
            .lock()
            .expect("no test fails in here")
            .insert(signal, available);
        self.look();
    }

    /// Sets how much is available of one resource at the next check only. The node checks at once.
    pub fn set_once(&self, signal: Signal, available: i64) {
        self.0
            .once
            .lock()
            .expect("no test fails in here")
            .insert(signal, available);
        self.look();
    }

    /// Makes the node check again, with the same values.
    pub fn look(&self) {
        self.0.changed.notify_one();
    }
}

impl Signals for Readings {
    fn read(&self) -> BoxFuture<'_, Reading> {
        let mut set = self.0.set.lock().expect("no test fails in here").clone();
        set.append(&mut self.0.once.lock().expect("no test fails in here"));
        let available = |signal| set.get(&signal).copied().unwrap_or(PLENTY);
        let signals = Signal::ALL
            .map(|s| {
                (
                    s,
                    Observation {
                        available: available(s),
                        capacity: CAPACITY,
                    },
                )
            })
            .into();
        Box::pin(async move {
            Reading {
                signals,
                image_disk: false,
            }
        })
    }

    fn wait_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.changed.notified())
    }
}
