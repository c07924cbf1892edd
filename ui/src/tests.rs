//! Tests of the page's files: their size, their headers, and what their sources must not contain.

use std::{collections::BTreeMap, fs, io::Read, path::Path};

use super::*;

/// The most bytes of the whole page, compressed.
const MAX_BYTES: usize = 80_000;
/// The most lines of a file.
const MAX_LINES: usize = 600;

/// Returns the project's own files of the page, by name.
fn sources() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let own = fs::read_dir(folder).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?.to_owned();
        path.is_file()
            .then(|| (name, fs::read_to_string(&path).unwrap()))
    });
    own.collect()
}

fn get(path: &str, headers: &HeaderMap) -> Response<Bytes> {
    answer(&Method::GET, path, headers)
}

#[test]
fn page_is_small() {
    let sum: usize = FILES.iter().map(|file| file.gzip.len()).sum();
    assert!(sum <= MAX_BYTES, "the page has {sum} bytes compressed");
}

#[test]
fn every_response_has_the_security_headers() {
    for path in ["/ui", "/ui/", "/ui/app.js", "/ui/missing"] {
        let response = get(path, &HeaderMap::new());
        for (name, value) in HEADERS {
            assert_eq!(response.headers()[name], value, "{path}");
        }
    }
}

#[test]
fn files_are_found_with_their_types_and_a_current_copy_is_not_sent_again() {
    for (path, status, kind) in [
        ("/ui/", 200, "text/html; charset=utf-8"),
        ("/ui/app.js", 200, "text/javascript; charset=utf-8"),
        ("/ui/style.css", 200, "text/css; charset=utf-8"),
        (
            "/ui/vendor/htm-preact.js",
            200,
            "text/javascript; charset=utf-8",
        ),
        ("/ui/vendor/LICENSE-htm", 404, "text/plain; charset=utf-8"),
        ("/ui/../Cargo.toml", 404, "text/plain; charset=utf-8"),
    ] {
        let response = get(path, &HeaderMap::new());
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.headers()["content-type"], kind, "{path}");
        if status != 200 {
            continue;
        }
        let mut text = String::new();
        let mut decoder = flate2::read::GzDecoder::new(response.body().as_ref());
        decoder.read_to_string(&mut text).unwrap();
        assert!(!text.is_empty(), "{path}");
        let mut headers = HeaderMap::new();
        headers.insert("if-none-match", response.headers()["etag"].clone());
        let again = get(path, &headers);
        assert_eq!((again.status().as_u16(), again.body().len()), (304, 0));
    }
    assert_eq!(get("/ui", &HeaderMap::new()).headers()["location"], "/ui/");
    let posted = answer(&Method::POST, "/ui/app.js", &HeaderMap::new());
    assert_eq!(posted.status(), 405);
}

#[test]
fn sources_insert_no_markup_and_name_no_other_host() {
    const FORBIDDEN: [&str; 9] = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "dangerouslySetInnerHTML",
        "eval(",
        "new Function",
        "https://",
        "http://",
    ];
    for (name, text) in sources() {
        if name.ends_with(".svg") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let found = FORBIDDEN.iter().find(|word| line.contains(**word));
            assert_eq!(found, None, "{name}:{}: {line}", number + 1);
        }
    }
}

#[test]
fn sources_are_short_and_begin_with_their_purpose() {
    for (name, text) in sources() {
        assert!(text.lines().count() <= MAX_LINES, "{name} is too long");
        let begin = match name.rsplit_once('.') {
            Some((_, "js")) => "// ",
            Some((_, "css")) => "/* ",
            _ => "<",
        };
        assert!(text.starts_with(begin), "{name} has no purpose");
    }
}

#[test]
fn every_text_is_in_english_and_in_chinese() {
    let sources = sources();
    let (_, table) = sources["texts.js"].split_once("const TEXTS = {\n").unwrap();
    let (table, _) = table.split_once("\n};").unwrap();
    let has_chinese = |text: &str| {
        text.chars()
            .any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter))
    };
    let mut keys = Vec::new();
    for line in table.lines() {
        let (key, texts) = line.trim().split_once(": [\"").expect(line);
        let (english, chinese) = texts.split_once("\", \"").expect(line);
        assert!(!has_chinese(english), "{line}");
        assert!(has_chinese(chinese), "{line}");
        keys.push(key.trim_matches('"').to_owned());
    }
    assert!(keys.len() > 50, "{} texts were found", keys.len());
    let others: String = sources
        .iter()
        .filter(|(name, _)| *name != "texts.js")
        .map(|(_, text)| text.as_str())
        .collect();
    for key in keys {
        // keys may be composed: `view.${name}`
        let composed = key
            .split_once('.')
            .map(|(prefix, _)| format!("`{prefix}.${{"));
        let is_used = others.contains(&format!("\"{key}\""))
            || composed.is_some_and(|composed| others.contains(&composed));
        assert!(is_used, "the text {key} is not used");
    }
}
