//! The kubelet's reasons, by which programs and people know its events.

/// An image is fetched.
pub(crate) const PULLING: &str = "Pulling";
/// An image is here.
pub(crate) const PULLED: &str = "Pulled";
/// A container was made.
pub(crate) const CREATED: &str = "Created";
/// A container was started.
pub(crate) const STARTED: &str = "Started";
/// Something about a container or its image failed.
pub(crate) const FAILED: &str = "Failed";
/// A container or an image waits before the next try.
pub(crate) const BACK_OFF: &str = "BackOff";
/// A container is being stopped.
pub(crate) const KILLING: &str = "Killing";
/// An image is not here and may not be fetched.
pub(crate) const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
/// The runtime cannot tell about an image.
pub(crate) const INSPECT_FAILED: &str = "InspectFailed";
/// A volume cannot be set up.
pub(crate) const FAILED_MOUNT: &str = "FailedMount";
/// A pod ends so that a critical one can run.
pub(crate) const PREEMPTING: &str = "Preempting";
/// A manifest of a static pod is not taken.
pub(crate) const INVALID_STATIC_POD: &str = "InvalidStaticPod";
/// A sandbox cannot be made.
pub(crate) const FAILED_CREATE_POD_SANDBOX: &str = "FailedCreatePodSandBox";
/// A sandbox died and is replaced.
pub(crate) const SANDBOX_CHANGED: &str = "SandboxChanged";
/// The node is short of something, and tries to get more of it.
pub(crate) const EVICTION_THRESHOLD_MET: &str = "EvictionThresholdMet";
/// Removing images does not free enough.
pub(crate) const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
/// Images were not cleaned up.
pub(crate) const IMAGE_GC_FAILED: &str = "ImageGCFailed";
/// The disk of images has no size.
pub(crate) const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";
/// A probe failed.
pub(crate) const UNHEALTHY: &str = "Unhealthy";
/// A probe succeeded, but.
pub(crate) const PROBE_WARNING: &str = "ProbeWarning";
/// A postStart hook failed.
pub(crate) const FAILED_POST_START_HOOK: &str = "FailedPostStartHook";
/// A preStop hook failed.
pub(crate) const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
