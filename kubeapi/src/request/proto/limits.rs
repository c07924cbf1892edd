//! How deep and how large an object in protobuf may be.

/// How deep messages may be nested. Only schemas within schemas go deeper than about fifteen.
pub(super) const DEPTH: usize = 100;

/// How many values an object may have. An empty item of two bytes becomes an object of hundreds, so that the limit of the
/// body's size alone would allow gigabytes.
pub(super) const VALUES: usize = 200_000;
