//! Jobs against an API in memory, pass by pass, by a clock of their own.

mod rows;
mod world;
