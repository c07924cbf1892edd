//! Events of both groups are the same objects.

use serde_json::{Value, json};

use super::world::{World, names};

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn new(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "eventTime": "2025-06-01T00:00:00.000000Z", "action": "Binding", "reason": "Scheduled",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "note": "it has a node", "type": "Normal",
        "reportingController": "default-scheduler", "reportingInstance": "here",
    })
}

fn core(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "involvedObject": {"kind": "Node", "name": "n", "namespace": "default"},
        "reason": "Ready", "message": "it is", "source": {"component": "kubelet"}, "count": 3, "type": "Normal",
        "firstTimestamp": "2025-06-01T00:00:00Z", "lastTimestamp": "2025-06-01T00:01:00Z",
    })
}

#[tokio::test]
async fn what_is_written_in_one_group_is_read_in_the_other() {
    let world = World::new().await;
    let expected =
        json!({"apiVersion": "events.k8s.io/v1", "note": "it has a node", "message": null});
    world
        .expect(&format!("POST {NEW}"), new("a"), 201, expected)
        .await;
    let expected = json!({
        "apiVersion": "v1", "message": "it has a node", "involvedObject": {"kind": "Pod"}, "note": null,
        "reportingComponent": "default-scheduler",
    });
    world
        .expect(&format!("GET {CORE}/a"), Value::Null, 200, expected)
        .await;
    world.create(CORE, core("b")).await;
    let expected = json!({
        "note": "it is", "regarding": {"kind": "Node"}, "deprecatedCount": 3, "deprecatedSource": {"component": "kubelet"},
        "deprecatedLastTimestamp": "2025-06-01T00:01:00Z", "message": null, "count": null,
    });
    world
        .expect(&format!("GET {NEW}/b"), Value::Null, 200, expected)
        .await;
    for path in [CORE, NEW] {
        assert_eq!(names(&world.get(path).await), ["a", "b"]);
    }
    // the name is taken in both
    world
        .expect(&format!("POST {CORE}"), core("a"), 409, json!({}))
        .await;
    world
        .expect(&format!("DELETE {NEW}/b"), Value::Null, 200, json!({}))
        .await;
    world
        .expect(&format!("GET {CORE}/b"), Value::Null, 404, json!({}))
        .await;
}

#[tokio::test]
async fn patches_and_selectors_have_the_names_of_their_group() {
    let world = World::new().await;
    world.create(NEW, new("a")).await;
    world.create(CORE, core("b")).await;
    let series = json!({"series": {"count": 2, "lastObservedTime": "2025-06-01T00:00:01.000000Z"}});
    world
        .expect(
            &format!("MERGE {NEW}/a"),
            series,
            200,
            json!({"series": {"count": 2}}),
        )
        .await;
    world
        .expect(
            &format!("GET {CORE}/a"),
            Value::Null,
            200,
            json!({"series": {"count": 2}}),
        )
        .await;
    let mut replaced = new("a");
    replaced["note"] = json!("anew");
    let fixed = json!({"message": "Event \"a\" is invalid: message: Invalid value: \"anew\": field is immutable"});
    world
        .expect(&format!("PUT {NEW}/a"), replaced, 422, fixed)
        .await;
    let selected = async |query: &str| names(&world.get(query).await).join(",");
    assert_eq!(
        selected(&format!("{NEW}?fieldSelector=regarding.kind=Pod")).await,
        "a"
    );
    assert_eq!(
        selected(&format!(
            "{NEW}?fieldSelector=regarding.kind=Node,type=Normal"
        ))
        .await,
        "b"
    );
    assert_eq!(
        selected(&format!("{CORE}?fieldSelector=involvedObject.kind=Pod")).await,
        "a"
    );
    world
        .expect(
            &format!("GET {NEW}?fieldSelector=involvedObject.kind=Pod"),
            Value::Null,
            400,
            json!({}),
        )
        .await;
}

#[tokio::test]
async fn a_watch_tells_of_all_events_in_its_own_group() {
    let world = World::new().await;
    let mut of_core = world.watch(&format!("{CORE}?watch=true")).await;
    let mut of_new = world
        .watch(&format!(
            "{NEW}?watch=true&fieldSelector=regarding.kind=Pod"
        ))
        .await;
    world.create(NEW, new("a")).await;
    world.create(CORE, core("b")).await;
    assert_eq!(of_core.ready(), ["ADDED a", "ADDED b"]);
    let line = of_new.next().await.unwrap();
    assert_eq!(
        (&line["object"]["note"], &line["object"]["kind"]),
        (&json!("it has a node"), &json!("Event"))
    );
    assert!(of_new.ready().is_empty());
}

#[tokio::test]
async fn texts_of_newer_events_have_their_limits() {
    let world = World::new().await;
    let mut long = new("long");
    long["note"] = json!("x".repeat(20_000));
    long["reason"] = json!("r".repeat(129));
    let causes = json!([
        {"field": "reason", "message": "Invalid value: \"\": can have at most 128 characters"},
        {"field": "message", "message": "Invalid value: \"\": can have at most 1024 characters"},
    ]);
    world
        .expect(
            &format!("POST {NEW}"),
            long,
            422,
            json!({"details": {"causes": causes}}),
        )
        .await;
    // those of the older form have none, there as here
    let mut old = core("old");
    old["message"] = json!("x".repeat(20_000));
    world.create(CORE, old).await;
}
