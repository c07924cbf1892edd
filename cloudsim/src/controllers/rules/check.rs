//! Validates and parses Rules and RuleEndpoints: [`Source`] and [`Target`] are the ends of a rule. Pure.
//!
//! Source: KubeEdge's `cloud/pkg/router` and its admission webhook.

use std::collections::BTreeMap;

use crds::rules::{RuleEndpointSpec, RuleEndpointType, RuleSpec};
use http::Uri;
use wire::{
    enroll::is_node_name,
    topic::{check_publication, check_subscription},
};

use super::addresses;

/// The property of a RuleEndpoint of type servicebus.
const SERVICE_PORT: &str = "service_port";
/// The settings of sources, and those of targets, of all types.
const SOURCE_KEYS: [&str; 4] = ["path", "topic", "target_url", "node_name"];
const TARGET_KEYS: [&str; 3] = ["resource", "topic", "path"];
/// The longest path or URL of a rule, bytes.
const MAX_LENGTH: usize = 1024;

/// The source of a rule's messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Requests to the router below `/<node>/<namespace>/<path>`.
    Rest {
        /// The path, without slashes at its ends.
        path: String,
    },
    /// MQTT messages of a node.
    EventBus {
        /// The name of the node.
        node: String,
        /// The topic below the namespace; it may have wildcards.
        topic: String,
    },
    /// Calls of applications on a node.
    ServiceBus {
        /// The name of the node.
        node: String,
        /// The URL of the calls.
        url: String,
    },
}

/// The target of a rule's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A server that the cloud calls.
    Rest {
        /// The URL of the server.
        url: Uri,
    },
    /// MQTT on the node of the request.
    EventBus {
        /// The topic.
        topic: String,
    },
    /// A local HTTP service on the node of the request.
    ServiceBus {
        /// The port of the service.
        port: u16,
        /// The path, with a leading slash.
        path: String,
    },
}

/// An invalid field of a Rule or a RuleEndpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The path of the field: `spec.sourceResource[path]`.
    pub(crate) field: String,
    /// The value of the field.
    pub(crate) value: String,
    /// What is wrong with it.
    pub(crate) why: String,
}

impl FieldError {
    pub(super) fn new(field: impl Into<String>, value: &str, why: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            value: value.to_owned(),
            why: why.into(),
        }
    }
}

/// Validates an endpoint.
pub(crate) fn endpoint(spec: &RuleEndpointSpec) -> Vec<FieldError> {
    match spec.rule_endpoint_type {
        RuleEndpointType::ServiceBus => service_port(spec).err().into_iter().collect(),
        RuleEndpointType::Rest | RuleEndpointType::EventBus => Vec::new(),
    }
}

fn service_port(spec: &RuleEndpointSpec) -> Result<u16, FieldError> {
    let text = spec.properties.get(SERVICE_PORT).map(String::as_str);
    let port = text
        .unwrap_or_default()
        .parse()
        .ok()
        .filter(|port| *port != 0);
    port.ok_or_else(|| {
        let why = "a servicebus needs the port of the local HTTP service, 1 to 65535";
        FieldError::new(
            format!("spec.properties[{SERVICE_PORT}]"),
            text.unwrap_or_default(),
            why,
        )
    })
}

/// Validates a rule between these endpoints, as far as they exist.
pub(crate) fn rule(
    spec: &RuleSpec,
    source: Option<&RuleEndpointSpec>,
    target: Option<&RuleEndpointSpec>,
) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let [of_source, of_target] = ends(spec);
    faults.extend(match source {
        Some(end) => self::source(spec, end).err(),
        // its type is not known before it exists
        None => of_source.only(&SOURCE_KEYS).err(),
    });
    faults.extend(match target {
        Some(end) => self::target(spec, end).err(),
        None => of_target.only(&TARGET_KEYS).err(),
    });
    let types = source
        .zip(target)
        .map(|(from, to)| (from.rule_endpoint_type, to.rule_endpoint_type));
    if let Some((from, to)) = types
        && (from == RuleEndpointType::Rest) == (to == RuleEndpointType::Rest)
    {
        let why = "one end of a rule is rest and the other is eventbus or servicebus";
        faults.push(FieldError::new("spec.target", &spec.target, why));
    }
    faults
}

/// Returns the settings of both ends of a rule.
fn ends(spec: &RuleSpec) -> [EndpointKeys<'_>; 2] {
    let source = EndpointKeys {
        field: "spec.sourceResource",
        all: &spec.source_resource,
    };
    let target = EndpointKeys {
        field: "spec.targetResource",
        all: &spec.target_resource,
    };
    [source, target]
}

