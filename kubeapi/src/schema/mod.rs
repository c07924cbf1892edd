//! The schemas of kinds: those of built-in kinds as Kubernetes publishes them, those of definitions.

pub mod builtin_schema;
pub mod structural_schema;
