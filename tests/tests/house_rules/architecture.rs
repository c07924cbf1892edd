//! The map is that of the tree: crates use what ARCHITECTURE.md says, and every path in the documents exists.

use std::{collections::BTreeSet, fs};

use super::{CRATES, root};

/// What stands between backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The names of the crates that a manifest has among its ordinary dependencies.
fn used(manifest: &str) -> BTreeSet<&str> {
    let dependencies = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]"));
    let names =
        dependencies.unwrap_or_default().lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| CRATES.contains(name)).collect()
}

#[test]
fn crates_use_what_the_map_says() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = map.split_once("| crate | uses |\n").unwrap().1;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| quoted(line).collect())
        .collect();
    let told: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(told, CRATES.into_iter().filter(|name| !name.starts_with("examples/")).collect());
    for row in rows {
        let manifest = fs::read_to_string(root().join(row[0]).join("Cargo.toml")).unwrap();
        assert_eq!(used(&manifest), row[1..].iter().copied().collect(), "{}", row[0]);
    }
}

#[test]
fn every_folder_of_the_readme_exists() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let table = readme.split_once("| folder | what | in KubeEdge |\n").unwrap().1;
    let mut missing = Vec::new();
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        // one that stands behind another begins where that one stands
        let mut before: Option<&str> = None;
        for path in quoted(row.split('|').nth(1).unwrap()) {
            let parents = before
                .and_then(|before| before.split_once("/src/"))
                .map(|(name, _)| root().join(name).join("src"));
            let places = [Some(root().join(path)), parents.map(|parent| parent.join(path))];
            if !places.into_iter().flatten().any(|place| place.exists()) {
                missing.push(path);
            }
            before = before.or(Some(path));
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_readme_links_every_page() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = pages.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
    let missing: Vec<String> = names.filter(|name| !readme.contains(&format!("](docs/{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_path_that_the_guides_name_exists() {
    let mut missing = Vec::new();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let is_path = |word: &&str| {
            CRATES.iter().chain(["docs", "charts"].iter()).any(|first| word.starts_with(&format!("{first}/")))
        };
        let paths = text.lines().flat_map(quoted).filter(is_path);
        missing
            .extend(paths.filter(|path| !root().join(path).exists()).map(|path| format!("{page}: {path}")));
    }
    assert!(missing.is_empty(), "{missing:?}");
}