/// Parses the source of a rule.
pub(super) fn source(spec: &RuleSpec, endpoint: &RuleEndpointSpec) -> Result<Source, FieldError> {
    let [keys, _] = ends(spec);
    match endpoint.rule_endpoint_type {
        RuleEndpointType::Rest => {
            let path = keys.only(&["path"])?.get("path")?;
            let trimmed = path.trim_matches('/');
            let is_sound = trimmed.split('/').all(|part| {
                !matches!(part, "" | "." | "..")
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_graphic() && !b"?#%\\".contains(&b))
            });
            if !is_sound {
                return Err(keys.wrong("path", "a path has parts of visible ASCII letters between slashes, none of them . or .., and no ? # %"));
            }
            Ok(Source::Rest {
                path: trimmed.to_owned(),
            })
        }
        RuleEndpointType::EventBus => {
            let keys = keys.only(&["topic", "node_name"])?;
            let topic = keys.get("topic")?;
            check_subscription(topic).map_err(|fault| keys.wrong("topic", &fault.to_string()))?;
            Ok(Source::EventBus {
                node: keys.node()?,
                topic: topic.to_owned(),
            })
        }
        RuleEndpointType::ServiceBus => {
            let keys = keys.only(&["target_url", "node_name"])?;
            keys.url("target_url")?;
            Ok(Source::ServiceBus {
                node: keys.node()?,
                url: keys.get("target_url")?.to_owned(),
            })
        }
    }
}

/// Parses the target of a rule.
pub(super) fn target(spec: &RuleSpec, endpoint: &RuleEndpointSpec) -> Result<Target, FieldError> {
    let [_, keys] = ends(spec);
    match endpoint.rule_endpoint_type {
        RuleEndpointType::Rest => {
            let url = keys.only(&["resource"])?.url("resource")?;
            if addresses::has_refused(&url) {
                return Err(keys.wrong("resource", addresses::METADATA_REFUSED));
            }
            Ok(Target::Rest { url })
        }
        RuleEndpointType::EventBus => {
            let topic = keys.only(&["topic"])?.get("topic")?;
            check_publication(topic).map_err(|fault| keys.wrong("topic", &fault.to_string()))?;
            Ok(Target::EventBus {
                topic: topic.to_owned(),
            })
        }
        RuleEndpointType::ServiceBus => {
            let path = keys.only(&["path"])?.get("path")?;
            if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(keys.wrong("path", "a path has visible ASCII letters alone"));
            }
            let slash = if path.starts_with('/') { "" } else { "/" };
            Ok(Target::ServiceBus {
                port: service_port(endpoint)?,
                path: format!("{slash}{path}"),
            })
        }
    }
}

/// The properties of one end of a rule.
struct EndpointKeys<'a> {
    field: &'static str,
    all: &'a BTreeMap<String, String>,
}

impl<'a> EndpointKeys<'a> {
    fn only(&self, known: &[&str]) -> Result<&Self, FieldError> {
        let Some((key, value)) = self
            .all
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()))
        else {
            return Ok(self);
        };
        let why = format!("unknown setting; this end has only {}", known.join(", "));
        Err(FieldError::new(
            format!("{}[{}]", self.field, wire::text::short(key)),
            value,
            why,
        ))
    }

    fn get(&self, key: &str) -> Result<&'a str, FieldError> {
        match self.all.get(key).map(String::as_str) {
            None | Some("") => Err(self.wrong(key, "it is missing")),
            Some(value) if value.len() > MAX_LENGTH => {
                Err(self.wrong(key, &format!("it is longer than {MAX_LENGTH} bytes")))
            }
            Some(value) => Ok(value),
        }
    }

    fn node(&self) -> Result<String, FieldError> {
        let node = self.get("node_name")?;
        if is_node_name(node) {
            Ok(node.to_owned())
        } else {
            Err(self.wrong("node_name", "it is no name of a node"))
        }
    }

    fn url(&self, key: &str) -> Result<Uri, FieldError> {
        let url: Option<Uri> = self.get(key)?.parse().ok();
        let is_sound = |url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.host().is_some_and(|host| !host.is_empty())
                && url
                    .authority()
                    .is_some_and(|authority| !authority.as_str().contains('@'))
        };
        url.filter(is_sound).ok_or_else(|| {
            self.wrong(
                key,
                "a URL of http or https is wanted, with a host and without a user or password",
            )
        })
    }

    fn wrong(&self, key: &str, why: &str) -> FieldError {
        let value = self.all.get(key).map(String::as_str).unwrap_or_default();
        FieldError::new(
            format!("{}[{key}]", self.field),
            &wire::text::short(value),
            why,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_settings_are_reported_with_and_without_the_endpoints() {
        let end = |kind| RuleEndpointSpec {
            rule_endpoint_type: kind,
            properties: BTreeMap::new(),
        };
        let (rest, mqtt) = (end(RuleEndpointType::Rest), end(RuleEndpointType::EventBus));
        let settings = |keys: &[&str]| {
            let pair = |key: &&str| ((*key).to_owned(), "a".to_owned());
            keys.iter().map(pair).collect::<BTreeMap<_, _>>()
        };
        for (source, target, expected) in [
            (&["path"][..], &["topic"][..], &[][..]),
            (&["pth"], &["topic"], &["spec.sourceResource[pth]"]),
            (
                &["pth"],
                &["topc"],
                &["spec.sourceResource[pth]", "spec.targetResource[topc]"],
            ),
        ] {
            let spec = RuleSpec {
                source: "from".to_owned(),
                source_resource: settings(source),
                target: "to".to_owned(),
                target_resource: settings(target),
            };
            for ends in [(Some(&rest), Some(&mqtt)), (None, None)] {
                let faults = rule(&spec, ends.0, ends.1);
                let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
                assert_eq!(fields, expected, "{source:?} {target:?}");
            }
        }
    }
}
