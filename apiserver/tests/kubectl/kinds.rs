//! What `kubectl` prints of every kind: one object of each stands in `kinds/`, and a snapshot holds all that is said of it.

use std::{fs, path::Path};

use futures::{StreamExt, stream};
use jiff::Timestamp;

use super::world::World;

/// Kinds that are looked at side by side.
const AT_ONCE: usize = 4;

/// What differs from run to run, and what stands in its place.
const FILTERS: [(&str, &str); 8] = [
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "<uid>",
    ),
    (
        r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20(2[6-9]|[3-9]\d) [\d:]{8} \+0000",
        "<now>",
    ),
    (r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT[\d:]{8}(\.\d+)?Z", "<now>"),
    (r"20(2[6-9]|[3-9]\d)-\d\d-\d\d [\d:]{8} \+0000 UTC", "<now>"),
    (
        r#"(?m)(resourceVersion: |Resource Version: +)"?\d+"?"#,
        "$1<version>",
    ),
    (
        r"(?m)^((---|\+\+\+) ).*/(LIVE|MERGED)-\d+/(\S+)\t.*$",
        "$1$3/$4",
    ),
    ("kube-api-access-[a-z0-9]{5}", "kube-api-access-<any>"),
    (r"(?m)^diff .*/(LIVE)-\d+/\S+ .*$", "diff"),
];

/// Ages of what was made just now, as wide as any age below 100 seconds where it is not the last word of a line.
fn without_ages(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        for index in 0..words.len() {
            let is_age = |word: &str| {
                let digits = word.strip_suffix('s').unwrap_or_default();
                matches!(digits.len(), 1 | 2) && digits.bytes().all(|byte| byte.is_ascii_digit())
            };
            if is_age(&words[index]) {
                let is_last = index + 1 == words.len();
                let blank = if words[index].len() == 3 && !is_last {
                    " "
                } else {
                    ""
                };
                words[index] = format!("0s{blank}");
            }
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

/// Creates all objects, with their statuses.
async fn create(world: &World, manifests: &[(&str, String)]) {
    let documents = |wanted: fn(&str) -> bool| {
        let texts = manifests.iter().map(|(_, text)| text.as_str());
        texts
            .filter(|text| wanted(text))
            .collect::<Vec<_>>()
            .join("\n---\n")
    };
    world.run("create -f -", &documents(|_| true)).await;
    let with_status = documents(|text| text.contains("\nstatus:"));
    world
        .run("replace --subresource=status -f -", &with_status)
        .await;
    // after the status, whose replacement would take away the annotation of `apply`
    world.run("apply -f -", &documents(|_| true)).await;
}

/// All that is said of the kind whose object is `manifest`.
async fn print_all(world: &World, manifest: &str) -> String {
    let head = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().trim().to_owned()
    };
    let (version, kind) = (head("apiVersion:"), head("kind:"));
    let explain = format!("explain {} --api-version={version}", kind.to_lowercase());
    let (get, wide) = (
        world.run("get -f -", manifest).await,
        world.run("get -o wide -f -", manifest).await,
    );
    // kubectl 1.33 describes some kinds in a version that is older than the one that is served, and says so
    let described = world.run_with("describe -f -", manifest).await;
    let described = if described.ok {
        described.out
    } else {
        described.err
    };
    let changed = manifest.replacen("labels: {app: shown", "labels: {app: changed", 1);
    let diff = world.run_with("diff -f -", &changed).await;
    // the API warns of a kind that is deprecated
    let is_warning = |line: &str| line.starts_with("Warning: ");
    assert!(
        !diff.ok && diff.err.lines().all(is_warning),
        "kubectl diff of {kind}: {diff:?}"
    );
    let described: String = described
        .lines()
        .map(|line| if line.starts_with("Age:") { without_ages(line) } else { line.to_owned() } + "\n")
        .collect();
    let parts = [
        ("get", without_ages(&get)),
        ("get -o wide", without_ages(&wide)),
        ("describe", described),
        ("diff", diff.out),
        ("explain", world.kubectl(&explain).await),
    ];
    parts
        .map(|(name, text)| format!("$ kubectl {name}\n{}\n", text.trim_end()))
        .join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_printed() {
    let world = World::new().await;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl/kinds");
    // what holds for a namespace would hold for the pods that stand beside it
    world.kubectl("create namespace apart").await;
    let served = world
        .kubectl("api-resources --verbs=get,list -o name")
        .await;
    let mut served: Vec<_> = served.lines().collect();
    served.sort_unstable();
    let now = Timestamp::now();
    let manifests = served.into_iter().map(|name| {
        let path = directory.join(format!("{name}.yaml"));
        let manifest = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{name} is served, but shown by no object in {path:?}: {error}")
        });
        (name, manifest.replace("NOW", &format!("{now:.6}")))
    });
    let manifests: Vec<_> = manifests.collect();
    create(&world, &manifests).await;
    let all = stream::iter(&manifests)
        .map(async |(name, manifest)| (*name, print_all(&world, manifest).await));
    let all: Vec<_> = all.buffered(AT_ONCE).collect().await;
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("kinds");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, instead) in FILTERS {
        settings.add_filter(pattern, instead);
    }
    settings.bind(|| {
        for (name, text) in all {
            insta::assert_snapshot!(name, text);
        }
    });
}
