//! Writes `src/generated/` from `proto/`, without protoc: `make protos`.

use std::{error::Error, fs, path::Path};

#[path = "../tests/wire/proto_digest.rs"]
mod proto_digest;

/// The options of the generator, the same for all files.
fn builder() -> tonic_prost_build::Builder {
    tonic_prost_build::configure()
        // The transport is the user's: a unix socket, or memory.
        .build_transport(false)
        // Labels and annotations are `BTreeMap`s as in the Kubernetes types, and encode in one order only.
        .btree_map(".")
        .bytes(".")
        // These may hold secrets; `cri.rs`, `dmi.rs` and `device_plugin.rs` write their `Debug` by hand.
        .skip_debug([
            ".runtime.v1.AuthConfig",
            ".runtime.v1.KeyValue",
            ".v1beta1.AnomalyDetection",
            ".v1beta1.ContainerAllocateResponse",
            ".v1beta1.CustomizedValue",
        ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = root.join("src/generated");
    for (name, package) in [
        ("cri", "runtime.v1"),
        ("dmi", "v1beta1"),
        ("containerd", "containerd.services.tasks.v1"),
        ("containerd_events", "containerd.services.events.v1"),
        ("device_plugin", "v1beta1"),
        ("pod_resources", "v1"),
        ("containerd_snapshots", "containerd.services.snapshots.v1"),
    ] {
        let files = protox::compile([format!("{name}.proto")], [root.join("proto")])?;
        builder().out_dir(&output).compile_fds(files)?;
        let generated = output.join(format!("{package}.rs"));
        let code = fs::read_to_string(&generated)?;
        let digest = proto_digest::of(root, name)?;
        let text = format!(
            "//! Generated from `proto/{name}.proto` by `make protos`.\n// Sources: {digest}\n{code}"
        );
        fs::write(output.join(format!("{name}.rs")), text)?;
        fs::remove_file(generated)?;
    }
    Ok(())
}
