//! Answers as YAML.

use serde_json::{Value, json};

use super::world::{MAPS, World};

#[tokio::test]
async fn whoever_asks_for_yaml_has_the_same_objects() {
    let world = World::new().await;
    world
        .create(
            MAPS,
            json!({"metadata": {"name": "a"}, "data": {"k": "yes", "n": "1", "text": "two\nlines"}}),
        )
        .await;
    for path in [
        MAPS.to_owned(),
        format!("{MAPS}/a"),
        "/api/v1".into(),
        "/apis".into(),
        format!("{MAPS}/none"),
    ] {
        let answer = world
            .send(&format!("GET {path} accept:application/yaml"), Value::Null)
            .await;
        assert_eq!(answer.headers["content-type"], "application/yaml", "{path}");
        let text = answer.body.as_str().unwrap();
        let read: Value = serde_saphyr::from_str(text).unwrap();
        let json = world.send(&format!("GET {path}"), Value::Null).await;
        assert_eq!(
            (answer.code, read),
            (json.code, json.body),
            "{path}: {text}"
        );
    }
    let watch = world
        .send(
            &format!("GET {MAPS}?watch=1 accept:application/yaml"),
            Value::Null,
        )
        .await;
    assert_eq!(watch.code, 406);
}
