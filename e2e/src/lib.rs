//! Real programs: the built `cloudsim` and `edge-agent` as separate processes, and the real kubectl.
//!
//! A [`Rig`] is a cloud, a container runtime and a node that has joined: three processes below one temporary directory. The tests
//! drive it as a person would, with kubectl and signals, and check the results: kubectl's output, the containers over CRI, files,
//! exit codes. Nothing in here knows the internals of a program.
//!
//! The binaries must be built before: `cargo build -p hollow -p agent`, and for mappers `cargo build -p mapper --examples`.

mod api;
mod binaries;
mod cgroups;
pub mod containerd;
mod cri;
mod desired;
mod devices;
mod helm;
mod image;
mod jobs;
mod kubectl;
mod mounts;
mod mqtt;
pub mod pages;
mod pods;
mod ports;
mod process;
mod rig;
mod run;
pub mod scrape;
mod small_disk;
mod tls_listener;
pub mod tunnel;
mod watched;

pub use self::{
    api::Api,
    binaries::{
        AGENT, CLOUDSIM, binary, examples, installed_program, mapper_example, node_modules, python,
    },
    cgroups::{Allowed, ControlGroup, cpu_share, pod_group},
    cri::{Cri, RunningContainer},
    desired::{DesiredPods, SeenPod},
    helm::{Helm, helm_template},
    image::cloudsim_image,
    jobs::actions,
    kubectl::Kubectl,
    mounts::Mounts,
    mqtt::mosquitto,
    ports::{ANY_PORTS, Ports},
    process::Process,
    rig::{CLOUD_NAME, Cloud, NODE, Node, Rig, Runtime, group_root},
    run::{Output, ensure_says, run, run_with_input},
    small_disk::SmallDisk,
    tls_listener::TlsListener,
    watched::{Watch, WatchEvent},
};
/// The waits for what other processes do.
pub use testkit::blocking::{at, until, until_within};
