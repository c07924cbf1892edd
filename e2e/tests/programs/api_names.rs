//! The names by which pods call the API, in its certificate.

use e2e::Cloud;

#[test]
fn the_api_is_known_by_the_names_and_the_address_of_its_service() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    for name in [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "10.96.0.1",
    ] {
        // verifies the certificate for this name
        cloud
            .kubectl
            .run(&["get", "namespaces", "--tls-server-name", name])?;
    }
    let other = cloud.kubectl.output(&[
        "get",
        "namespaces",
        "--tls-server-name",
        "kubernetes.example.com",
    ])?;
    anyhow::ensure!(
        other.stderr.contains("not kubernetes.example.com"),
        "{other:?}"
    );
    Ok(())
}
