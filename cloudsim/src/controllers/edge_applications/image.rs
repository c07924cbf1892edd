//! The parts of an image's name, and their changes. Pure.

use std::fmt;

use crds::apps::{ImageComponent, ImageOverrider, Operator};

/// The name of an image: `REGISTRY/REPOSITORY:TAG@DIGEST`, of which only the repository is required.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    registry: String,
    repository: String,
    tag: String,
    digest: String,
}

/// Returns the name after a change.
pub(super) fn change(name: &str, overrider: &ImageOverrider) -> String {
    let mut image = Image::parse(name);
    let value = overrider.value.as_deref().unwrap_or_default();
    match overrider.component {
        ImageComponent::Registry => set(&mut image.registry, overrider.operator, value),
        ImageComponent::Repository => set(&mut image.repository, overrider.operator, value),
        ImageComponent::Tag if value.starts_with("sha256:") => {
            set(&mut image.digest, overrider.operator, value);
        }
        ImageComponent::Tag => {
            set(&mut image.tag, overrider.operator, value);
            // the digest of another tag would win
            image.digest.clear();
        }
    }
    image.to_string()
}

fn set(part: &mut String, operator: Operator, value: &str) {
    match operator {
        Operator::Add => part.push_str(value),
        Operator::Remove => part.clear(),
        Operator::Replace => value.clone_into(part),
    }
}

impl Image {
    fn parse(name: &str) -> Self {
        let (name, digest) = name.split_once('@').unwrap_or((name, ""));
        let (registry, rest) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (first, rest)
            }
            _ => ("", name),
        };
        let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, ""));
        Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            digest: digest.to_owned(),
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, before, after) in [
            (&self.registry, "", "/"),
            (&self.repository, "", ""),
            (&self.tag, ":", ""),
            (&self.digest, "@", ""),
        ] {
            if !part.is_empty() {
                write!(f, "{before}{part}{after}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_can_be_changed_and_the_others_stay() {
        use ImageComponent::{Registry, Repository, Tag};
        use Operator::{Add, Remove, Replace};
        for (name, component, operator, value, changed) in [
            ("nginx", Registry, Replace, "r.example", "r.example/nginx"),
            (
                "r.example:5000/a/nginx:1",
                Registry,
                Remove,
                "",
                "a/nginx:1",
            ),
            (
                "r.example/nginx:1",
                Registry,
                Add,
                ".org",
                "r.example.org/nginx:1",
            ),
            ("localhost/nginx:1", Registry, Replace, "x.y", "x.y/nginx:1"),
            (
                "library/nginx:1",
                Registry,
                Replace,
                "x.y",
                "x.y/library/nginx:1",
            ),
            (
                "r.example/nginx:1",
                Repository,
                Replace,
                "b/web",
                "r.example/b/web:1",
            ),
            ("nginx", Repository, Add, "-slim", "nginx-slim"),
            ("r.example/nginx:1", Repository, Remove, "", "r.example/:1"),
            ("nginx:1", Registry, Add, "r.example", "r.example/nginx:1"),
            ("nginx", Tag, Replace, "2", "nginx:2"),
            (
                "r.example:5000/nginx",
                Tag,
                Add,
                "2",
                "r.example:5000/nginx:2",
            ),
            ("nginx:1", Tag, Add, "-alpine", "nginx:1-alpine"),
            ("nginx:1", Tag, Remove, "", "nginx"),
            (
                "nginx:1@sha256:ab",
                Registry,
                Replace,
                "x.y",
                "x.y/nginx:1@sha256:ab",
            ),
            (
                "nginx:1@sha256:ab",
                Tag,
                Replace,
                "sha256:cd",
                "nginx:1@sha256:cd",
            ),
            ("nginx:1@sha256:ab", Tag, Replace, "2", "nginx:2"),
        ] {
            let overrider = ImageOverrider {
                component,
                operator,
                value: Some(value.to_owned()),
                predicate: None,
            };
            assert_eq!(
                change(name, &overrider),
                changed,
                "{name} {component:?} {operator:?} {value}"
            );
        }
    }
}
