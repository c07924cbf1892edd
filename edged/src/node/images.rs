//! The images in the node's status, by which the scheduler prefers nodes that have them. Pure.

use k8s_openapi::api::core::v1::ContainerImage;
use wire::cri;

/// Maximum number of names of one image; the kubelet's.
const MAX_NAMES: usize = 5;

/// Returns the `most` largest images, or all without a limit; `None` if no images are reported.
pub(super) fn largest(
    mut images: Vec<cri::Image>,
    most: Option<usize>,
) -> Option<Vec<ContainerImage>> {
    if most == Some(0) {
        return None;
    }
    // Images of equal size have a fixed order, so that the status changes only with the images.
    images.sort_by(|one, other| {
        other
            .size
            .cmp(&one.size)
            .then_with(|| one.id.cmp(&other.id))
    });
    images.truncate(most.unwrap_or(usize::MAX));
    let image = |image: cri::Image| ContainerImage {
        names: Some(
            image
                .repo_digests
                .into_iter()
                .chain(image.repo_tags)
                .take(MAX_NAMES)
                .collect(),
        ),
        size_bytes: i64::try_from(image.size).ok(),
    };
    Some(images.into_iter().map(image).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_named_first() {
        let image = |id: &str, size: u64, tags: usize| cri::Image {
            id: id.into(),
            size,
            repo_digests: vec![format!("{id}@sha256:0")],
            repo_tags: (0..tags).map(|tag| format!("{id}:{tag}")).collect(),
            ..cri::Image::default()
        };
        let all = vec![image("small", 1, 1), image("b", 7, 9), image("a", 7, 0)];
        let named = |most| -> Option<Vec<(usize, Option<i64>, String)>> {
            let named = super::largest(all.clone(), most)?.into_iter();
            Some(
                named
                    .map(|one| {
                        (
                            one.names.clone().unwrap().len(),
                            one.size_bytes,
                            one.names.unwrap()[0].clone(),
                        )
                    })
                    .collect(),
            )
        };
        let first = (1, Some(7), "a@sha256:0".to_owned());
        let second = (5, Some(7), "b@sha256:0".to_owned());
        assert_eq!(named(Some(2)), Some(vec![first, second]));
        assert_eq!(named(None).map(|all| all.len()), Some(3));
        assert_eq!(named(Some(0)), None);
    }
}
