//! Makes the story of each kind from its samples.

use std::fs;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    merge_patch::merge,
    step::{self, Step},
};

/// A kind and objects of it; `samples.yaml` describes the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    of: String,
    minimum: Value,
    full: Value,
    change: Value,
    #[serde(default)]
    refused: Vec<Value>,
    #[serde(default)]
    invalid: Vec<Value>,
    #[serde(default)]
    status: Value,
}

const TABLE: &str = "accept:application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "accept:application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Returns the story of each kind by its name: plural and group.
pub(crate) fn stories() -> impl Iterator<Item = (String, Vec<Step>)> {
    let text = fs::read_to_string(step::folder().join("samples.yaml")).unwrap();
    let samples: Vec<Sample> = serde_saphyr::from_str(&text).unwrap();
    samples.into_iter().map(|sample| {
        let kind = SampleKind::read(&sample.of);
        (kind.story.clone(), kind.into_story(&sample))
    })
}

/// The story of a kind in the making.
struct SampleKind {
    story: String,
    version: String,
    kind: String,
    /// The path of the collection.
    path: String,
    steps: Vec<Step>,
}

impl SampleKind {
    fn read(of: &str) -> Self {
        let mut words = of.split(' ').map(str::to_owned);
        let (version, kind, plural) = (
            words.next().unwrap(),
            words.next().unwrap(),
            words.next().unwrap(),
        );
        let scope = words.next().map_or("namespaces/$NS/", |_| "");
        let (root, story) = match version.split_once('/') {
            Some((group, _)) => ("apis", format!("{plural}-{}", group.replace('.', "-"))),
            None => ("api", plural.clone()),
        };
        Self {
            story,
            path: format!("/{root}/{version}/{scope}{plural}"),
            version,
            kind,
            steps: Vec::new(),
        }
    }

    fn object(&self, name: &str, parts: &Value) -> Value {
        let mut object = json!({"apiVersion": self.version, "kind": self.kind, "metadata": {"name": name, "labels": {"story": "kind"}}});
        merge(&mut object, parts);
        object
    }

    fn add(&mut self, request: &str, body: Value) {
        let request = request.replace(" @", &format!(" {}", self.path));
        self.steps.push(Step {
            request,
            body,
            ..Step::default()
        });
    }

    fn into_story(mut self, sample: &Sample) -> Vec<Step> {
        let (minimum, full) = (
            self.object("min", &sample.minimum),
            self.object("full", &sample.full),
        );
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let (min, whole) = (name(&minimum), name(&full));
        self.create_and_read(&minimum, &full, &min);
        self.update(&minimum, sample, &min);
        self.patch(sample, &min, &whole);
        self.apply(&full, sample, &whole);
        if !sample.status.is_null() {
            self.write_status(&minimum, &sample.status, &min);
        }
        self.refuse(&minimum, sample);
        self.delete(&min, &whole);
        self.steps
    }

    fn create_and_read(&mut self, minimum: &Value, full: &Value, min: &str) {
        self.add("POST @?dryRun=All", minimum.clone());
        self.add("POST @", minimum.clone());
        self.add(&format!("GET @/{min}"), Value::Null);
        self.add("POST @", minimum.clone());
        self.add("POST @?fieldManager=full", full.clone());
        self.add("GET @?labelSelector=story%3Dkind", Value::Null);
        self.add(
            &format!("GET @?labelSelector=story%3Dkind {TABLE}"),
            Value::Null,
        );
        self.add(&format!("GET @/{min} {METADATA}"), Value::Null);
    }

    fn update(&mut self, minimum: &Value, sample: &Sample, min: &str) {
        let mut changed = minimum.clone();
        merge(&mut changed, &sample.change);
        let at = |version: &str| {
            let mut object = changed.clone();
            object["metadata"]["resourceVersion"] = version.into();
            object
        };
        self.add(&format!("GET @/{min}"), Value::Null);
        self.add(&format!("PUT @/{min}?dryRun=All"), at("$VERSION"));
        self.add(&format!("PUT @/{min}"), at("$VERSION"));
        self.add(&format!("PUT @/{min}"), at("1"));
        self.add(&format!("PUT @/{min}"), changed.clone());
        self.add("PUT @/other", changed.clone());
        self.add(
            &format!("PUT @/{min}"),
            json!({"apiVersion": "v1", "kind": "Other", "metadata": {"name": min}}),
        );
    }

