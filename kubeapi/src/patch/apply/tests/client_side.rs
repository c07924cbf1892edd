//! Objects of client-side apply, which are then applied on the server.

use super::*;

#[test]
fn kubectl_takes_over_what_its_client_applied() {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}});
    let created = || {
        let mut world = World::new(CONFIG_MAP);
        let mut object = last.clone();
        object["metadata"]["annotations"] = json!({LAST: last.to_string()});
        world.update("kubectl-client-side-apply", object);
        world
    };
    let config = || json!({"metadata": {}, "data": {"a": "<2>"}});
    let mut world = created();
    assert!(matches!(
        world.try_apply("other", false, config()),
        Err(PatchError::Conflict { .. })
    ));
    world.try_apply("kubectl", false, config()).unwrap();
    let object = world.object.as_ref().unwrap();
    assert_eq!(object["data"], json!({"a": "<2>", "b": "1"}));
    let expected = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n";
    assert_eq!(object["metadata"]["annotations"][LAST], expected);
    // what somebody has changed since is a conflict
    let mut world = created();
    let mut changed = world.object.clone().unwrap();
    changed["data"]["a"] = json!("3");
    world.update("editor", changed);
    assert!(matches!(
        world.try_apply("kubectl", false, config()),
        Err(PatchError::Conflict { .. })
    ));
}
