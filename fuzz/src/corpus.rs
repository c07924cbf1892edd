//! The initial inputs: recordings between EdgeCore and CloudCore, files made by openssl, messages encoded by client-go, and documents
//! as people write them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Returns a folder of the workspace.
pub(crate) fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .join(path)
}

/// Returns the files of a folder whose names end with `end`, sorted by name.
pub(crate) fn files(path: &str, end: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.to_string_lossy().ends_with(end));
    paths.sort();
    paths
        .into_iter()
        .map(|path| fs::read(path).expect("a file"))
        .collect()
}

/// Returns every recorded message as it was on the wire.
pub(crate) fn recorded_messages() -> Vec<Vec<u8>> {
    let captures = files("wire/tests/fixtures", ".jsonl");
    let lines = captures
        .iter()
        .flat_map(|capture| capture.split(|byte| *byte == b'\n'));
    let frames = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    frames
        .filter_map(|mut line| Some(line.get_mut("frame")?.take().to_string().into_bytes()))
        .collect()
}

/// Returns the DER in openssl's files whose names begin with `begin`.
pub(crate) fn der(begin: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder("wire/tests/fixtures/openssl")).expect("openssl's files");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(begin))
    });
    paths.sort();
    paths
        .iter()
        .map(|path| decode(&fs::read_to_string(path).expect("a file")))
        .collect()
}

pub(crate) fn decode(pem: &str) -> Vec<u8> {
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(lines.trim()).expect("base64")
}

/// Returns texts as inputs.
pub(crate) fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
