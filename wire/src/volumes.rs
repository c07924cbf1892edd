//! Where a node keeps the directories of the PersistentVolumes that cloudsim provisions.

/// The annotation of a Node with the directory.
pub const DIRECTORY_ANNOTATION: &str = "outrigger.dev/volumes-directory";
/// The directory of nodes without the annotation, unless the parameter `path` of the StorageClass is another one.
pub const DEFAULT_DIRECTORY: &str = "/var/lib/kubeedge/volumes";
