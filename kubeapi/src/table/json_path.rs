//! The JSONPath of printer columns: fields, indexes, `[*]` and equality filters, as in
//! `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    /// An index; negative ones count from the end.
    Index(i64),
    All,
    /// `[?(@.path=="value")]`
    Where(Vec<Step>, Value),
}

/// Returns the first value at `path`; `None` also for an invalid path.
pub(super) fn first<'a>(path: &str, object: &'a Value) -> Option<&'a Value> {
    let steps = parse(path)?;
    walk(&steps, vec![object]).into_iter().next()
}

/// Reports whether `path` is valid.
pub(super) fn is_readable(path: &str) -> bool {
    parse(path).is_some()
}

fn walk<'a>(steps: &[Step], start: Vec<&'a Value>) -> Vec<&'a Value> {
    steps.iter().fold(start, |values, step| {
        values
            .into_iter()
            .flat_map(|value| take(step, value))
            .collect()
    })
}

fn take<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
            let place = if *index < 0 {
                list.len().checked_sub(back)
            } else {
                Some(back)
            };
            place
                .and_then(|place| list.get(place))
                .into_iter()
                .collect()
        }
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Where(path, wanted) => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            list.iter()
                .filter(|item| walk(path, vec![item]).first() == Some(&wanted))
                .collect()
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let path = path.trim();
    let mut rest = path
        .strip_prefix('{')
        .and_then(|path| path.strip_suffix('}'))
        .unwrap_or(path);
    rest = rest.strip_prefix('$').unwrap_or(rest);
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inside) => {
                let end = closing(inside)?;
                (bracket(inside.get(..end)?)?, inside.get(end + 1..)?)
            }
            None => field(rest.strip_prefix('.').unwrap_or(rest))?,
        };
        steps.push(step);
        rest = after;
    }
    Some(steps)
}

/// Returns the position of the closing bracket, ignoring quoted text and nested brackets.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_u32);
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

/// Parses a field after its dot; a backslash makes the next dot part of the name.
fn field(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '.' | '[' => return (at > 0).then(|| (step(name), &text[at..])),
            '\\' => name.push(chars.next()?.1),
            char => name.push(char),
        }
    }
    (!name.is_empty()).then(|| (step(name), ""))
}

fn step(name: String) -> Step {
    if name == "*" {
        Step::All
    } else {
        Step::Field(name)
    }
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = text
        .strip_prefix("?(")
        .and_then(|text| text.strip_suffix(')'))
    {
        let (path, value) = condition.split_once("==")?;
        let path = parse(path.trim().strip_prefix('@')?)?;
        return Some(Step::Where(path, literal(value.trim())?));
    }
    match literal(text)? {
        Value::String(name) => Some(Step::Field(name)),
        value => value.as_i64().map(Step::Index),
    }
}

fn literal(text: &str) -> Option<Value> {
    for quote in ['"', '\''] {
        if let Some(text) = text.strip_prefix(quote) {
            return text.strip_suffix(quote).map(Value::from);
        }
    }
    serde_json::from_str(text)
        .ok()
        .filter(|value: &Value| !value.is_object() && !value.is_array())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_lead_to_their_values() {
        let object = json!({
            "spec": {"replicas": 3, "nodes": ["a", "b"]},
            "metadata": {"annotations": {"example.com/x": "dotted"}},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True", "n": 1}]},
        });
        let cases = [
            (".spec.replicas", Some(json!(3))),
            ("{.spec.replicas}", Some(json!(3))),
            ("$.spec.replicas", Some(json!(3))),
            (".spec.nodes[0]", Some(json!("a"))),
            (".spec.nodes[-1]", Some(json!("b"))),
            (".spec.nodes[*]", Some(json!("a"))),
            (".spec.nodes", Some(json!(["a", "b"]))),
            (".spec['replicas']", Some(json!(3))),
            (
                r".metadata.annotations.example\.com/x",
                Some(json!("dotted")),
            ),
            (
                ".metadata.annotations['example.com/x']",
                Some(json!("dotted")),
            ),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                Some(json!("True")),
            ),
            (
                r#".status.conditions[?(@.type == 'Other')].status"#,
                Some(json!("False")),
            ),
            (
                r#".status.conditions[?(@.n==1)].type"#,
                Some(json!("Ready")),
            ),
            (r#".status.conditions[?(@.type=="None")].status"#, None),
            (".spec.absent.deeper", None),
            (".spec.nodes[7]", None),
            (".spec.nodes[-7]", None),
            (".spec.nodes[", None),
            (".spec..nodes", None),
            (".spec.nodes[?(x)]", None),
        ];
        for (path, expected) in cases {
            assert_eq!(first(path, &object), expected.as_ref(), "{path}");
        }
    }
}
