//! The annotations of static pods, which EdgeD sets and MetaManager reads.
//!
//! Source: Kubernetes, "Create static Pods".

/// Annotation: the source of a pod; `file` means a static pod.
pub const CONFIG_SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
/// Annotation: the hash of the file that a static pod comes from.
pub const CONFIG_HASH_ANNOTATION: &str = "kubernetes.io/config.hash";
/// Annotation: the hash of the static pod that a mirror pod mirrors.
pub const CONFIG_MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
