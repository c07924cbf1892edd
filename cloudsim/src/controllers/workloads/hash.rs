//! Hashes of pod templates. Pure.

use serde::Serialize;

/// The label of a deployment's pods with the hash of their template.
pub(super) const POD_TEMPLATE: &str = "pod-template-hash";
/// The label of daemon sets' and stateful sets' pods.
pub(super) const REVISION: &str = "controller-revision-hash";

/// The characters of Kubernetes' safe encoding: no vowels, and none that resemble others.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the hash of `template`, which differs for other `collisions`. None and zero are the same: a status that was never written has
/// none, and each status that is written has a number.
pub(super) fn hash(template: &impl Serialize, collisions: Option<i32>) -> String {
    let mut text = serde_json::to_vec(template).unwrap_or_default();
    if let Some(collisions) = collisions.filter(|collisions| *collisions != 0) {
        text.extend(collisions.to_le_bytes());
    }
    let number = fnv1a(&text);
    let encoded = number.to_string().into_bytes().into_iter();
    encoded
        .filter_map(|digit| ALPHABET.get(usize::from(digit) % ALPHABET.len()))
        .map(|byte| char::from(*byte))
        .collect()
}

/// FNV-1a, 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_templates_have_equal_names() {
        let template = json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(hash(&template, None), hash(&template.clone(), None));
        assert_eq!(
            hash(&template, None),
            hash(&template, Some(0)),
            "no collisions and zero collisions"
        );
        assert_ne!(hash(&template, None), hash(&template, Some(1)));
        assert_ne!(hash(&template, None), hash(&json!({}), None));
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }
}
