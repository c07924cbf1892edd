//! CRI v1.
