//! What the files ask of what is stored. Pure.

use k8s_openapi::api::core::v1::Pod;

use super::{folder::Files, manifest::FILE};
use crate::metamanager::mirror::CONFIG_SOURCE_ANNOTATION;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change<'a> {
    /// The pod is stored, and starts.
    Create(&'a Pod),
    /// The pod ends; one in its place is created when it has gone.
    End(&'a Pod),
    /// The file's pod has the name of one that is not from a file, which goes before.
    Taken(&'a str),
}

/// The steps from the pods of this node that are stored to what the files say. While a file is bad, its last pod stays.
pub(super) fn changes<'a>(files: &'a Files, stored: &'a [Pod]) -> Vec<Change<'a>> {
    let place = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
    let wanted = files.pods.iter().filter_map(|(file, pod)| {
        match stored.iter().find(|other| place(other) == place(pod)) {
            None => Some(Change::Create(pod)),
            Some(other) if annotation(other, CONFIG_SOURCE_ANNOTATION) != Some("file") => {
                Some(Change::Taken(file))
            }
            // the same, or an older one that is ended below
            Some(_) => None,
        }
    });
    let is_wanted = |pod: &Pod| files.pods.values().any(|wanted| wanted.metadata.uid == pod.metadata.uid);
    let is_bad = |pod: &Pod| annotation(pod, FILE).is_some_and(|file| files.bad.contains_key(file));
    let ended = stored.iter().filter(|pod| {
        let own = annotation(pod, CONFIG_SOURCE_ANNOTATION) == Some("file");
        own && pod.metadata.deletion_timestamp.is_none() && !is_wanted(pod) && !is_bad(pod)
    });
    ended.map(Change::End).chain(wanted).collect()
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, image: &str) -> Pod {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n"
        );
        super::super::manifest::pod(&text, &format!("{name}.yaml"), "n", jiff::Timestamp::UNIX_EPOCH).unwrap()
    }

    fn files(pods: &[&Pod], bad: &[&str]) -> Files {
        let name = |pod: &Pod| annotation(pod, FILE).unwrap().to_owned();
        Files {
            pods: pods.iter().map(|&pod| (name(pod), pod.clone())).collect(),
            bad: bad.iter().map(|&file| (file.to_owned(), "bad".to_owned())).collect(),
        }
    }

    #[test]
    fn the_files_decide_what_is_stored() {
        let (old, new, other) = (pod("web", "i:1"), pod("web", "i:2"), pod("other", "i:1"));
        let mut ending = old.clone();
        ending.metadata.deletion_timestamp = Some(crate::edged::moment::to_api(jiff::Timestamp::UNIX_EPOCH));
        let mut clouds = old.clone();
        clouds.metadata.annotations = None;
        let same = files(&[&old, &other], &[]);
        assert_eq!(changes(&same, &[]), [Change::Create(&other), Change::Create(&old)]);
        assert_eq!(changes(&same, &[old.clone(), other.clone()]), []);
        let changed = files(&[&new, &other], &[]);
        let stored = [old.clone(), other.clone()];
        assert_eq!(changes(&changed, &stored), [Change::End(&old)]);
        assert_eq!(changes(&changed, &[ending, other.clone()]), [], "the old one is waited for");
        assert_eq!(changes(&changed, std::slice::from_ref(&other)), [Change::Create(&new)]);
        assert_eq!(changes(&files(&[&other], &[]), &stored), [Change::End(&old)], "the file is gone");
        assert_eq!(changes(&files(&[&other], &["web.yaml"]), &stored), [], "the file is bad");
        let taken = [clouds];
        assert_eq!(changes(&files(&[&new], &[]), &taken), [Change::Taken("web.yaml")]);
        assert_eq!(changes(&files(&[], &[]), &taken), []);
    }
}
