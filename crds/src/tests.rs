//! Checks that the definitions are valid, that their files are fresh, and that objects in manifests survive a round trip.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::*;

fn file_of(crd: &CustomResourceDefinition) -> PathBuf {
    let name = format!(
        "{}_{}.yaml",
        crd.spec.group.split('.').next().unwrap(),
        crd.spec.names.plural
    );
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("yaml")
        .join(name)
}

#[test]
fn yaml_is_fresh() {
    let update = std::env::var_os("UPDATE_YAML").is_some();
    for crd in all() {
        let (file, yaml) = (file_of(&crd), to_yaml(&crd).unwrap());
        if update {
            fs::write(&file, &yaml).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == yaml,
            "{} is old: UPDATE_YAML=1 cargo test -p crds",
            file.display()
        );
    }
    let known: BTreeSet<_> = all().iter().map(file_of).collect();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("yaml");
    let found: BTreeSet<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(found, known, "no other file is there");
}

#[test]
fn yaml_reads_back_as_the_same_definition() {
    for crd in all() {
        let back: CustomResourceDefinition =
            serde_saphyr::from_str(&to_yaml(&crd).unwrap()).unwrap();
        assert_eq!(back, crd);
    }
}

#[test]
fn each_definition_is_as_kubeedge_has_it() {
    let lines: Vec<String> = all()
        .iter()
        .map(|crd| {
            let version = crd.spec.versions.first().unwrap();
            assert!(version.served && version.storage, "{}", version.name);
            let older: Vec<_> = crd.spec.versions[1..]
                .iter()
                .map(|version| version.name.as_str())
                .collect();
            assert!(
                crd.spec.versions[1..]
                    .iter()
                    .all(|version| version.served && !version.storage)
            );
            let status = if version.subresources.is_some() {
                "status"
            } else {
                "-"
            };
            let short = crd
                .spec
                .names
                .short_names
                .clone()
                .unwrap_or_default()
                .join(",");
            let name = crd.metadata.name.clone().unwrap();
            let (kind, scope) = (&crd.spec.names.kind, &crd.spec.scope);
            let versions = [[version.name.as_str()].as_slice(), &older]
                .concat()
                .join(",");
            format!("{name} {versions} {kind} {scope} {status} {short}")
        })
        .collect();
    let expected = "\
edgeapplications.apps.kubeedge.io v1alpha1 EdgeApplication Namespaced status eapp
nodegroups.apps.kubeedge.io v1alpha1 NodeGroup Cluster status ng
devices.devices.kubeedge.io v1beta1,v1alpha2 Device Namespaced - \n\
devicemodels.devices.kubeedge.io v1beta1,v1alpha2 DeviceModel Namespaced - \n\
devicestatuses.devices.kubeedge.io v1beta1,v1alpha2 DeviceStatus Namespaced - \n\
configupdatejobs.operations.kubeedge.io v1alpha2 ConfigUpdateJob Cluster status \n\
imageprepulljobs.operations.kubeedge.io v1alpha2,v1alpha1 ImagePrePullJob Cluster status \n\
nodeupgradejobs.operations.kubeedge.io v1alpha2,v1alpha1 NodeUpgradeJob Cluster status \n\
serviceaccountaccesses.policy.kubeedge.io v1alpha1 ServiceAccountAccess Namespaced status saaccess
clusterobjectsyncs.reliablesyncs.kubeedge.io v1alpha1 ClusterObjectSync Cluster status \n\
objectsyncs.reliablesyncs.kubeedge.io v1alpha1 ObjectSync Namespaced status \n\
rules.rules.kubeedge.io v1 Rule Namespaced - \n\
ruleendpoints.rules.kubeedge.io v1 RuleEndpoint Namespaced - re";
    assert_eq!(lines.join("\n"), expected);
}

