//! Checks which right a request needs.

use tests::right_of;

#[test]
fn requests_are_calls() {
    let told = |method: &str, path: &str, query: &str| {
        let call = right_of(&method.parse().unwrap(), path, query)?;
        Some(format!(
            "{} {} {} {}",
            call.verb, call.resource, call.group, call.namespace
        ))
    };
    for (method, path, query, expected) in [
        ("GET", "/api/v1/pods", "watch=true&x=1", "watch pods  "),
        ("GET", "/api/v1/pods", "limit=500", "list pods  "),
        (
            "PATCH",
            "/api/v1/nodes/edge-1/status",
            "",
            "patch nodes/status  ",
        ),
        ("GET", "/api/v1/namespaces/kubeedge", "", "get namespaces  "),
        (
            "POST",
            "/api/v1/namespaces/ns/serviceaccounts/a/token",
            "",
            "create serviceaccounts/token  ns",
        ),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l",
            "",
            "update leases coordination.k8s.io ns",
        ),
    ] {
        assert_eq!(
            told(method, path, query).as_deref(),
            Some(expected),
            "{method} {path}"
        );
    }
    assert_eq!(told("GET", "/version", ""), None);
    assert_eq!(told("GET", "/apis/apps/v1", ""), None);
}
