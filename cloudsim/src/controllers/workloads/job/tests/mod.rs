//! Jobs against an API in memory, one reconciliation at a time, with a virtual clock.

mod rows;
mod world;
