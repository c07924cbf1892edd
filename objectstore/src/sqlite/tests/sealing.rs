//! A file whose Secrets are encrypted.

use std::{os::unix::fs::PermissionsExt, path::Path};

use serde_json::json;

use super::*;
use crate::{
    Expect, Resource,
    suite::{commit, pod, put},
};

const PLAIN: &str = "open sesame";

fn secret(name: &str) -> Write {
    put(Key::new(Resource::new("", "secrets"), "a", name), PLAIN)
}

/// A key file in the folder with these keys.
fn options(directory: &Path, keys: &[&str]) -> SqliteOptions {
    let path = directory.join("key");
    std::fs::write(&path, keys.join("\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let seal = Seal::from_file(&path, vec![Resource::new("", "secrets")]).unwrap();
    SqliteOptions {
        seal: Some(seal),
        ..SqliteOptions::default()
    }
}

/// In how many files of the folder the plain text stands.
fn plain_files(directory: &Path) -> usize {
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    files
        .filter(|bytes| {
            bytes
                .windows(PLAIN.len())
                .any(|part| part == PLAIN.as_bytes())
        })
        .count()
}

async fn read(store: &SqliteStore, name: &str) -> String {
    let object = store
        .get(&Key::new(Resource::new("", "secrets"), "a", name))
        .await
        .unwrap()
        .unwrap();
    object.value().unwrap()["note"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_secret_is_on_the_disk_in_plain_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let options = options(dir.path(), &[&Seal::new_key().unwrap()]);
    let store = SqliteStore::open_with(&path, options.clone())
        .await
        .unwrap();
    let scope = Scope {
        resource: Resource::new("", "secrets"),
        namespace: None,
    };
    let mut watch = store.watch(scope.clone(), store.revision()).unwrap();
    let written = commit(&*store, secret("x")).await;
    for number in 0..50 {
        let update = Write {
            expect: Expect::Anything,
            ..secret("x")
        };
        store
            .commit(vec![
                update,
                secret(&format!("s-{number}")),
                put(pod("a", "p"), "in the open"),
            ])
            .await
            .unwrap();
        assert_eq!(plain_files(dir.path()), 0);
    }
    assert_eq!(
        watch.next().await.unwrap().object,
        written,
        "watchers see what was written"
    );
    assert_eq!(read(&store, "x").await, PLAIN);
    assert_eq!(
        store
            .list(&scope, &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        51
    );
    let delete = Write {
        key: written.key.clone(),
        expect: Expect::Anything,
        value: None,
    };
    let deleted = commit(&*store, delete).await.value().unwrap();
    assert_eq!(deleted["note"], PLAIN);
    drop(store);
    let store = SqliteStore::open_with(&path, options).await.unwrap();
    assert_eq!(read(&store, "s-49").await, PLAIN);
    assert_eq!(plain_files(dir.path()), 0);
}

#[tokio::test]
async fn a_file_in_plain_text_is_sealed_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let store = SqliteStore::open(&path).await.unwrap();
    for number in 0..200 {
        commit(&*store, secret(&format!("s-{number}"))).await;
    }
    // what is deleted lies in free pages
    for number in 1..200 {
        let delete = Write {
            expect: Expect::Anything,
            value: None,
            ..secret(&format!("s-{number}"))
        };
        commit(&*store, delete).await;
    }
    let revision = store.revision();
    drop(store);
    assert!(
        plain_files(dir.path()) > 0,
        "the test looks for the wrong thing"
    );
    let key = Seal::new_key().unwrap();
    let store = SqliteStore::open_with(&path, options(dir.path(), &[&key]))
        .await
        .unwrap();
    assert_eq!(plain_files(dir.path()), 0);
    assert_eq!(
        (read(&store, "s-0").await.as_str(), store.revision()),
        (PLAIN, revision)
    );
}

#[tokio::test]
async fn keys_change_and_the_wrong_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let (old, new) = (Seal::new_key().unwrap(), Seal::new_key().unwrap());
    let store = SqliteStore::open_with(&path, options(dir.path(), &[&old]))
        .await
        .unwrap();
    commit(&*store, secret("x")).await;
    drop(store);

    let refused = async |options: SqliteOptions| {
        let error = SqliteStore::open_or_begin_anew(&path, options)
            .await
            .unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("secrets a/x"), "{error}: {source}");
        source
    };
    assert!(
        refused(SqliteOptions::default())
            .await
            .contains("database.keyFile")
    );
    assert!(
        refused(options(dir.path(), &[&new]))
            .await
            .contains("add this key below")
    );

    let store = SqliteStore::open_with(&path, options(dir.path(), &[&new, &old]))
        .await
        .unwrap();
    assert_eq!(read(&store, "x").await, PLAIN);
    drop(store);
    // the old one is no longer needed
    let store = SqliteStore::open_with(&path, options(dir.path(), &[&new]))
        .await
        .unwrap();
    assert_eq!(read(&store, "x").await, PLAIN);
    assert_eq!(plain_files(dir.path()), 0);
}

#[tokio::test]
async fn what_was_changed_by_another_hand_is_damaged_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let options = options(dir.path(), &[&Seal::new_key().unwrap()]);
    let store = SqliteStore::open_with(&path, options.clone())
        .await
        .unwrap();
    store.commit(vec![secret("x"), secret("y")]).await.unwrap();
    drop(store);
    let mut hand =
        sqlx::ConnectOptions::connect(&sqlx::sqlite::SqliteConnectOptions::new().filename(&path))
            .await
            .unwrap();
    // one Secret's value in the place of another's
    let swap =
        "UPDATE objects SET value = (SELECT value FROM objects WHERE name = 'x') WHERE name = 'y'";
    sqlx::query(swap).execute(&mut hand).await.unwrap();
    let health = Inspection::open(&path, options.seal.clone())
        .await
        .unwrap()
        .check()
        .await
        .unwrap();
    assert_eq!(
        (health.sealed, health.faults.len(), health.damaged.len()),
        (2, 0, 1),
        "{health:?}"
    );
    // whoever can write a checksum cannot write a seal
    sqlx::query("UPDATE objects SET checksum = NULL WHERE name = 'y'")
        .execute(&mut hand)
        .await
        .unwrap();
    drop(hand);
    let recovered = SqliteStore::open_or_begin_anew(&path, options)
        .await
        .unwrap();
    assert_eq!(recovered.set_aside, None);
    let store = recovered.store;
    assert_eq!(read(&store, "x").await, PLAIN);
    let damaged = store.damaged_objects().now();
    assert_eq!(
        damaged.get(&secret("y").key),
        Some(&crate::Damage::Forged),
        "{damaged:?}"
    );
}

#[tokio::test]
async fn a_look_opens_what_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let options = options(dir.path(), &[&Seal::new_key().unwrap()]);
    let store = SqliteStore::open_with(&path, options.clone())
        .await
        .unwrap();
    commit(&*store, secret("x")).await;
    let mut look = Inspection::open(&path, options.seal).await.unwrap();
    let objects: Vec<_> = futures::StreamExt::collect(look.objects()).await;
    let object = objects.into_iter().next().unwrap().unwrap();
    assert_eq!(object.value().unwrap()["note"], json!(PLAIN));
    let mut blind = Inspection::open(&path, None).await.unwrap();
    let objects: Vec<_> = futures::StreamExt::collect::<Vec<_>>(blind.objects()).await;
    assert!(objects[0].is_err());
}
