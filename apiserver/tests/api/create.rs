//! What may be created, and what the server makes of it.

use serde_json::{Value, json};

use super::world::{MAPS, PODS, WIDGETS, World, named_map, names, pod, refusal, version, widget};

#[tokio::test]
async fn the_server_has_its_say() {
    let world = World::new().await;
    let claimed = json!({
        "metadata": {
            "name": "a", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 7,
            "deletionTimestamp": "1999-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3,
        },
        "spec": {"size": 1}, "status": {"ready": true},
    });
    let made = world.create(WIDGETS, claimed).await;
    let metadata = &made["metadata"];
    assert_eq!(
        (&made["kind"], &made["apiVersion"]),
        (&json!("Widget"), &json!("example.com/v1"))
    );
    assert_eq!(
        (&metadata["namespace"], &metadata["generation"]),
        (&json!("default"), &json!(1))
    );
    assert_eq!(version(&made), world.api.store().revision());
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(
        !metadata["creationTimestamp"]
            .as_str()
            .unwrap()
            .starts_with("1999")
    );
    for absent in [
        "/status",
        "/metadata/deletionTimestamp",
        "/metadata/deletionGracePeriodSeconds",
    ] {
        assert_eq!(made.pointer(absent), None, "{absent}");
    }
    assert_eq!(metadata["managedFields"][0]["operation"], "Update");
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await, made);
}

#[tokio::test]
async fn pods_are_defaulted() {
    let world = World::new().await;
    let mut limited = pod("a");
    // requests follow limits, and so does the class
    limited["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": 1, "memory": "1Gi"}});
    let expected = json!({
        "metadata": {"generation": 1},
        "spec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "serviceAccountName": "default",
            "containers": [{"imagePullPolicy": "IfNotPresent", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    });
    world
        .expect(&format!("POST {PODS}"), limited, 201, expected)
        .await;
    let mut begun = pod("b");
    begun["status"] = json!({"phase": "Running"});
    let expected = json!({"status": {"phase": "Pending", "qosClass": "BestEffort"}});
    world
        .expect(&format!("POST {PODS}"), begun, 201, expected)
        .await;
    // kubelets register their nodes with a status
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}});
    world
        .expect(
            "POST /api/v1/nodes",
            node,
            201,
            json!({"status": {"allocatable": {"cpu": "2"}}}),
        )
        .await;
}

#[tokio::test]
async fn names_can_be_generated() {
    let world = World::new().await;
    let object = json!({"metadata": {"generateName": "job-"}});
    for _ in 0..2 {
        let made = world.create(MAPS, object.clone()).await;
        let suffix = made["metadata"]["name"]
            .as_str()
            .unwrap()
            .strip_prefix("job-")
            .unwrap();
        assert!(
            suffix.len() == 5
                && suffix
                    .bytes()
                    .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
        );
        assert_eq!(made["metadata"]["generateName"], "job-");
    }
    let long = json!({"metadata": {"generateName": "x".repeat(80)}});
    assert_eq!(
        world.create(MAPS, long).await["metadata"]["name"]
            .as_str()
            .unwrap()
            .len(),
        63
    );
    // a name of one's own goes before
    let both = json!({"metadata": {"generateName": "job-", "name": "mine"}});
    world
        .expect(&format!("POST {MAPS}"), both, 201, named_map("mine"))
        .await;
}

#[tokio::test]
async fn what_is_made_of_a_name_is_made_of_the_generated_one() {
    let world = World::new().await;
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"generateName": "pi-"}, "spec": {"template": template}});
    let made = world
        .create("/apis/batch/v1/namespaces/default/jobs", job)
        .await;
    let label = &made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"];
    assert!(
        made["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("pi-")
    );
    assert_eq!(*label, made["metadata"]["name"]);
    let namespace = world
        .create(
            "/api/v1/namespaces",
            json!({"metadata": {"generateName": "team-"}}),
        )
        .await;
    let label = &namespace["metadata"]["labels"]["kubernetes.io/metadata.name"];
    assert_eq!(*label, namespace["metadata"]["name"]);
}