/// Checks an API server's demands on a structural schema: a type everywhere, except for int-or-string and open values.
fn structural(path: &str, schema: &JSONSchemaProps) {
    let open = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    assert!(
        schema.type_.is_some() || open || schema.x_kubernetes_int_or_string == Some(true),
        "{path} has no type"
    );
    assert!(schema.ref_path.is_none(), "{path} is a reference");
    for (key, below) in schema.properties.iter().flatten() {
        structural(&format!("{path}.{key}"), below);
    }
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };
    if let Some(JSONSchemaPropsOrArray::Schema(below)) = &schema.items {
        structural(&format!("{path}[]"), below);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(below)) = &schema.additional_properties {
        structural(&format!("{path}{{}}"), below);
    }
}

#[test]
fn schemas_are_structural_and_documented() {
    for crd in all() {
        for version in &crd.spec.versions {
            let schema = version
                .schema
                .as_ref()
                .and_then(|schema| schema.open_api_v3_schema.as_ref())
                .unwrap();
            structural(&crd.spec.names.kind, schema);
            assert!(
                schema.description.is_some(),
                "{} is not described",
                crd.spec.names.kind
            );
        }
    }
}

fn round_trip<K: DeserializeOwned + Serialize>(text: &str) {
    let written: Value = serde_saphyr::from_str(text).unwrap();
    let object: K =
        serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(
        serde_json::to_value(object).unwrap(),
        written,
        "nothing is lost, added or renamed"
    );
}

#[test]
fn objects_survive() {
    let samples = include_str!("tests/samples.yaml");
    let mut seen = BTreeSet::new();
    for text in samples
        .split("---\n")
        .filter(|text| !text.trim_start_matches('\n').starts_with('#'))
    {
        let kind = text
            .lines()
            .find_map(|line| line.strip_prefix("kind: "))
            .unwrap();
        seen.insert(kind.to_owned());
        match kind {
            "EdgeApplication" => round_trip::<apps::EdgeApplication>(text),
            "NodeGroup" => round_trip::<apps::NodeGroup>(text),
            "Device" => round_trip::<devices::Device>(text),
            "DeviceModel" => round_trip::<devices::DeviceModel>(text),
            "DeviceStatus" => round_trip::<devices::DeviceStatus>(text),
            "ConfigUpdateJob" => round_trip::<operations::ConfigUpdateJob>(text),
            "ImagePrePullJob" => round_trip::<operations::ImagePrePullJob>(text),
            "NodeUpgradeJob" => round_trip::<operations::NodeUpgradeJob>(text),
            "ServiceAccountAccess" => round_trip::<policy::ServiceAccountAccess>(text),
            "ClusterObjectSync" => round_trip::<reliablesyncs::ClusterObjectSync>(text),
            "ObjectSync" => round_trip::<reliablesyncs::ObjectSync>(text),
            "Rule" => round_trip::<rules::Rule>(text),
            "RuleEndpoint" => round_trip::<rules::RuleEndpoint>(text),
            other => panic!("no type for {other}"),
        }
    }
    assert_eq!(seen.len(), all().len(), "each kind has a sample");
}

#[test]
fn wrong_objects_are_refused() {
    let refused = [
        serde_json::from_str::<rules::RuleEndpoint>(
            r#"{"metadata": {}, "spec": {"ruleEndpointType": "pigeon"}}"#,
        )
        .err(),
        serde_json::from_str::<rules::RuleEndpoint>(r#"{"metadata": {}, "spec": {}}"#).err(),
    ];
    assert!(refused.iter().all(Option::is_some));
}

#[test]
fn settings_of_which_only_comments_are_left_are_none() {
    let text = "\
metadata: {name: d}
spec:
  protocol:
    protocolName: virtual
    configData:
      # ip: 192.0.2.1
  properties:
  - name: t
    visitors:
      configData: null
";
    let device: devices::Device = serde_json::from_value({
        let mut written: Value = serde_saphyr::from_str(text).unwrap();
        written["apiVersion"] = "devices.kubeedge.io/v1beta1".into();
        written["kind"] = "Device".into();
        written
    })
    .unwrap();
    assert!(device.spec.protocol.unwrap().config_data.is_empty());
    assert!(
        device.spec.properties[0]
            .visitors
            .as_ref()
            .unwrap()
            .config_data
            .is_empty()
    );
}
