//! A container's environment: services, `envFrom`, then `env` in order, each seeing what was defined before it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::{
    downward::{self, Downward},
    references::{Objects, Reference, ReferenceError},
};

#[cfg(test)]
mod tests;

/// Why an environment cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    /// A ConfigMap, Secret or key is missing.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// A field or resource of the downward API cannot be read.
    #[error(transparent)]
    Downward(#[from] downward::Error),
}

/// Environment variables in the order of their definition. Has no `Debug`, as values may be secret.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Environment {
    fn set(&mut self, name: String, value: String) {
        if self.values.insert(name.clone(), value).is_none() {
            self.order.push(name);
        }
    }

    /// Adds variables whose names are not defined.
    pub(crate) fn add_missing(&mut self, variables: &BTreeMap<String, String>) {
        for (name, value) in variables {
            if !self.values.contains_key(name) {
                self.set(name.clone(), value.clone());
            }
        }
    }

    /// Returns names and values in the order of definition.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.order
            .iter()
            .filter_map(|name| Some((name.as_str(), self.values.get(name)?.as_str())))
    }

    /// Replaces each defined `$(NAME)` by its value and `$$` by `$`. References to undefined names stay.
    pub(crate) fn expand(&self, text: &str) -> String {
        self.expansion(text).0
    }

    /// Does the same as [`Self::expand`], but returns `None` if a name is not defined.
    pub(crate) fn expand_all(&self, text: &str) -> Option<String> {
        let (text, complete) = self.expansion(text);
        complete.then_some(text)
    }

    fn expansion(&self, text: &str) -> (String, bool) {
        let mut complete = true;
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some((name, after)) =
                rest.strip_prefix('(').and_then(|r| r.split_once(')'))
            {
                match self.values.get(name) {
                    Some(value) => out.push_str(value),
                    None => {
                        complete = false;
                        out.extend(["$(", name, ")"]);
                    }
                }
                rest = after;
            } else {
                out.push('$');
            }
        }
        out.push_str(rest);
        (out, complete)
    }
}

/// Builds the environment of `container`. Its own variables override those of `services`.
pub(crate) fn build(
    container: &Container,
    services: Vec<(String, String)>,
    objects: &Objects,
    downward: &Downward<'_>,
) -> Result<Environment, Error> {
    let mut environment = Environment::default();
    for (name, value) in services {
        environment.set(name, value);
    }
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let config_map = from
            .config_map_ref
            .as_ref()
            .map(|r| (Reference::ConfigMap(r.name.clone()), r.optional));
        let secret = from
            .secret_ref
            .as_ref()
            .map(|r| (Reference::Secret(r.name.clone()), r.optional));
        for (reference, optional) in config_map.into_iter().chain(secret) {
            let data = objects.data(&reference, optional.unwrap_or(false))?;
            for (key, value) in data.iter().flat_map(|data| data.iter()) {
                let name = format!("{prefix}{key}");
                // As in the kubelet, keys that are not valid variable names are left out.
                if let (true, Ok(value)) =
                    (is_variable_name(&name), String::from_utf8(value.clone()))
                {
                    environment.set(name, value);
                }
            }
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(variable, container, objects, downward, &environment)? {
            environment.set(variable.name.clone(), value);
        }
    }
    Ok(environment)
}

/// Returns the variables with literal values, the only ones that commands of probes and hooks may refer to.
pub(crate) fn literals(container: &Container) -> Environment {
    let mut environment = Environment::default();
    for variable in container
        .env
        .iter()
        .flatten()
        .filter(|variable| variable.value_from.is_none())
    {
        let value = environment.expand(variable.value.as_deref().unwrap_or_default());
        environment.set(variable.name.clone(), value);
    }
    environment
}

/// Returns the value of a variable, or `None` if its optional source is missing.
fn value(
    variable: &EnvVar,
    container: &Container,
    objects: &Objects,
    downward: &Downward<'_>,
    so_far: &Environment,
) -> Result<Option<String>, Error> {
    let Some(source) = &variable.value_from else {
        return Ok(Some(
            so_far.expand(variable.value.as_deref().unwrap_or_default()),
        ));
    };
    if let Some(selector) = &source.field_ref {
        return Ok(Some(downward::field(downward, selector)?));
    }
    if let Some(selector) = &source.resource_field_ref {
        return Ok(Some(downward::resource(
            downward,
            Some(container),
            selector,
        )?));
    }
    if let Some(s) = &source.config_map_key_ref {
        let optional = s.optional.unwrap_or(false);
        return Ok(objects.text(&Reference::ConfigMap(s.name.clone()), &s.key, optional)?);
    }
    if let Some(s) = &source.secret_key_ref {
        let optional = s.optional.unwrap_or(false);
        return Ok(objects.text(&Reference::Secret(s.name.clone()), &s.key, optional)?);
    }
    Ok(None)
}

/// Reports whether `name` is a valid variable name: printable ASCII without `=`, as in Kubernetes 1.32.
fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}
