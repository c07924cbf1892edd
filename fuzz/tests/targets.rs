//! Every decoder survives what is fed to it for a moment, the same inputs each time: as many as fit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::{fs, time::Duration};

use fuzz::{TARGETS, campaign, target};

/// So long for each; `make fuzz` takes longer.
const MOMENT: Duration = Duration::from_millis(600);

fn survives(name: &str) {
    let target = target(name).unwrap();
    match campaign(&target, 0, MOMENT) {
        Ok(inputs) => println!("{name}: {inputs} inputs"),
        Err(crash) => {
            let file = std::env::temp_dir().join(format!("{name}-{:x}.bin", crash.seed));
            fs::write(&file, &crash.input).unwrap();
            panic!(
                "{}; `cargo run -p fuzz {name} {}` shows it again",
                crash.why,
                file.display()
            );
        }
    }
}

macro_rules! targets {
    ($($test:ident $name:literal,)*) => {
        $(#[test]
        fn $test() {
            survives($name);
        })*

        #[test]
        fn every_target_has_its_test() {
            let tested = [$($name),*];
            let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(tested.as_slice(), all);
        }
    };
}

targets! {
    json "json",
    frame "frame",
    compression "compression",
    recording "recording",
    comparison "comparison",
    application "application",
    path "path",
    cri "cri",
    join_token "join-token",
    jwt "jwt",
    certificate "certificate",
    request "request",
    key "key",
    edgecore_yaml "edgecore-yaml",
    edgecore_db "edgecore-db",
    store_db "store-db",
    static_pod "static-pod",
    api_json "api-json",
    api_yaml "api-yaml",
    api_protobuf "api-protobuf",
    api_patch "api-patch",
    api_apply "api-apply",
    api_query "api-query",
    api_definition "api-definition",
    mqtt "mqtt",
    dns "dns",
    tunnel "tunnel",
    websocket "websocket",
    spdy "spdy",
}
