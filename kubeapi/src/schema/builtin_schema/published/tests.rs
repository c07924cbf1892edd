//! Tests of [`super`], which write its files.

use std::{fs, path::Path};

use k8s_openapi::{
    api::{
        authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling, core::v1 as core, policy::v1 as policy,
    },
    apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, Status},
    schemars::{Schema, SchemaGenerator, generate::SchemaSettings},
};

use super::*;
use crate::{
    registry::{Registry, SchemaSource},
    request::request_type::{self, RequestType},
};

const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
/// Types for which Kubernetes publishes no type, since they may be any JSON value.
const ANY_JSON: [&str; 4] = [
    "JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
];

/// All types of the built-in kinds, made from the types themselves.
fn made_schema() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for kind in Registry::builtin().kinds() {
        let SchemaSource::Published { name, generate } = &kind.source else {
            panic!("{kind:?} is from a definition")
        };
        let Some(generate) = generate else { continue };
        let reference = generate(&mut generator).to_value();
        assert_eq!(references(&reference), [name.to_string()], "{kind:?}");
    }
    for (name, reference) in [
        (LIST_META, generator.subschema_for::<ListMeta>()),
        (STATUS, generator.subschema_for::<Status>()),
    ] {
        assert_eq!(references(&reference.to_value()), [name]);
    }
    for (type_, reference) in request_types(&mut generator) {
        assert_eq!(references(&reference.to_value()), [type_.schema_name()]);
    }
    let mut made = generator.take_definitions(true);
    for name in ANY_JSON {
        let schema = made.get_mut(&format!("{EXTENSIONS}.{name}"));
        let schema = schema.and_then(Value::as_object_mut).unwrap();
        schema.retain(|field, _| field == "description");
    }
    made
}

/// The types of bodies that no collection stores, each with the schema that its type makes.
fn request_types(generator: &mut SchemaGenerator) -> Vec<(&'static RequestType, Schema)> {
    let made = vec![
        (
            &request_type::BINDING,
            generator.subschema_for::<core::Binding>(),
        ),
        (
            &request_type::DELETE_OPTIONS,
            generator.subschema_for::<DeleteOptions>(),
        ),
        (
            &request_type::EVICTION,
            generator.subschema_for::<policy::Eviction>(),
        ),
        (
            &request_type::SCALE,
            generator.subschema_for::<autoscaling::Scale>(),
        ),
        (
            &request_type::TOKEN_REQUEST,
            generator.subschema_for::<authentication::TokenRequest>(),
        ),
        (
            &request_type::SELF_SUBJECT_REVIEW,
            generator.subschema_for::<authentication::SelfSubjectReview>(),
        ),
        (
            &request_type::TOKEN_REVIEW,
            generator.subschema_for::<authentication::TokenReview>(),
        ),
        (
            &request_type::LOCAL_SUBJECT_ACCESS_REVIEW,
            generator.subschema_for::<authorization::LocalSubjectAccessReview>(),
        ),
        (
            &request_type::SELF_SUBJECT_ACCESS_REVIEW,
            generator.subschema_for::<authorization::SelfSubjectAccessReview>(),
        ),
        (
            &request_type::SELF_SUBJECT_RULES_REVIEW,
            generator.subschema_for::<authorization::SelfSubjectRulesReview>(),
        ),
        (
            &request_type::SUBJECT_ACCESS_REVIEW,
            generator.subschema_for::<authorization::SubjectAccessReview>(),
        ),
    ];
    assert_eq!(made.len(), request_type::ALL.len());
    made
}

/// Takes the descriptions of a type and its fields out of its schema.
fn take_descriptions(schema: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let mut take = |name: &str, schema: &mut Value| {
        let description = schema
            .as_object_mut()
            .and_then(|schema| schema.remove("description"));
        taken.extend(description.map(|description| (name.to_owned(), description)));
    };
    take("", schema);
    for (name, field) in schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        take(name, field);
    }
    taken
}

#[test]
fn the_files_have_what_the_types_say() {
    let made = made_schema();
    let (mut shapes, mut descriptions) = (String::new(), String::new());
    let mut names: Vec<_> = made.keys().collect();
    names.sort();
    for name in names {
        let mut schema = made[name].clone();
        let described = take_descriptions(&mut schema);
        assert!(
            !schema.to_string().contains("\"description\":\""),
            "{name} has descriptions elsewhere"
        );
        shapes += &format!("{name} {schema}\n");
        descriptions += &format!("{name} {}\n", Value::Object(described));
    }
    let files = [
        ("shapes.txt", shapes, SHAPES),
        ("descriptions.txt", descriptions, DESCRIPTIONS),
    ];
    for (file, new, old) in files {
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            let directory =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("src/builtin_schema/published");
            fs::write(directory.join(file), new).unwrap();
        } else {
            assert!(new == old, "{file} is old: make schemas");
        }
    }
}

#[test]
fn what_is_read_is_what_the_types_say() {
    let made = made_schema();
    let mut read = Map::new();
    for kind in Registry::builtin().kinds() {
        if let SchemaSource::Published {
            name,
            generate: Some(_),
        } = &kind.source
        {
            add(name, &mut read);
        }
    }
    for type_ in request_type::ALL {
        add(type_.schema_name(), &mut read);
    }
    [LIST_META, STATUS]
        .iter()
        .for_each(|name| add(name, &mut read));
    assert_eq!(read.len(), made.len());
    for (name, schema) in &made {
        assert_eq!(read.get(name), Some(schema), "{name}");
    }
}

#[test]
fn newer_types_are_whole() {
    let mut read = Map::new();
    for kind in Registry::builtin().kinds() {
        if let SchemaSource::Published {
            name,
            generate: None,
        } = &kind.source
        {
            add(name, &mut read);
            assert!(read[name.as_ref()]["description"].is_string(), "{name}");
        }
    }
    let parts: Vec<_> = read.values().flat_map(references).collect();
    assert_eq!(parts.iter().find(|part| !read.contains_key(*part)), None);
    for file in [NEWER_SHAPES, NEWER_DESCRIPTIONS] {
        let names: Vec<_> = file
            .lines()
            .map(|line| line.split_once(' ').unwrap().0)
            .collect();
        assert!(names.is_sorted());
        assert_eq!(names.iter().find(|name| find(SHAPES, name).is_some()), None);
    }
}

#[test]
fn lines_are_found_and_others_are_not() {
    let text = "a 1\nab 2\nb ü\nc.d 4 5\n";
    let found: Vec<_> = ["a", "ab", "b", "c.d"]
        .iter()
        .map(|name| find(text, name).unwrap())
        .collect();
    assert_eq!(found, ["1", "2", "ü", "4 5"]);
    for name in ["", "0", "aa", "b ", "c", "c.d ", "d"] {
        assert_eq!(find(text, name), None, "{name:?}");
    }
    assert_eq!(find("", "a"), None);
}
