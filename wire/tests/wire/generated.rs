//! Generated code is committed. It must be that of the `.proto` files beside it.

use std::{fs, path::Path};

use super::proto_digest;

#[test]
fn generated_code_is_that_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in [
        "cri",
        "dmi",
        "containerd",
        "containerd_events",
        "device_plugin",
        "pod_resources",
        "containerd_snapshots",
    ] {
        let code = fs::read_to_string(root.join(format!("src/generated/{name}.rs"))).unwrap();
        let digest = proto_digest::of(root, name).unwrap();
        let is_current = code.lines().nth(1) == Some(&format!("// Sources: {digest}"));
        assert!(
            is_current,
            "src/generated/{name}.rs is older than its sources: run `make protos`"
        );
    }
}
