//! containerd's task service: messages, client and server of the few calls in [`proto/containerd.proto`], and its services [`events`] and
//! [`snapshots`].
//!
//! The services are reached over the same socket as CRI, with the header [`NAMESPACE`]. CRI's containers are in the namespace [`CRI`].
//!
//! [`proto/containerd.proto`]: https://github.com/containerd/containerd/blob/v1.6.20/api/services/tasks/v1/tasks.proto

pub use generated::*;

/// The header that selects the containerd namespace of a call.
pub const NAMESPACE: &str = "containerd-namespace";
/// The namespace of CRI's containers.
pub const CRI: &str = "k8s.io";

// The generator documents only what the .proto documents, and has its own style.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "generated/containerd.rs"]
mod generated;
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "generated/containerd_events.rs"]
mod generated_events;
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures
)]
#[path = "generated/containerd_snapshots.rs"]
mod generated_snapshots;

/// The file systems of images: messages, client and server from `proto/containerd_snapshots.proto`.
pub mod snapshots {
    pub use super::generated_snapshots::*;
}

/// Task events as containerd publishes them: messages, client and server from `proto/containerd_events.proto`.
pub mod events {
    pub use super::generated_events::*;
    /// Decodes the contents of an event envelope.
    pub use prost::Message;

    impl Envelope {
        /// Reports whether the event is about a task as a whole, and not about an additional process executed in it. Returns false for
        /// other kinds of events.
        pub fn is_of_task(&self) -> bool {
            let event = self
                .event
                .as_ref()
                .map(|event| &event.value[..])
                .unwrap_or_default();
            let (container, process) = match self.topic.as_str() {
                "/tasks/start" | "/tasks/oom" => return true,
                "/tasks/exit" => match TaskExit::decode(event) {
                    Ok(TaskExit { container_id, id }) => (container_id, id),
                    Err(_) => return false,
                },
                "/tasks/delete" => match TaskDelete::decode(event) {
                    Ok(TaskDelete { container_id, id }) => (container_id, id),
                    Err(_) => return false,
                },
                _ => return false,
            };
            process.is_empty() || process == container
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_event_is_of_a_task_or_of_a_process_in_it() {
            // Recorded bytes of another implementation: container_id "c", then the id and, in some cases, further fields.
            let exit = |id: u8| [0x0a, 1, b'c', 0x12, 1, id, 0x18, 7, 0x20, 1];
            let delete = |id: u8| [0x0a, 1, b'c', 0x10, 7, 0x18, 1, 0x2a, 1, id];
            for (topic, value, expected) in [
                ("/tasks/exit", exit(b'c').to_vec(), true),
                ("/tasks/exit", exit(b'e').to_vec(), false),
                ("/tasks/delete", delete(b'c').to_vec(), true),
                ("/tasks/delete", delete(b'e').to_vec(), false),
                // Older versions name no process.
                ("/tasks/delete", vec![0x0a, 1, b'c'], true),
                ("/tasks/exit", vec![0x0a, 9], false),
                ("/tasks/start", vec![], true),
                ("/tasks/oom", vec![], true),
                ("/tasks/exec-started", vec![], false),
                ("/images/create", vec![], false),
            ] {
                let event = Some(Any {
                    type_url: String::new(),
                    value: value.clone().into(),
                });
                let envelope = Envelope {
                    namespace: "k8s.io".into(),
                    topic: topic.into(),
                    event,
                };
                assert_eq!(envelope.is_of_task(), expected, "{topic} {value:x?}");
            }
        }
    }
}
