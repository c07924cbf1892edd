//! The table of exchanges: what the real API server answers to which request. Each file in `exchanges/` is a story with an
//! API of its own. A row is request, body, code, what the answer holds, and, where they matter, what its headers are (`~`
//! for none). `$UID`, `$VERSION` and `$CONTINUE` stand for what the newest answer that had them said; the expectations come
//! from Kubernetes' API conventions, its reference, and its behaviour.

use objectstore::MemoryStore;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use super::requests::insert_all;
use super::world::{Issuer, World, lacks, named_map};

/// Fewer would not be the table that is promised.
const AT_LEAST: usize = 150;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    #[expect(dead_code, reason = "for readers")]
    about: String,
    /// Whether roles are in force.
    #[serde(default)]
    rbac: bool,
    rows: Vec<Vec<Value>>,
}

struct Row {
    request: String,
    body: Value,
    code: u16,
    answer: Value,
    headers: BTreeMap<String, Option<String>>,
}

impl Row {
    fn read(cells: Vec<Value>) -> Self {
        let mut cells = cells.into_iter();
        let mut cell = || cells.next().unwrap_or_default();
        let (request, body, code) = (cell(), cell(), cell());
        Self {
            request: request.as_str().unwrap().to_owned(),
            body,
            code: u16::try_from(code.as_u64().unwrap()).unwrap(),
            answer: cell(),
            headers: serde_json::from_value(cell()).unwrap_or_default(),
        }
    }
}

/// What later rows may name.
#[derive(Default)]
struct Known(BTreeMap<&'static str, String>);

impl Known {
    fn learn(&mut self, answer: &Value) {
        let told = [
            ("$UID", "uid"),
            ("$VERSION", "resourceVersion"),
            ("$CONTINUE", "continue"),
        ];
        for (name, field) in told {
            if let Some(value) = answer["metadata"][field].as_str() {
                self.0.insert(name, value.to_owned());
            }
        }
    }

    fn insert(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    }
}

async fn world(rbac: bool) -> World {
    if !rbac {
        return World::new().await;
    }
    let api = apiserver::builder(MemoryStore::new())
        .token_issuer(Arc::new(Issuer))
        .rbac(true)
        .build();
    let world = World::around(api);
    for name in ["default", "other"] {
        world.create("/api/v1/namespaces", named_map(name)).await;
    }
    world
}

/// What the answer to a row says otherwise; `None` where it is as expected.
async fn differs(world: &World, row: &Row, known: &mut Known) -> Option<String> {
    let answer = world
        .send(
            &known.insert(&row.request),
            insert_all(&row.body, &|text| known.insert(text)),
        )
        .await;
    let expected = insert_all(&row.answer, &|text| known.insert(text));
    known.learn(&answer.body);
    if answer.code != row.code {
        return Some(format!("code {}, not {}", answer.code.as_u16(), row.code));
    }
    let headers = row.headers.iter().find_map(|(name, wanted)| {
        let found = answer
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned());
        (&found != wanted).then(|| format!("header {name} is {found:?}, not {wanted:?}"))
    });
    headers
        .or_else(|| lacks(&answer.body, &expected, ""))
        .map(|what| format!("{what}\n    {}", answer.body))
}

#[tokio::test]
async fn every_exchange_is_answered_as_by_the_real_server() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/exchanges");
    let mut files: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort_unstable();
    let (mut count, mut wrong) = (0, Vec::new());
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let story: Story = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let (world, mut known) = (world(story.rbac).await, Known::default());
        known.0.insert("$LARGE", "x".repeat(3 << 20));
        known.0.insert("$DEEP", "[".repeat(100_000));
        known.0.insert("$LONG", "m".repeat(129));
        for (index, cells) in story.rows.into_iter().enumerate() {
            let row = Row::read(cells);
            count += 1;
            if let Some(what) = differs(&world, &row, &mut known).await {
                wrong.push(format!(
                    "{name}, row {}: {}: {what}",
                    index + 1,
                    row.request
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} exchanges differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        count >= AT_LEAST,
        "only {count} exchanges stand in the table"
    );
}
