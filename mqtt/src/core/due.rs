//! Handles passed deadlines: wills, session expiry, waiting publishers and retained messages.

use super::{Core, timers::Due};

impl Core {
    /// Handles all deadlines that have passed.
    pub(super) fn fire(&mut self) {
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Due::Will(id, generation) => {
                    let session = self
                        .sessions
                        .get_mut(&id)
                        .filter(|session| session.is_away(generation));
                    let holder = session.as_ref().and_then(|session| session.holder.clone());
                    if let Some(will) = session.and_then(|session| session.will.take()) {
                        self.recount(id);
                        self.publish_will(will, holder);
                    }
                }
                Due::Expiry(id, generation) => {
                    if self
                        .sessions
                        .get(&id)
                        .is_some_and(|session| session.is_away(generation))
                    {
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

    fn sweep_retained(&mut self) {
        for topic in self.retained.expired_topics(self.now) {
            self.forget_retained(&topic);
        }
        self.timers.sweep(self.now);
    }
}
