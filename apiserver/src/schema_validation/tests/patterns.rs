//! Patterns that are written to take long.

use clock::Instant;

use serde_json::{Map, Value, json};

use crate::schema_validation::node::SchemaValidator;

/// Forty patterns, and a value that each of them has to read to its end.
#[test]
fn forty_patterns_of_five_hundred_steps_take_a_moment() {
    let property = |_: &Value| json!({"type": "string", "pattern": "^[a-z]{1,500}$"});
    let names: Vec<_> = (0..40).map(|index| format!("f{index}")).collect();
    let properties: Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), property(&Value::Null)))
        .collect();
    let schema = SchemaValidator::new(&json!({"type": "object", "properties": properties}));
    let text = "a".repeat(20_000);
    let object: Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), text.as_str().into()))
        .collect();
    let start = Instant::now();
    let causes = schema.check(&Value::Object(object)).unwrap();
    assert_eq!(causes.len(), 40);
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
}

#[test]
fn a_pattern_that_would_fill_the_memory_is_none() {
    assert!(crate::schema_validation::pattern("((a{1,100}){1,100}){1,100}").is_err());
    assert!(crate::schema_validation::pattern("[a-z]{1,500}").is_ok());
    assert!(crate::schema_validation::pattern("^\\p{L}+$").is_ok());
}
