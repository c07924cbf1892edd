//! The YAML parser; no other file uses the YAML library.

use std::fmt;

use limits::excerpt;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A document that is not YAML.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}{message}")]
pub struct NotYaml {
    position: String,
    message: String,
}

/// Parses one document as Go's YAML does: `0400` is octal, `yes` is true, a key may occur only once.
pub fn parse(text: &str) -> Result<Value, NotYaml> {
    // no snippets: the lines around an error may hold the token
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| explain(text, &error))
}

/// Writes a document.
///
/// # Errors
/// The library's message; a document that was parsed can be written.
pub fn to_text(document: &Value) -> Result<String, String> {
    serde_saphyr::to_string(document).map_err(|error| error.to_string())
}

/// Reports whether the text has only comments and empty lines.
pub fn is_empty(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    })
}

fn explain(text: &str, error: &serde_saphyr::Error) -> NotYaml {
    if let Some(line) = text.lines().position(indented_by_tab) {
        let message = "a tab in the indentation; indent with spaces".to_owned();
        return NotYaml {
            position: format!("line {}: ", line + 1),
            message,
        };
    }
    let place = error.location().filter(|place| place.line() > 0);
    let position = place.map(|place| format!("line {} column {}: ", place.line(), place.column()));
    NotYaml {
        position: position.unwrap_or_default(),
        message: excerpt(&plain(&error.without_snippet().to_string())),
    }
}

/// Returns the library's message without its position, which is shown in front, and without advice for programmers.
fn plain(message: &str) -> String {
    if message.starts_with("multiple YAML documents") {
        return "a second document begins here; remove all but one".to_owned();
    }
    let message = message
        .rsplit_once(" at line ")
        .map_or(message, |(message, _)| message);
    let message = message
        .split(", set DuplicateKeyPolicy")
        .next()
        .unwrap_or(message);
    message.to_owned()
}

fn indented_by_tab(line: &str) -> bool {
    line.chars()
        .take_while(|c| c.is_whitespace())
        .any(|c| c == '\t')
        && !line.trim().is_empty()
}

/// The lines on which a document sets its values.
#[derive(Debug)]
pub struct Positions(Spanned<Shape>);

/// A value without its content.
#[derive(Debug)]
enum Shape {
    Scalar,
    List(Vec<Spanned<Shape>>),
    Mapping(Vec<(String, Spanned<Shape>)>),
}

/// Returns the lines of a document; `None` if it is not YAML.
pub fn positions(text: &str) -> Option<Positions> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
        .ok()
        .map(Positions)
}

impl Positions {
    /// Returns the line of a path such as `modules.edged.registerWithTaints[1].key`, or of the nearest part around it. `None` if the
    /// document sets no part of it. Keys are compared without case; they may contain dots.
    pub fn line(&self, path: &str) -> Option<u64> {
        let (mut value, mut rest, mut line) = (&self.0, path, None);
        while !rest.is_empty() {
            let found = match &value.value {
                Shape::Scalar => None,
                Shape::List(elements) => {
                    let inner = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                    inner.and_then(|(index, after)| {
                        Some((elements.get(index.parse::<usize>().ok()?)?, after))
                    })
                }
                Shape::Mapping(entries) => entries
                    .iter()
                    .find_map(|(key, value)| Some((value, after_key(rest, key)?))),
            };
            let Some((inner, after)) = found else { break };
            line = Some(inner.referenced.line());
            (value, rest) = (inner, after.strip_prefix('.').unwrap_or(after));
        }
        line.filter(|line| *line > 0)
    }
}

/// Returns the rest of a path after this key, if it begins with it.
fn after_key<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    if let Some(after) = path.strip_prefix(&format!("[{key:?}]")) {
        return Some(after);
    }
    let (begin, after) = path.split_at_checked(key.len())?;
    let is_whole = after.is_empty() || after.starts_with(['.', '[']);
    (is_whole && begin.eq_ignore_ascii_case(key)).then_some(after)
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Shape::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Shape, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = mapping.next_entry()? {
            entries.push(entry);
        }
        Ok(Shape::Mapping(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_line_of_their_value() {
        let text = "\
a: 1
B:
  c.d: x
  'e f': {g: 2, h: [true, 1.5]}
  list:
  - k: null
  - k: y
";
        let positions = positions(text).unwrap();
        for (path, line) in [
            ("a", Some(1)),
            ("b.c.d", Some(3)),
            ("B[\"e f\"].g", Some(4)),
            ("B[\"e f\"].h[1]", Some(4)),
            ("B.list[1].k", Some(7)),
            ("B.list[1].missing", Some(7)),
            ("missing", None),
            ("ab", None),
        ] {
            assert_eq!(positions.line(path), line, "{path}");
        }
        assert!(super::positions("a: [").is_none());
    }
}
