//! How much memory is in use in this process, whatever its allocator keeps for later.

use tikv_jemalloc_ctl::{epoch, stats};
use tikv_jemallocator::Jemalloc;

/// That of the two programs, which tells.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Bytes of memory that are in use.
pub(crate) fn in_use() -> usize {
    epoch::advance().unwrap();
    stats::allocated::read().unwrap()
}
