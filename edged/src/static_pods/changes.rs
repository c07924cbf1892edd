//! Computes the changes of stored static pods from their files. Pure.

use componentbase::static_pods::CONFIG_SOURCE_ANNOTATION;
use k8s_openapi::api::core::v1::Pod;

use super::{folder::Files, manifest::MANIFEST_ANNOTATION};

/// A change of the stored pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change<'a> {
    /// Create the pod.
    Create(&'a Pod),
    /// Delete the pod; a pod that replaces it is created when it is gone.
    Delete(&'a Pod),
    /// The file's pod has the name of a stored pod that is not from a file and takes precedence.
    NameConflict(&'a str),
}

/// Returns the changes from this node's stored pods to the files' pods. While a file is invalid, its last pod stays.
pub(super) fn changes<'a>(files: &'a Files, stored: &'a [Pod]) -> Vec<Change<'a>> {
    let key = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
    let wanted = files.pods.iter().filter_map(|(file, pod)| {
        match stored.iter().find(|other| key(other) == key(pod)) {
            None => Some(Change::Create(pod)),
            Some(other) if !is_static(other) => Some(Change::NameConflict(file)),
            // the same pod, or an older one that is deleted below
            Some(_) => None,
        }
    });
    let is_wanted = |pod: &Pod| {
        files
            .pods
            .values()
            .any(|wanted| wanted.metadata.uid == pod.metadata.uid)
    };
    let is_invalid = |pod: &Pod| {
        annotation(pod, MANIFEST_ANNOTATION).is_some_and(|file| files.invalid.contains_key(file))
    };
    let ended = stored.iter().filter(|pod| {
        is_static(pod)
            && pod.metadata.deletion_timestamp.is_none()
            && !is_wanted(pod)
            && !is_invalid(pod)
    });
    ended.map(Change::Delete).chain(wanted).collect()
}

/// Reports whether the pod comes from a file.
pub(super) fn is_static(pod: &Pod) -> bool {
    annotation(pod, CONFIG_SOURCE_ANNOTATION) == Some("file")
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, image: &str) -> Pod {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n"
        );
        super::super::manifest::pod(
            &text,
            &format!("{name}.yaml"),
            "n",
            jiff::Timestamp::UNIX_EPOCH,
        )
        .unwrap()
    }

    fn files(pods: &[&Pod], invalid: &[&str]) -> Files {
        let name = |pod: &Pod| annotation(pod, MANIFEST_ANNOTATION).unwrap().to_owned();
        Files {
            pods: pods.iter().map(|&pod| (name(pod), pod.clone())).collect(),
            invalid: invalid
                .iter()
                .map(|&file| (file.to_owned(), "invalid".to_owned()))
                .collect(),
        }
    }

    #[test]
    fn stored_pods_follow_the_files() {
        let (old, new, other) = (pod("web", "i:1"), pod("web", "i:2"), pod("other", "i:1"));
        let mut ending = old.clone();
        ending.metadata.deletion_timestamp =
            Some(crate::timestamps::to_api(jiff::Timestamp::UNIX_EPOCH));
        let mut clouds = old.clone();
        clouds.metadata.annotations = None;
        let same = files(&[&old, &other], &[]);
        assert_eq!(
            changes(&same, &[]),
            [Change::Create(&other), Change::Create(&old)]
        );
        assert_eq!(changes(&same, &[old.clone(), other.clone()]), []);
        let changed = files(&[&new, &other], &[]);
        let stored = [old.clone(), other.clone()];
        assert_eq!(changes(&changed, &stored), [Change::Delete(&old)]);
        assert_eq!(
            changes(&changed, &[ending, other.clone()]),
            [],
            "the old one is waited for"
        );
        assert_eq!(
            changes(&changed, std::slice::from_ref(&other)),
            [Change::Create(&new)]
        );
        assert_eq!(
            changes(&files(&[&other], &[]), &stored),
            [Change::Delete(&old)],
            "the file is gone"
        );
        assert_eq!(
            changes(&files(&[&other], &["web.yaml"]), &stored),
            [],
            "the file is invalid"
        );
        let taken = [clouds];
        assert_eq!(
            changes(&files(&[&new], &[]), &taken),
            [Change::NameConflict("web.yaml")]
        );
        assert_eq!(changes(&files(&[], &[]), &taken), []);
    }
}