#[tokio::test]
async fn what_cannot_be_created_is_refused() {
    let world = World::new().await;
    world.create(MAPS, named_map("taken")).await;
    let held = json!({"metadata": {"name": "ending", "finalizers": ["x/y"]}});
    world.create("/api/v1/namespaces", held).await;
    let terminating = json!({"status": {"phase": "Terminating"}});
    world
        .expect(
            "DELETE /api/v1/namespaces/ending",
            Value::Null,
            200,
            terminating,
        )
        .await;

    let create = format!("POST {MAPS}");
    let ending = "unable to create new content in namespace ending because it is being terminated";
    let other_namespace =
        "the namespace of the provided object does not match the namespace sent on the request";
    let exists = json!({
        "reason": "AlreadyExists", "message": "configmaps \"taken\" already exists",
        "details": {"name": "taken", "kind": "configmaps"},
    });
    let absent = json!({
        "reason": "NotFound", "message": "namespaces \"absent\" not found",
        "details": {"name": "absent", "kind": "namespaces"},
    });
    let no_name = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    let versioned = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    world
        .expect_all(vec![
            (&create, named_map("taken"), 409, exists.clone()),
            (&format!("{create}?dryRun=All"), named_map("taken"), 409, exists),
            ("POST /api/v1/namespaces/absent/configmaps", named_map("a"), 404, absent),
            (
                "POST /api/v1/namespaces/ending/configmaps",
                named_map("a"),
                403,
                json!({
                    "reason": "Forbidden", "message": format!("configmaps \"a\" is forbidden: {ending}"),
                    "details": {"causes": [{"reason": "NamespaceTerminating"}]},
                }),
            ),
            (&create, json!({}), 422, refusal("Invalid", no_name)),
            (
                &create,
                named_map("No"),
                422,
                json!({"reason": "Invalid", "details": {"name": "No", "causes": [{"field": "metadata.name"}]}}),
            ),
            (
                &create,
                versioned,
                400,
                refusal("BadRequest", "resourceVersion should not be set on objects to be created"),
            ),
            (
                &create,
                json!({"metadata": {"name": "a", "namespace": "other"}}),
                400,
                refusal("BadRequest", other_namespace),
            ),
            (&create, json!({"kind": "Secret", "metadata": {"name": "a"}}), 400, json!({"reason": "BadRequest"})),
            (&create, json!({"apiVersion": "v2", "metadata": {"name": "a"}}), 400, json!({"reason": "BadRequest"})),
            (&create, json!({"metadata": {"name": "a"}, "data": {"n": 1}}), 400, json!({"reason": "BadRequest"})),
            (&format!("POST {PODS}"), named_map("a"), 422, json!({"reason": "Invalid"})),
            (&format!("POST {WIDGETS}"), widget("a", 0), 422, json!({"reason": "Invalid"})),
            (
                &format!("{create}?dryRun=Some"),
                named_map("a"),
                422,
                refusal(
                    "Invalid",
                    "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
                ),
            ),
            (&format!("{create}?fieldValidation=No"), named_map("a"), 422, json!({"reason": "Invalid"})),
            (&format!("{create}?fieldManager={}", "x".repeat(129)), named_map("a"), 422, json!({"reason": "Invalid"})),
        ])
        .await;
    assert_eq!(names(&world.get("/api/v1/configmaps").await), ["taken"]);
}

#[tokio::test]
async fn unknown_fields_are_told_of() {
    let world = World::new().await;
    let typo =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"size": 1, "colour": "red"}});
    let create = format!("POST {WIDGETS}");
    let strict = json!({
        "reason": "BadRequest",
        "message": "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.colour\"",
    });
    world
        .expect(
            &format!("{create}?fieldValidation=Strict"),
            typo("a"),
            400,
            strict,
        )
        .await;
    for (name, query, warnings) in [
        ("a", "?fieldValidation=Warn", 1),
        ("b", "", 1),
        ("c", "?fieldValidation=Ignore", 0),
    ] {
        let answer = world.send(&format!("{create}{query}"), typo(name)).await;
        assert_eq!(
            (answer.code.as_u16(), &answer.body["spec"]),
            (201, &json!({"size": 1}))
        );
        let found: Vec<_> = answer.headers.get_all("warning").iter().collect();
        assert_eq!(found.len(), warnings, "{query}");
        assert!(
            found
                .iter()
                .all(|warning| *warning == "299 - \"unknown field \\\"spec.colour\\\"\"")
        );
    }
    let patch = format!("MERGE {WIDGETS}/a?fieldValidation=Strict");
    world
        .expect(
            &patch,
            json!({"spec": {"colour": "red"}}),
            422,
            json!({"reason": "Invalid"}),
        )
        .await;
}

#[tokio::test]
async fn a_dry_run_leaves_nothing() {
    let world = World::new().await;
    let made = world
        .expect(&format!("POST {PODS}?dryRun=All"), pod("a"), 201, json!({}))
        .await;
    assert_eq!(
        (
            &made["status"]["phase"],
            &made["metadata"]["resourceVersion"]
        ),
        (&json!("Pending"), &Value::Null)
    );
    world
        .expect(&format!("GET {PODS}/a"), Value::Null, 404, json!({}))
        .await;
    let made = world.create(MAPS, named_map("b")).await;
    let before = world.api.store().revision();
    world
        .expect_all(vec![
            (
                &format!("PUT {MAPS}/b?dryRun=All"),
                json!({"metadata": {"name": "b"}, "data": {"a": "b"}}),
                200,
                json!({"data": {"a": "b"}}),
            ),
            (
                &format!("MERGE {MAPS}/b?dryRun=All"),
                json!({"data": {"a": "b"}}),
                200,
                json!({"data": {"a": "b"}}),
            ),
            (
                &format!("APPLY {MAPS}/c?dryRun=All&fieldManager=m"),
                json!({"apiVersion": "v1", "kind": "ConfigMap"}),
                201,
                named_map("c"),
            ),
            (
                &format!("DELETE {MAPS}/b?dryRun=All"),
                Value::Null,
                200,
                json!({"status": "Success"}),
            ),
            (
                &format!("DELETE {MAPS}/b"),
                json!({"dryRun": ["All"]}),
                200,
                json!({"status": "Success"}),
            ),
            (
                &format!("DELETE {MAPS}?dryRun=All"),
                Value::Null,
                200,
                json!({"items": [named_map("b")]}),
            ),
        ])
        .await;
    assert_eq!(
        (
            world.api.store().revision(),
            world.get(&format!("{MAPS}/b")).await
        ),
        (before, made)
    );
}

