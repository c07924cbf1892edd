//! One kubeconfig as a tree. Fields that are unknown here are kept as they are.

use serde_json::{Map, Value, json};

/// The lists of named entries.
pub(super) const SECTIONS: [&str; 3] = ["clusters", "users", "contexts"];

/// The field that names the context in use.
const CURRENT: &str = "current-context";

/// A kubeconfig.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document(Map<String, Value>);

impl Default for Document {
    /// Returns a kubeconfig without entries.
    fn default() -> Self {
        let mut fields = Map::new();
        fields.insert("apiVersion".to_owned(), json!("v1"));
        fields.insert("kind".to_owned(), json!("Config"));
        for section in SECTIONS {
            fields.insert(section.to_owned(), json!([]));
        }
        fields.insert(CURRENT.to_owned(), json!(""));
        Self(fields)
    }
}

impl Document {
    /// Reads a kubeconfig; an empty text is one without entries, as for kubectl.
    ///
    /// # Errors
    /// Returns why the text is no kubeconfig.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_blank =
            |line: &str| matches!(line.trim(), "" | "---") || line.trim_start().starts_with('#');
        if text.lines().all(is_blank) {
            return Ok(Self::default());
        }
        let options = serde_saphyr::options! { with_snippet: false };
        let value = serde_saphyr::from_str_with_options::<Value>(text, options)
            .map_err(|error| format!("it is not YAML: {error}"))?;
        let Value::Object(fields) = value else {
            return Err("it is no mapping".to_owned());
        };
        for (field, expected) in [("kind", "Config"), ("apiVersion", "v1")] {
            match fields.get(field) {
                None | Some(Value::Null) => {}
                Some(value) if value == expected => {}
                Some(_) => return Err(format!("its {field} is not {expected}")),
            }
        }
        let is_known = |field: &&str| fields.contains_key(*field);
        if !["kind", CURRENT].iter().chain(&SECTIONS).any(is_known) {
            return Err("it has neither kind: Config nor clusters, users or contexts".to_owned());
        }
        for section in SECTIONS {
            let is_sound = match fields.get(section) {
                None | Some(Value::Null) => true,
                Some(Value::Array(entries)) => entries
                    .iter()
                    .all(|entry| entry.get("name").is_some_and(Value::is_string)),
                Some(_) => false,
            };
            if !is_sound {
                return Err(format!("its {section} are no list of entries with names"));
            }
        }
        if fields
            .get(CURRENT)
            .is_some_and(|current| !current.is_string() && !current.is_null())
        {
            return Err(format!("its {CURRENT} is no name"));
        }
        Ok(Self(fields))
    }

    /// Returns the YAML text.
    pub(super) fn text(&self) -> Result<String, serde_saphyr::ser::Error> {
        // without block scalars: whatever stands in a value comes back as it was
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let text = serde_saphyr::to_string_with_options(&self.0, options)?;
        Ok(format!("{}\n", text.trim_end()))
    }

    fn entries(&self, section: &str) -> &[Value] {
        self.0
            .get(section)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the content of an entry, which is a field called as the section in the singular.
    pub(super) fn get(&self, section: &str, name: &str) -> Option<&Value> {
        let entry = self
            .entries(section)
            .iter()
            .find(|entry| is_called(entry, name))?;
        Some(
            entry
                .get(section.trim_end_matches('s'))
                .unwrap_or(&Value::Null),
        )
    }

    /// Adds an entry, or replaces the one of this name in its place.
    pub(super) fn put(&mut self, section: &str, name: &str, content: Value) {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.into());
        entry.insert(section.trim_end_matches('s').to_owned(), content);
        let list = self.0.entry(section).or_insert(Value::Null);
        match list.as_array_mut() {
            Some(entries) => match entries.iter_mut().find(|entry| is_called(entry, name)) {
                Some(old) => *old = entry.into(),
                None => entries.push(entry.into()),
            },
            None => *list = json!([entry]),
        }
    }

    /// Removes the entry of this name.
    pub(super) fn remove(&mut self, section: &str, name: &str) {
        if let Some(entries) = self.0.get_mut(section).and_then(Value::as_array_mut) {
            entries.retain(|entry| !is_called(entry, name));
        }
    }

    /// Returns the current context; `None` if none is set.
    pub(super) fn current(&self) -> Option<&str> {
        self.0
            .get(CURRENT)
            .and_then(Value::as_str)
            .filter(|current| !current.is_empty())
    }

    /// Sets the current context; an empty name unsets it.
    pub(super) fn set_current(&mut self, name: &str) {
        self.0.insert(CURRENT.to_owned(), name.into());
    }

    /// Reports whether nothing is lost with this kubeconfig.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(field, value)| match field.as_str() {
            "kind" | "apiVersion" => true,
            _ => {
                matches!(value, Value::Null)
                    || value.as_str() == Some("")
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(Map::is_empty)
            }
        })
    }
}

fn is_called(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str) == Some(name)
}
