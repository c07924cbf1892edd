//! Handles passed deadlines: wills, session expiry, waiting publishers and retained messages.

use super::{Core, timers::Due};

impl Core {
    /// Handles all deadlines that have passed.
    pub(super) fn fire(&mut self) {
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Due::Will(id, generation) => {
                    let away = self.away(id, generation);
                    if let Some(will) = away.then(|| self.sessions.get_mut(&id)?.will.take()).flatten() {
                        self.publish_will(will);
                    }
                }
                Due::Expiry(id, generation) => {
                    if self.away(id, generation) {
                        self.end_session(id);
                    }
                }
                Due::Patience => {
                    self.timers.watching = false;
                    self.room = true;
                    self.watch_held();
                }
                Due::Sweep => {
                    self.timers.sweeping = false;
                    self.sweep_retained();
                }
            }
        }
    }

    /// Reports whether the client has not reconnected since `generation`.
    fn away(&self, id: u64, generation: u64) -> bool {
        let session = self.sessions.get(&id);
        session.is_some_and(|session| session.connection.is_none() && session.generation == generation)
    }

    fn sweep_retained(&mut self) {
        for topic in self.retained.expired(self.now) {
            self.forget_retained(&topic);
        }
        self.timers.sweep(self.now);
    }
}
