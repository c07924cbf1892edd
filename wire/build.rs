//! Generates messages, clients and servers from `proto/`, without protoc: CRI v1 with feature `cri`, DMI v1beta1 with `dmi`,
//! containerd's tasks and events with `containerd`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    // A build script sees its package's features as variables only.
    let is_on = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    for (feature, file) in [
        ("CRI", "cri.proto"),
        ("DMI", "dmi.proto"),
        ("CONTAINERD", "containerd.proto"),
        ("CONTAINERD", "containerd_events.proto"),
    ] {
        if is_on(feature) {
            generate(file)?;
        }
    }
    Ok(())
}

fn generate(file: &str) -> Result<(), Box<dyn Error>> {
    let files = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure()
        // The transport is the user's: a unix socket, or memory.
        .build_transport(false)
        // Labels and annotations are `BTreeMap`s as in the Kubernetes types, and encode in one order only.
        .btree_map(".")
        .bytes(".")
        // These may hold secrets; `cri.rs` and `dmi.rs` write their `Debug` by hand.
        .skip_debug([
            ".runtime.v1.AuthConfig",
            ".runtime.v1.KeyValue",
            ".v1beta1.AnomalyDetection",
            ".v1beta1.CustomizedValue",
        ])
        .compile_fds(files)?;
    Ok(())
}
