//! Tests of [`super`], with files as libcni names them.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

const ID: &str = "58a4aeacdfbac53b";
const WHOLE: &str = r#"{"kind":"cniCacheV1","containerId":"58a4aeacdfbac53b"}"#;

fn results(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn remaining_files(directory: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn results_that_are_empty_or_cut_short_are_removed() {
    let directory = results(&[
        ("edge-net-58a4aeacdfbac53b-eth0", ""),
        ("edge-58a4aeacdfbac53b-net1", &WHOLE[..WHOLE.len() / 2]),
    ]);
    assert_eq!(
        remove_broken(directory.path(), ID, Duration::ZERO).unwrap(),
        2
    );
    assert!(remaining_files(&directory).is_empty());
    assert_eq!(
        remove_broken(directory.path(), ID, Duration::ZERO).unwrap(),
        0
    );
}

#[test]
fn valid_results_and_those_of_other_sandboxes_are_kept() {
    let stay = [
        ("-58a4aeacdfbac53b-eth0", ""),
        ("58a4aeacdfbac53b-eth0", ""),
        ("edge-058a4aeacdfbac53b-eth0", ""),
        ("edge-58a4aeacdfbac53b-", WHOLE),
        ("edge-58a4aeacdfbac53b-eth0", WHOLE),
        ("edge-58a4aeacdfbac53b0-eth0", ""),
        ("edge-cdfbac53b-eth0", ""),
    ];
    let directory = results(&stay);
    assert_eq!(
        remove_broken(directory.path(), ID, Duration::ZERO).unwrap(),
        0
    );
    assert_eq!(remaining_files(&directory), stay.map(|(name, _)| name));
}

#[test]
fn links_directories_and_what_is_too_large_stay() {
    let directory = results(&[("elsewhere", "")]);
    let large = File::create(directory.path().join(format!("large-{ID}-eth0"))).unwrap();
    large.set_len(MAX_RESULT_BYTES + 1).unwrap();
    symlink(
        directory.path().join("elsewhere"),
        directory.path().join(format!("link-{ID}-eth0")),
    )
    .unwrap();
    fs::create_dir(directory.path().join(format!("directory-{ID}-eth0"))).unwrap();
    assert_eq!(
        remove_broken(directory.path(), ID, Duration::ZERO).unwrap(),
        0
    );
    assert_eq!(remaining_files(&directory).len(), 4);
}

#[test]
fn young_results_are_kept() {
    let directory = results(&[("net-58a4aeacdfbac53b-eth0", "{")]);
    assert_eq!(remove_broken(directory.path(), ID, MIN_AGE).unwrap(), 0);
    assert_eq!(remaining_files(&directory).len(), 1);
}

#[test]
fn missing_results_directory_is_an_error() {
    let directory = results(&[]);
    let error = remove_broken(&directory.path().join("none"), ID, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn sandbox_without_broken_results_is_not_retried() {
    assert!(!removed_broken(ID).await);
}
