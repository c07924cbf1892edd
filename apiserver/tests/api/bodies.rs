//! Bodies that are not what the path takes: reviews, subresources and options refuse another kind, version or field as objects do.

use serde_json::{Value, json};

use super::world::{MAPS, PODS, WIDGETS, World, named_map, pod, refusal, widget};

/// A request whose body has this kind and `apiVersion`, and its fields.
struct Place {
    request: &'static str,
    kind: &'static str,
    api_version: &'static str,
    body: Value,
    code: u16,
}

fn place(
    request: &'static str,
    kind: &'static str,
    api_version: &'static str,
    body: Value,
    code: u16,
) -> Place {
    Place {
        request,
        kind,
        api_version,
        body,
        code,
    }
}

/// One place for each type that no collection stores, and two for those that one does.
fn places() -> Vec<Place> {
    const AUTHENTICATION: &str = "authentication.k8s.io/v1";
    const AUTHORIZATION: &str = "authorization.k8s.io/v1";
    let resource = || json!({"verb": "get", "resource": "pods"});
    let subject = || json!({"spec": {"user": "a", "resourceAttributes": resource()}});
    let local = json!({"spec": {"user": "a", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}});
    vec![
        place(
            "POST /api/v1/namespaces/default/configmaps",
            "ConfigMap",
            "v1",
            named_map("x"),
            201,
        ),
        place(
            "PUT /api/v1/namespaces/default/configmaps/m",
            "ConfigMap",
            "v1",
            json!({"metadata": {"name": "m"}}),
            200,
        ),
        place(
            "POST /apis/authentication.k8s.io/v1/tokenreviews",
            "TokenReview",
            AUTHENTICATION,
            json!({"spec": {"token": "x"}}),
            201,
        ),
        place(
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
            "SelfSubjectReview",
            AUTHENTICATION,
            json!({}),
            201,
        ),
        place(
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
            "SubjectAccessReview",
            AUTHORIZATION,
            subject(),
            201,
        ),
        place(
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            AUTHORIZATION,
            json!({"spec": {"resourceAttributes": resource()}}),
            201,
        ),
        place(
            "POST /apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            AUTHORIZATION,
            local,
            201,
        ),
        place(
            "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            AUTHORIZATION,
            json!({"spec": {"namespace": "default"}}),
            201,
        ),
        place(
            "POST /api/v1/namespaces/default/serviceaccounts/s/token",
            "TokenRequest",
            AUTHENTICATION,
            json!({"spec": {}}),
            201,
        ),
        place(
            "PUT /apis/apps/v1/namespaces/default/deployments/d/scale",
            "Scale",
            "autoscaling/v1",
            json!({"metadata": {"name": "d"}, "spec": {"replicas": 2}}),
            200,
        ),
        place(
            "POST /api/v1/namespaces/default/pods/p/binding",
            "Binding",
            "v1",
            json!({"metadata": {"name": "p"}, "target": {"name": "n"}}),
            201,
        ),
        place(
            "POST /api/v1/namespaces/default/pods/p/eviction",
            "Eviction",
            "policy/v1",
            named_map("p"),
            201,
        ),
        place(
            "DELETE /api/v1/namespaces/default/configmaps/m",
            "DeleteOptions",
            "v1",
            json!({}),
            200,
        ),
    ]
}

async fn world() -> World {
    let world = World::new().await;
    world.create(MAPS, named_map("m")).await;
    world.create(PODS, pod("p")).await;
    world
        .create("/api/v1/namespaces/default/serviceaccounts", named_map("s"))
        .await;
    let labels = json!({"app": "d"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod("x")["spec"]});
    let deployment = json!({
        "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    world
        .create("/apis/apps/v1/namespaces/default/deployments", deployment)
        .await;
    world
}

#[tokio::test]
async fn bodies_of_another_type_are_refused() {
    let world = world().await;
    for Place {
        request,
        kind,
        api_version,
        body,
        code,
    } in places()
    {
        let typed = |version: &str, kind: &str| {
            let mut body = body.clone();
            body["apiVersion"] = json!(version);
            body["kind"] = json!(kind);
            body
        };
        let unreadable = |why: &str| refusal("BadRequest", why);
        let unknown = format!(
            "Nosuch in version \"v1\" cannot be handled as a {kind}: no kind \"Nosuch\" is registered for version \"{api_version}\""
        );
        world
            .expect(
                request,
                typed(api_version, "Nosuch"),
                400,
                unreadable(&unknown),
            )
            .await;
        let another = "Pod in version \"v1\" cannot be handled as a";
        let answer = world.send(request, typed("v1", "Pod")).await;
        assert_eq!(answer.code, 400, "{request}: {}", answer.body);
        assert!(
            answer.body["message"]
                .as_str()
                .unwrap()
                .starts_with(another),
            "{}",
            answer.body
        );
        if kind != "DeleteOptions" {
            let version = format!(
                "{kind} in version \"v9\" cannot be handled as a {kind}: no kind \"{kind}\" is registered for version \"v9\""
            );
            world
                .expect(request, typed("v9", kind), 400, unreadable(&version))
                .await;
        }
        let mut open = typed(api_version, kind);
        open["nosuch"] = json!(1);
        let strict = format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: strict decoding error: unknown field \"nosuch\""
        );
        let strictly = format!("{request}?fieldValidation=Strict");
        world
            .expect(&strictly, open.clone(), 400, unreadable(&strict))
            .await;
        for (text, shown) in [
            ("{", "{"),
            ("[1]", "5b315d"),
            (
                "{\"kind\":\"aaaaaaaaaaaaaaaaaaaaaaaa",
                "{\"kind\":\"aaaaaaaaaaaaaaaaaaaaa ...",
            ),
        ] {
            let answer = world.send(request, text.into()).await;
            let message = answer.body["message"].as_str().unwrap().to_owned();
            let begins = format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
            );
            assert_eq!(answer.code, 400, "{request}: {text}");
            assert!(
                message.starts_with(&begins) && message.ends_with(&format!(" ({shown})")),
                "{message}"
            );
        }
        // what is wrong only by a field is taken with a warning
        let answer = world.send(&format!("{request}?dryRun=All"), open).await;
        assert_eq!(answer.code, code, "{request}: {}", answer.body);
        let warnings = answer.headers.get_all("warning");
        assert!(
            warnings.iter().any(|warning| warning
                .to_str()
                .unwrap()
                .contains("unknown field \\\"nosuch\\\"")),
            "{request}: {warnings:?}"
        );
    }
}

