//! The path of a value in an object, as causes name it: `spec.names[0].kind`.

/// Appends a step to the path while `walk` runs.
pub fn within(path: &mut String, step: &str, walk: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(step);
    walk(path);
    path.truncate(length);
}

/// Returns the step to the field `name` of the object at `path`.
pub fn field_step(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!(".{name}")
    }
}