#[tokio::test]
async fn a_pod_has_the_priority_of_its_class() {
    const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let world = World::new().await;
    let with = |name: &str, given: Value| {
        let mut pod = pod(name);
        for (field, value) in given.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let plain = world.create(PODS, pod("plain")).await;
    assert_eq!(plain["spec"]["priority"], 0);
    let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    world.create(CLASSES, class).await;
    let high = world
        .create(PODS, with("high", json!({"priorityClassName": "high"})))
        .await;
    assert_eq!(
        (&high["spec"]["priority"], &high["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    let critical = world
        .create(
            PODS,
            with(
                "critical",
                json!({"priorityClassName": "system-node-critical"}),
            ),
        )
        .await;
    assert_eq!(critical["spec"]["priority"], 2_000_001_000);
    let why = "pods \"lost\" is forbidden: no PriorityClass with name none was found";
    let lost = with("lost", json!({"priorityClassName": "none"}));
    world
        .expect(
            &format!("POST {PODS}"),
            lost,
            403,
            refusal("Forbidden", why),
        )
        .await;
    let why = "pods \"wrong\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority \
               admission controller computed 1000 from the given PriorityClass name";
    let wrong = with("wrong", json!({"priorityClassName": "high", "priority": 5}));
    world
        .expect(
            &format!("POST {PODS}"),
            wrong,
            403,
            refusal("Forbidden", why),
        )
        .await;
    world
        .create(
            CLASSES,
            json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true}),
        )
        .await;
    let usual = world.create(PODS, pod("usual")).await;
    assert_eq!(
        (
            &usual["spec"]["priority"],
            &usual["spec"]["priorityClassName"]
        ),
        (&json!(7), &json!("usual"))
    );
}

/// Answers that a kube-apiserver 1.36 gave to the same bodies.
#[tokio::test]
async fn new_objects_are_answered_in_the_words_of_the_api_server() {
    const RANGES: &str = "/api/v1/namespaces/default/limitranges";
    let world = World::new().await;
    let replica_set = "ReplicaSet.apps \"x\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: \
                       null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]";
    let event = "Event \"\" is invalid: [metadata.name: Required value: name or generateName is required, eventTime: Required \
                 value, type: Invalid value: \"\": has invalid value: ]";
    let definition = json!({"message": "CustomResourceDefinition.apiextensions.k8s.io \"x\" is invalid: [metadata.name: Invalid value: \
                       \"x\": must be spec.names.plural+\".\"+spec.group, metadata.labels: Invalid value: \"-\": a valid label must be an \
                       empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                       character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                       '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'), spec.group: Required value, spec.scope: Required value, \
                       spec.versions: Invalid value: null: must have exactly one version marked as storage version, spec.names.plural: \
                       Required value, spec.names.singular: Required value, spec.names.kind: Required value, spec.names.listKind: \
                       Required value, status.storedVersions: Invalid value: null: must have at least one stored version]"});
    let kept = json!({"spec": {"finalizers": ["example.com/a", "kubernetes"]}});
    world
        .expect_all(vec![
            (
                "POST /apis/apps/v1/namespaces/default/replicasets?dryRun=All",
                named_map("x"),
                422,
                refusal("Invalid", replica_set),
            ),
            (
                "POST /apis/events.k8s.io/v1/namespaces/default/events?dryRun=All",
                json!({}),
                422,
                refusal("Invalid", event),
            ),
            (
                "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All",
                json!({"metadata": {"name": "x", "labels": {"a": "-"}}}),
                422,
                definition,
            ),
            (
                "POST /apis/policy/v1/namespaces/default/poddisruptionbudgets?dryRun=All",
                named_map("A_b"),
                201,
                named_map("A_b"),
            ),
            (
                "POST /api/v1/namespaces?dryRun=All",
                json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/a"]}}),
                201,
                kept,
            ),
        ])
        .await;
    let made = world.create(RANGES, json!({})).await;
    assert_eq!(made["metadata"]["name"].as_str().unwrap().len(), 36);
}
