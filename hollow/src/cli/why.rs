//! The command line of `cloudsim why`.

use std::str::FromStr;

/// The kinds that are explained, with the words that kubectl accepts for them.
const KINDS: [(ExplainedKind, &[&str]); 3] = [
    (ExplainedKind::Pod, &["pod", "pods", "po"]),
    (ExplainedKind::Node, &["node", "nodes", "no"]),
    (ExplainedKind::Device, &["device", "devices"]),
];

/// A kind whose objects are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainedKind {
    /// A pod.
    Pod,
    /// A node.
    Node,
    /// A device.
    Device,
}

impl ExplainedKind {
    /// Returns the kind as in `KIND/NAME`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Node => "node",
            Self::Device => "device",
        }
    }
}

/// An object, as `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedObject {
    /// The kind.
    pub kind: ExplainedKind,
    /// The name.
    pub name: String,
}

impl FromStr for ExplainedObject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORMS: &str = "pod/NAME, node/NAME or device/NAME";
        let (kind, name) = text.split_once('/').ok_or(FORMS)?;
        // as kubectl prints it, the resource may have its group: device.devices.kubeedge.io
        let resource = kind.split('.').next().unwrap_or(kind).to_lowercase();
        let found = KINDS
            .iter()
            .find(|(_, words)| words.contains(&resource.as_str()));
        let &(kind, _) = found.ok_or(FORMS)?;
        if name.is_empty() || name.contains('/') {
            return Err(format!(
                "{FORMS}; the namespace of a pod or device is that of --namespace"
            ));
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
        for (text, expected) in [
            ("pod/hello", Ok((ExplainedKind::Pod, "hello"))),
            ("po/hello", Ok((ExplainedKind::Pod, "hello"))),
            ("Nodes/edge-1", Ok((ExplainedKind::Node, "edge-1"))),
            (
                "device.devices.kubeedge.io/thermometer",
                Ok((ExplainedKind::Device, "thermometer")),
            ),
            ("hello", Err("pod/NAME, node/NAME or device/NAME")),
            ("service/hello", Err("pod/NAME, node/NAME or device/NAME")),
            ("pod/", Err("--namespace")),
            ("pod/default/hello", Err("--namespace")),
        ] {
            match (text.parse::<ExplainedObject>(), expected) {
                (Ok(object), Ok((kind, name))) => {
                    assert_eq!((object.kind, object.name.as_str()), (kind, name), "{text}");
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
