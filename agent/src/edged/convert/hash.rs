//! What a container is made from, as text: its name and image, which is what the kubelet compares too. A change of anything else
//! that the API permits does not need a new container.
//!
//! Two forms stand on each container: this agent's, and the kubelet's, so that an EdgeCore that comes after this agent finds its
//! own and does not restart what runs.
//!
//! Source: Kubernetes 1.32, `HashContainer` in `pkg/kubelet/container/helpers.go`, `pkg/util/hash` and go-spew's `%#v`.

use k8s_openapi::api::core::v1::Container;
use serde_json::json;

/// FNV-1a, 32 bits: where it begins …
const OFFSET: u32 = 0x811c_9dc5;
/// … and what each step multiplies by.
const PRIME: u32 = 0x0100_0193;

/// This agent's form: sixteen digits.
pub(crate) fn hash(container: &Container) -> String {
    let made_from = format!("{}\0{}", container.name, image(container));
    let digest = ring::digest::digest(&ring::digest::SHA256, made_from.as_bytes());
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The kubelet's form: a number of 32 bits, without leading zeros.
pub(crate) fn kubelet_hash(container: &Container) -> String {
    // the keys in their order, as Go writes a map
    let fields = json!({"image": image(container), "name": container.name}).to_string();
    let bytes: Vec<String> = fields.bytes().map(|byte| byte.to_string()).collect();
    let printed = format!("([]uint8)[{}]", bytes.join(" "));
    let hash = printed.bytes().fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME));
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
            ("web", "registry.example/shop/web@sha256:0123456789abcdef", "4d3536c5"),
            ("", "", "edd67cc4"),
            ("foo", "d", "e1d78c8"),
            ("x2", "nginx", "3ce8f39"),
        ];
        for (name, image, expected) in rows {
            let container =
                Container { name: name.into(), image: Some(image.into()), ..Container::default() };
            assert_eq!(kubelet_hash(&container), expected, "{name} {image}");
        }
    }
}
