//! How much memory is in use in this process, whatever its allocator keeps for later.

use std::alloc::System;

use cap::Cap;

/// Counts; it limits nothing.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes of memory that are in use.
pub(crate) fn in_use() -> usize {
    ALLOCATOR.allocated()
}
