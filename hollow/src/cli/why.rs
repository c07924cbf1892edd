//! The command line of `cloudsim why`.

use anyhow::bail;
use cloudsim::why::ExplainedKind;

/// The kinds that are explained, with the words that kubectl accepts for them.
const KINDS: [(ExplainedKind, &[&str]); 3] = [
    (ExplainedKind::Pod, &["pod", "pods", "po"]),
    (ExplainedKind::Node, &["node", "nodes", "no"]),
    (ExplainedKind::Device, &["device", "devices"]),
];

/// An object, as `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedObject {
    /// The kind.
    pub kind: ExplainedKind,
    /// The name.
    pub name: String,
}

impl ExplainedObject {
    /// Parses `KIND/NAME`, or `KIND` and `NAME`.
    ///
    /// # Errors
    /// The kind is another one, or the name is empty or has a namespace.
    pub fn of(object: &str, name: Option<&str>) -> anyhow::Result<Self> {
        const FORMS: &str = "write pod/NAME, node/NAME or device/NAME";
        let (kind, name) = match (object.split_once('/'), name) {
            (Some(parts), None) => parts,
            (None, Some(name)) => (object, name),
            (Some(_), Some(name)) => bail!("{name:?} is one name too many; {FORMS}"),
            (None, None) => bail!("{object:?} has no kind; {FORMS}"),
        };
        // as kubectl prints it, the resource may have its group: device.devices.kubeedge.io
        let resource = kind.split('.').next().unwrap_or(kind).to_lowercase();
        let found = KINDS
            .iter()
            .find(|(_, words)| words.contains(&resource.as_str()));
        let Some(&(kind, _)) = found else {
            bail!("objects of kind {kind:?} cannot be explained; {FORMS}");
        };
        if name.is_empty() || name.contains('/') {
            bail!("{name:?} is not a name; {FORMS}, and the namespace with --namespace");
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_prints_them() {
        for (object, name, expected) in [
            ("pod/hello", None, Ok((ExplainedKind::Pod, "hello"))),
            ("po/hello", None, Ok((ExplainedKind::Pod, "hello"))),
            ("pod", Some("hello"), Ok((ExplainedKind::Pod, "hello"))),
            ("Nodes/edge-1", None, Ok((ExplainedKind::Node, "edge-1"))),
            (
                "device.devices.kubeedge.io/thermometer",
                None,
                Ok((ExplainedKind::Device, "thermometer")),
            ),
            ("hello", None, Err("\"hello\" has no kind")),
            (
                "deployment/web",
                None,
                Err("\"deployment\" cannot be explained"),
            ),
            ("pod/a", Some("b"), Err("one name too many")),
            ("pod/", None, Err("--namespace")),
            ("pod/default/hello", None, Err("--namespace")),
        ] {
            match (ExplainedObject::of(object, name), expected) {
                (Ok(found), Ok((kind, name))) => {
                    assert_eq!((found.kind, found.name.as_str()), (kind, name), "{object}");
                }
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{object}: {error}");
                }
                other => panic!("{object}: {other:?}"),
            }
        }
    }
}
