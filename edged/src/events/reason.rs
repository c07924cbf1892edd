//! Reasons of events, the kubelet's own, by which programs and people recognise them.

/// An image is being pulled.
pub(crate) const PULLING: &str = "Pulling";
/// An image was pulled or is present.
pub(crate) const PULLED: &str = "Pulled";
/// A container was created.
pub(crate) const CREATED: &str = "Created";
/// The container runtime does not do all that a container asks for.
pub(crate) const RUNTIME_WARNING: &str = "RuntimeWarning";
/// A container was started.
pub(crate) const STARTED: &str = "Started";
/// Something about a container or its image failed.
pub(crate) const FAILED: &str = "Failed";
/// A restart of a container or a pull of an image is delayed by back-off.
pub(crate) const BACK_OFF: &str = "BackOff";
/// A container is being stopped.
pub(crate) const KILLING: &str = "Killing";
/// An image is not present and its pull policy is `Never`.
pub(crate) const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
/// The image could not be inspected.
pub(crate) const INSPECT_FAILED: &str = "InspectFailed";
/// A volume cannot be set up.
pub(crate) const FAILED_MOUNT: &str = "FailedMount";
/// A pod is ended so that a critical one can run.
pub(crate) const PREEMPTING: &str = "Preempting";
/// The machine shuts down, or the shutdown was cancelled.
pub(crate) const NODE_SHUTDOWN: &str = "NodeShutdown";
/// The manifest of a static pod was rejected.
pub(crate) const INVALID_STATIC_POD: &str = "InvalidStaticPod";
/// A new pod waits until the plugin of a device has registered.
pub(crate) const WAITING_FOR_DEVICE_PLUGIN: &str = "WaitingForDevicePlugin";
/// An annotation or label of the pod has no effect on this node.
pub(crate) const UNSUPPORTED_ANNOTATION: &str = "UnsupportedAnnotation";
/// A sandbox could not be created.
pub(crate) const FAILED_CREATE_POD_SANDBOX: &str = "FailedCreatePodSandBox";
/// A sandbox has ended and is replaced.
pub(crate) const SANDBOX_CHANGED: &str = "SandboxChanged";
/// An eviction threshold was met, and the node tries to reclaim the resource.
pub(crate) const EVICTION_THRESHOLD_MET: &str = "EvictionThresholdMet";
/// Removing images did not free enough disk space.
pub(crate) const FREE_DISK_SPACE_FAILED: &str = "FreeDiskSpaceFailed";
/// Image garbage collection failed.
pub(crate) const IMAGE_GC_FAILED: &str = "ImageGCFailed";
/// The image file system reports no capacity.
pub(crate) const INVALID_DISK_CAPACITY: &str = "InvalidDiskCapacity";
/// A probe failed.
pub(crate) const UNHEALTHY: &str = "Unhealthy";
/// A probe succeeded with a warning.
pub(crate) const PROBE_WARNING: &str = "ProbeWarning";
/// A postStart hook failed.
pub(crate) const FAILED_POST_START_HOOK: &str = "FailedPostStartHook";
/// A preStop hook failed.
pub(crate) const FAILED_PRE_STOP_HOOK: &str = "FailedPreStopHook";
