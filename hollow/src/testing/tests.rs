//! Tests mistakes in tests, and the errors for them.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

#[tokio::test]
async fn mistakes_are_told_by_what_they_are() {
    let mut cloud = TestCloud::builder()
        .nodes(0)
        .timeout(Duration::from_millis(200))
        .start()
        .await
        .unwrap();
    let refused = async |text: &str| cloud.apply(text).await.unwrap_err();
    assert!(
        matches!(refused("a: [").await, Error::Manifest(why) if why.starts_with("the text is no manifest"))
    );
    let absent = "{apiVersion: a/v1, kind: B, metadata: {name: c}}";
    assert!(
        matches!(refused(absent).await, Error::Manifest(why) if why == "the API serves no B of a/v1")
    );
    let invalid = refused("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}")
        .await
        .to_string();
    assert!(
        invalid.starts_with("Pod a was refused: ") && invalid.contains("containers"),
        "{invalid}"
    );

    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {k: v}}";
    let two = format!("{map}\n---\n{}\n", map.replace("name: m", "name: n"));
    assert_eq!(cloud.apply(&two).await.unwrap().len(), 2);
    let never = |map: Option<&ConfigMap>| map.is_some_and(|map| map.data.is_none());
    let late = cloud.wait(maps.clone(), "m", never).await.unwrap_err();
    assert!(
        matches!(&late, Error::Timeout { last, .. } if last.contains(r#""k":"v""#)),
        "{late}"
    );
    let late = cloud.wait_gone(maps.clone(), "m").await.unwrap_err();
    assert!(
        late.to_string()
            .starts_with("m does not fulfil the condition after 200ms"),
        "{late}"
    );
    let gone = cloud
        .wait(maps.clone(), "o", |map: Option<&ConfigMap>| map.is_none())
        .await
        .unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
    cloud.wait_gone(maps, "o").await.unwrap();
    assert!(matches!(cloud.node("edge-1"), Err(Error::NoNode { .. })));
    let none = cloud
        .run_mapper("edge-1", "virtual", mapper::thermometer::Virtual)
        .unwrap_err();
    assert!(none.to_string().contains("Builder::nodes"), "{none}");
    cloud.stop().await.unwrap();
}
