//! Generates the CRI v1 messages, client and server from `proto/`, without protoc, when feature `cri` is on.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    // A build script sees its package's features as variables only.
    if std::env::var_os("CARGO_FEATURE_CRI").is_none() {
        return Ok(());
    }
    let files = protox::compile(["cri.proto"], ["proto"])?;
    tonic_prost_build::configure()
        // The transport is the user's: a unix socket, or memory.
        .build_transport(false)
        // Labels and annotations are `BTreeMap`s as in the Kubernetes types, and encode in one order only.
        .btree_map(".")
        .bytes(".")
        // These may hold secrets; `cri.rs` writes their `Debug` by hand.
        .skip_debug([".runtime.v1.AuthConfig", ".runtime.v1.KeyValue"])
        .compile_fds(files)?;
    Ok(())
}