#[tokio::test]
async fn bodies_without_a_type_are_of_that_of_the_path() {
    let world = world().await;
    for Place {
        request,
        body,
        code,
        ..
    } in places()
    {
        world
            .expect(&format!("{request}?dryRun=All"), body, code, json!({}))
            .await;
    }
    // an older version of an eviction has the same fields, and options are part of every group
    let eviction =
        json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}});
    world
        .expect(
            &format!("POST {PODS}/p/eviction?dryRun=All"),
            eviction,
            201,
            json!({}),
        )
        .await;
    let options = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions"});
    world
        .expect(
            &format!("DELETE {MAPS}/m?dryRun=All"),
            options,
            200,
            json!({}),
        )
        .await;
}

#[tokio::test]
async fn the_kind_of_a_defined_object_is_that_of_its_definition() {
    let world = World::new().await;
    let typed = |kind: &str, version: &str| {
        let mut object = widget("w", 1);
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(version);
        object
    };
    let request = format!("POST {WIDGETS}");
    let kind =
        "Widget.example.com \"w\" is invalid: kind: Invalid value: \"Gadget\": must be Widget";
    world
        .expect(
            &request,
            typed("Gadget", "example.com/v1"),
            422,
            refusal("Invalid", kind),
        )
        .await;
    let version = "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)";
    world
        .expect(
            &request,
            typed("Widget", "example.com/v2"),
            400,
            refusal("BadRequest", version),
        )
        .await;
}

#[tokio::test]
async fn access_reviews_are_checked_as_the_api_server_does() {
    let world = World::new().await;
    let path = "POST /apis/authorization.k8s.io/v1";
    let one = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let user = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
    let invalid = |why: &str| {
        refusal(
            "Invalid",
            &format!(".authorization.k8s.io \"\" is invalid: {why}"),
        )
    };
    let local = format!("{path}/namespaces/default/localsubjectaccessreviews");
    let of_path =
        json!({"spec": {"user": "a", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    world
        .expect_all(vec![
            (&format!("{path}/subjectaccessreviews"), json!({}), 422, invalid(&format!("[{one}, {user}]"))),
            (&format!("{path}/selfsubjectaccessreviews"), json!({}), 422, invalid(one)),
            (
                &format!("{path}/selfsubjectaccessreviews"),
                named_map("x"),
                422,
                invalid(&format!("[{one}, metadata: Invalid value: {{\"name\":\"x\"}}: must be empty]")),
            ),
            (
                &local,
                json!({"metadata": {"namespace": "other"}}),
                400,
                refusal(
                    "BadRequest",
                    "the namespace of the provided object does not match the namespace sent on the request",
                ),
            ),
            (
                &local,
                of_path,
                422,
                invalid(
                    "spec.nonResourceAttributes: Invalid value: {\"path\":\"/\",\"verb\":\"get\"}: disallowed on this kind of request",
                ),
            ),
            (
                "POST /apis/authentication.k8s.io/v1/tokenreviews",
                json!({}),
                400,
                refusal("BadRequest", "token is required for TokenReview in authentication"),
            ),
            (
                "POST /apis/authentication.k8s.io/v1/tokenreviews?dryRun=Some",
                json!({}),
                422,
                refusal(
                    "Invalid",
                    "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
                ),
            ),
        ])
        .await;
}

#[tokio::test]
async fn a_dry_run_takes_a_resource_version() {
    let world = World::new().await;
    let versioned = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    world
        .expect(
            &format!("POST {MAPS}?dryRun=All"),
            versioned.clone(),
            201,
            json!({}),
        )
        .await;
    let why = "resourceVersion should not be set on objects to be created";
    world
        .expect(
            &format!("POST {MAPS}"),
            versioned,
            400,
            refusal("BadRequest", why),
        )
        .await;
}

#[tokio::test]
async fn an_apply_of_another_type_is_refused() {
    let world = World::new().await;
    let request = format!("APPLY {MAPS}/a?fieldManager=t");
    for (body, found) in [
        (json!({}), "/, Kind="),
        (
            json!({"apiVersion": "v1", "kind": "Secret"}),
            "/v1, Kind=Secret",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "ConfigMap"}),
            "apps/v1, Kind=ConfigMap",
        ),
        // whatever its fields are
        (
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {}}),
            "/v1, Kind=Pod",
        ),
    ] {
        let why = format!("invalid object type: {found}");
        world
            .expect(&request, body, 400, refusal("BadRequest", &why))
            .await;
    }
}

#[tokio::test]
async fn a_name_with_an_escaped_slash_is_a_path() {
    let world = World::new().await;
    let gone = refusal(
        "NotFound",
        "the server could not find the requested resource",
    );
    world
        .expect(&format!("GET {MAPS}/a%2Fb"), Value::Null, 404, gone)
        .await;
}
