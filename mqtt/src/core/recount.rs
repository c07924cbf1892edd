//! Counts what a session keeps against its client's quota.

use super::Core;
use crate::holder::Holder;

impl Core {
    /// Counts what a session keeps now. To be called after each change of it.
    pub(super) fn recount(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let before = session.kept;
        session.kept = session.bytes_kept();
        self.kept.remove(session.holder.as_ref(), before);
        self.kept.add(session.holder.as_ref(), session.kept);
    }

    /// Has what a session keeps count against the quota of `holder` from now on.
    pub(super) fn set_holder(&mut self, id: u64, holder: Option<Holder>) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        self.kept
            .remove(session.holder.as_ref(), std::mem::take(&mut session.kept));
        session.holder = holder;
        self.recount(id);
    }

    /// Reports whether a session may keep `more` bytes.
    pub(super) fn has_room_to_keep(&self, id: u64, more: usize) -> bool {
        let holder = self
            .sessions
            .get(&id)
            .and_then(|session| session.holder.as_ref());
        self.kept.has_room(holder, more, &self.limits)
    }
}
