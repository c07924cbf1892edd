//! The chart says what it does: its table of values, its definitions and its rules are those that hold.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use super::root;

/// Each value with its path and default. What has fields that the chart does not know is one value.
fn defaults(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !path.ends_with("resources") => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                defaults(&path, value, found);
            }
        }
        value => drop(found.insert(path.to_owned(), value.to_string())),
    }
}

#[test]
fn the_table_of_values_is_that_of_the_chart() {
    let chart = root().join("charts/cloudsim");
    let values = fs::read_to_string(chart.join("values.yaml")).unwrap();
    let mut expected = BTreeMap::new();
    defaults("", &serde_saphyr::from_str(&values).unwrap(), &mut expected);
    let readme = fs::read_to_string(chart.join("README.md")).unwrap();
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeMap<_, _> = rows
        .map(|row| {
            let (path, rest) = row.split_once("` | `").expect("a path and its default");
            let (default, _) = rest.split_once("` | ").expect("a default and its meaning");
            (path.to_owned(), default.to_owned())
        })
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn the_definitions_of_the_chart_are_those_of_this_version() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("charts/cloudsim/crds")).unwrap() {
        let path = entry.unwrap().path();
        let own = root().join("crds/yaml").join(path.file_name().unwrap());
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            fs::read_to_string(own).unwrap(),
            "{}",
            path.display()
        );
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn the_rules_of_the_chart_are_those_that_the_program_asks_for() {
    let of_chart = fs::read_to_string(root().join("charts/cloudsim/files/rules.yaml")).unwrap();
    let of_program =
        fs::read_to_string(root().join("cloudsim/src/cloud/backed/rules.yaml")).unwrap();
    assert_eq!(of_chart, of_program);
}
