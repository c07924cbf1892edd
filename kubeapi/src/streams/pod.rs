//! Finds the pod of a request, its container and its node.

use serde_json::Value;

use crate::{Api, request::path::Target, status::StatusError, verbs::get::find};

/// A pod as it is stored.
pub(super) struct Pod {
    object: Value,
    namespace: String,
    name: String,
}

impl Pod {
    /// Reads the pod at the request's path.
    pub(super) async fn find(api: &Api, target: &Target) -> Result<Self, StatusError> {
        let object = find(api, target).await?.value()?;
        Ok(Self {
            object,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        })
    }

    /// Returns the requested container, or the only one.
    ///
    /// Source: `validateContainer` of the real server's registry of pods.
    pub(super) fn container(&self, asked: Option<&str>) -> Result<String, StatusError> {
        let names = |field: &str| -> Vec<&str> {
            let all = self
                .object
                .pointer(&format!("/spec/{field}"))
                .and_then(Value::as_array);
            all.into_iter()
                .flatten()
                .filter_map(|one| one.get("name")?.as_str())
                .collect()
        };
        let (own, init, ephemeral) = (
            names("containers"),
            names("initContainers"),
            names("ephemeralContainers"),
        );
        let name = &self.name;
        if let Some(asked) = asked {
            let has = [&own, &init, &ephemeral]
                .iter()
                .any(|names| names.contains(&asked));
            let invalid = || format!("container {asked} is not valid for pod {name}");
            return if has {
                Ok(asked.to_owned())
            } else {
                Err(StatusError::bad_request(invalid()))
            };
        }
        let must = format!("a container name must be specified for pod {name}");
        match own.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(StatusError::bad_request(must)),
            several => {
                let mut why = format!("{must}, choose one of: [{}]", several.join(" "));
                if !init.is_empty() {
                    why.push_str(&format!(
                        " or one of the init containers: [{}]",
                        init.join(" ")
                    ));
                }
                Err(StatusError::bad_request(why))
            }
        }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the first port of its containers.
    pub(super) fn first_port(&self) -> Option<u16> {
        let containers = self
            .object
            .pointer("/spec/containers")
            .and_then(Value::as_array)?;
        let port = containers
            .iter()
            .find_map(|one| one.pointer("/ports/0/containerPort")?.as_u64())?;
        u16::try_from(port).ok()
    }

    /// Returns the node that the pod is bound to, if any.
    pub(super) fn node(&self) -> Option<&str> {
        self.object
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .filter(|node| !node.is_empty())
    }

    /// Returns the node that the pod is bound to; fails where there is none.
    pub(super) fn host(&self) -> Result<&str, StatusError> {
        let none =
            || StatusError::bad_request(format!("pod {} does not have a host assigned", self.name));
        self.node().ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &[&str], init: &[&str]) -> Pod {
        let named = |names: &[&str]| {
            names
                .iter()
                .map(|name| json!({"name": name}))
                .collect::<Vec<_>>()
        };
        let object = json!({"spec": {"containers": named(containers), "initContainers": named(init),
            "ephemeralContainers": named(&["debug"]), "nodeName": ""}});
        Pod {
            object,
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
        }
    }

    #[test]
    fn a_container_is_named_or_the_only_one() {
        let why = |error: StatusError| error.message().to_owned();
        assert_eq!(pod(&["a"], &["i"]).container(None).unwrap(), "a");
        for name in ["a", "b", "i", "debug"] {
            assert_eq!(
                pod(&["a", "b"], &["i"]).container(Some(name)).unwrap(),
                name
            );
        }
        let table = [
            (
                pod(&["a"], &[]).container(Some("x")),
                "container x is not valid for pod p",
            ),
            (
                pod(&["a", "b"], &[]).container(None),
                "a container name must be specified for pod p, choose one of: [a b]",
            ),
            (
                pod(&["a", "b"], &["i", "j"]).container(None),
                "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i j]",
            ),
            (
                pod(&[], &[]).container(None),
                "a container name must be specified for pod p",
            ),
            (
                pod(&["a"], &[]).host().map(str::to_owned),
                "pod p does not have a host assigned",
            ),
        ];
        for (found, expected) in table {
            assert_eq!(why(found.unwrap_err()), expected);
        }
    }
}
