//! End-to-end checks with the built binaries and kubectl
