//! Hashes of what a container is made from: its name and image, which the kubelet compares too. A change of anything else that
//! the API permits does not need a new container.
//!
//! Each container carries two hashes: this agent's, and the kubelet's, so that an EdgeCore that replaces this agent does not
//! restart running containers.
//!
//! Source: Kubernetes 1.32, `HashContainer` in `pkg/kubelet/container/helpers.go`, `pkg/util/hash` and go-spew's `%#v`.

use k8s_openapi::api::core::v1::Container;
use serde_json::json;

/// Offset basis of FNV-1a with 32 bits.
const FNV_OFFSET_BASIS: u32 = 0x811c_9dc5;
/// Prime of FNV-1a with 32 bits.
const FNV_PRIME: u32 = 0x0100_0193;

/// Returns this agent's hash: sixteen hexadecimal digits.
pub(crate) fn container_hash(container: &Container) -> String {
    let made_from = format!("{}\0{}", container.name, image(container));
    let digest = ring::digest::digest(&ring::digest::SHA256, made_from.as_bytes());
    digest
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the kubelet's hash: a hexadecimal number of 32 bits, without leading zeros.
pub(crate) fn kubelet_hash(container: &Container) -> String {
    // the keys are sorted, as Go writes a map
    let fields = json!({"image": image(container), "name": container.name}).to_string();
    let bytes: Vec<String> = fields.bytes().map(|byte| byte.to_string()).collect();
    let printed = format!("([]uint8)[{}]", bytes.join(" "));
    let hash = printed.bytes().fold(FNV_OFFSET_BASIS, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME)
    });
    format!("{hash:x}")
}

fn image(container: &Container) -> &str {
    container.image.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by Kubernetes 1.32's own `DeepHashObject`.
    #[test]
    fn the_kubelets_hash_is_what_the_kubelet_computes() {
        let rows = [
            ("c", "busybox:1", "1aaabc84"),
            (
                "web",
                "registry.example/shop/web@sha256:0123456789abcdef",
                "4d3536c5",
            ),
            ("", "", "edd67cc4"),
            ("foo", "d", "e1d78c8"),
            ("x2", "nginx", "3ce8f39"),
        ];
        for (name, image, expected) in rows {
            let container = Container {
                name: name.into(),
                image: Some(image.into()),
                ..Container::default()
            };
            assert_eq!(kubelet_hash(&container), expected, "{name} {image}");
        }
    }
}