    fn patch(&mut self, sample: &Sample, min: &str, whole: &str) {
        self.add(&format!("MERGE @/{whole}"), sample.change.clone());
        self.add(
            &format!("STRATEGIC @/{min}"),
            json!({"metadata": {"labels": {"strategic": "yes"}, "finalizers": ["example.com/a"]}}),
        );
        self.add(&format!("STRATEGIC @/{min}"), json!({"metadata": {"labels": {"strategic": null}, "$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}));
        self.add(&format!("JSON @/{min}"), json!([{"op": "test", "path": "/kind", "value": self.kind}, {"op": "add", "path": "/metadata/labels/json", "value": "x"}]));
        self.add(
            &format!("JSON @/{min}"),
            json!([{"op": "remove", "path": "/metadata/labels/absent"}]),
        );
        self.add(
            &format!("MERGE @/{min}?fieldValidation=Strict"),
            json!({"nosuch": 1}),
        );
        for patch in &sample.refused {
            self.add(&format!("MERGE @/{whole}?dryRun=All"), patch.clone());
        }
    }

    fn apply(&mut self, full: &Value, sample: &Sample, whole: &str) {
        let mut object = full.clone();
        object["metadata"]["labels"] = json!({"story": "kind", "applied": "one"});
        self.add(&format!("APPLY @/{whole}?fieldManager=one"), object.clone());
        self.add(
            &format!("APPLY @/{whole}?fieldManager=one&force=true"),
            object.clone(),
        );
        let mut other = json!({"apiVersion": self.version, "kind": self.kind, "metadata": {"name": whole, "labels": {"applied": "two"}}});
        merge(&mut other, &sample.change);
        self.add(&format!("APPLY @/{whole}?fieldManager=two"), other.clone());
        other["nosuch"] = json!({});
        self.add(&format!("APPLY @/{whole}?fieldManager=two"), other);
    }

    fn write_status(&mut self, minimum: &Value, status: &Value, min: &str) {
        let mut object = minimum.clone();
        object["status"] = status.clone();
        object["metadata"]["labels"]["ignored"] = "here".into();
        self.add(&format!("PUT @/{min}/status"), object);
        self.add(
            &format!("MERGE @/{min}/status"),
            json!({"metadata": {"annotations": {"by": "status"}}, "status": status}),
        );
        self.add(&format!("MERGE @/{min}"), json!({"status": null}));
        self.add(&format!("GET @/{min} {TABLE}"), Value::Null);
        self.add(
            &format!("MERGE @/{min}/status"),
            json!({"status": {"conditions": 7}}),
        );
    }

    fn refuse(&mut self, minimum: &Value, sample: &Sample) {
        for (index, patch) in sample.invalid.iter().enumerate() {
            let mut object = minimum.clone();
            merge(
                &mut object,
                &json!({"metadata": {"name": format!("invalid-{index}")}}),
            );
            if let Some(own) = sample.minimum["metadata"]["name"].as_str() {
                object["metadata"]["name"] = own.replace("min", "invalid").into();
            }
            merge(&mut object, patch);
            self.add("POST @?dryRun=All", object);
        }
        for validation in ["Strict", "Warn"] {
            let mut object = minimum.clone();
            object["metadata"]["name"] = "unknown".into();
            merge(&mut object, &json!({"nosuch": 1, "spec": {"nosuch": {}}}));
            self.add(
                &format!("POST @?dryRun=All&fieldValidation={validation}"),
                object,
            );
        }
    }

    fn delete(&mut self, min: &str, whole: &str) {
        self.add(
            &format!("DELETE @/{min}"),
            json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        );
        self.add(&format!("DELETE @/{min}?dryRun=All"), Value::Null);
        self.add(
            &format!("DELETE @/{min}?propagationPolicy=Background"),
            Value::Null,
        );
        self.add(&format!("GET @/{min}"), Value::Null);
        self.add(&format!("GET @/{whole}"), Value::Null);
        self.add("DELETE @?labelSelector=story%3Dkind", Value::Null);
        self.add("GET @?labelSelector=story%3Dkind", Value::Null);
    }
}
