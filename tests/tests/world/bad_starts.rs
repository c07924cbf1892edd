//! Starts that cannot succeed say why, and what to do.

use std::path::Path;

use cloudsim::{Cloud, Options};
use tests::{World, story};

fn load(directory: &Path, text: &str) -> String {
    let path = directory.join("edgecore.yaml");
    std::fs::write(&path, text).unwrap();
    let error = agent::config::load(&path).unwrap_err();
    story(&error).replace(&directory.to_string_lossy().into_owned(), "DIR")
}

#[tokio::test]
async fn a_busy_port_is_named_with_its_option() {
    let world = World::new(0).await;
    let addresses = world.cloud().addresses();
    let any = || Options::default().any_ports();
    for (options, words) in [
        (
            Options {
                api_port: addresses.api.unwrap().port(),
                ..any()
            },
            ["the API cannot listen", "--api-port"],
        ),
        (
            Options {
                https_port: addresses.https.port(),
                ..any()
            },
            ["the enrolment server cannot listen", "--https-port"],
        ),
        (
            Options {
                ws_port: addresses.websocket.port(),
                ..any()
            },
            ["CloudHub cannot listen", "--ws-port"],
        ),
        (
            Options {
                tunnel_port: addresses.tunnel.map(|address| address.port()),
                ..any()
            },
            [
                "the stream server of nodes' tunnels cannot listen",
                "--tunnel-port",
            ],
        ),
    ] {
        let said = story(&Cloud::start(options).await.expect_err("the port is taken"));
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[tokio::test]
async fn an_unusable_data_directory_is_named_with_its_option() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let options = Options {
        data_dir: Some(file.join("data")),
        ..Options::default().any_ports()
    };
    let said = story(
        &Cloud::start(options)
            .await
            .expect_err("a file is no directory"),
    );
    assert!(
        said.contains("cannot create the data directory")
            && said.contains("file/data; choose a writable one with --data-dir"),
        "{said}"
    );
}

#[test]
fn a_configuration_with_a_typo_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let said = load(
        directory.path(),
        "apiVersion: edgecore.config.kubeedge.io/v1alpha2\nkind: EdgeCore\nmodules: {a\n",
    );
    assert!(
        said.starts_with("DIR/edgecore.yaml is not YAML: line "),
        "{said}"
    );
    let said = load(directory.path(), "kind: EdgeCore\n\tmodules: {}\n");
    assert_eq!(
        said,
        "DIR/edgecore.yaml is not YAML: line 2: a tab in the indentation; indent with spaces"
    );
}

#[test]
fn all_wrong_settings_are_named_together_with_their_paths() {
    let directory = tempfile::tempdir().unwrap();
    let text = "
apiVersion: edgecore.config.kubeedge.io/v1alpha2
kind: EdgeCore
modules:
  edgeHub: {heartbeat: soon, httpServer: 7, token: sesame}
";
    let said = load(directory.path(), text);
    assert!(said.starts_with("DIR/edgecore.yaml has "), "{said}");
    for path in [
        "modules.edgeHub.heartbeat",
        "modules.edgeHub.httpServer",
        "modules.edgeHub.token",
    ] {
        assert!(said.contains(path), "{path} is not in {said}");
    }
    assert!(!said.contains("sesame"), "a token is a secret: {said}");
}

#[test]
fn a_missing_configuration_is_named_with_the_way_to_one() {
    let directory = tempfile::tempdir().unwrap();
    let error = agent::config::load(&directory.path().join("none.yaml"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("edge-agent --minconfig >"), "{error}");
}

#[test]
fn files_that_are_no_edgecore_yaml_are_refused_with_the_cure() {
    let directory = tempfile::tempdir().unwrap();
    let own = "apiVersion: edgecore.config.kubeedge.io/v1alpha2\nkind: EdgeCore\n";
    for (text, part) in [
        (
            "node: edge-1\n",
            "edge-agent --minconfig > DIR/edgecore.yaml",
        ),
        (own, "has no `modules`"),
        ("apiVersion: v1\nkind: Pod\nspec: {}\n", "must be EdgeCore"),
        (
            "apiVersion: cloudcore.config.kubeedge.io/v1alpha2\nkind: CloudCore\nmodules: {}\n",
            "must be edgecore.config.kubeedge.io/v1alpha2",
        ),
    ] {
        let said = load(directory.path(), text);
        assert!(said.contains(part), "{text}: {said}");
    }
    let path = directory.path().join("edgecore.yaml");
    std::fs::write(&path, "modules: {edgeHub: {heartbeat: 10}}\n").unwrap();
    let (_, warnings) = agent::config::load(&path).unwrap();
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "apiVersion: missing; write `apiVersion: edgecore.config.kubeedge.io/v1alpha2`",
            "kind: missing; write `kind: EdgeCore`"
        ]
    );
}
