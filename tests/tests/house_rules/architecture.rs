//! The map is that of the tree: crates use what ARCHITECTURE.md says, and every path in the documents exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use super::{CRATES, root};

/// What stands between backticks in a line.
fn quotes(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The names of the crates that a manifest has among its ordinary dependencies.
fn used_crates(manifest: &str) -> BTreeSet<&str> {
    let dependencies = manifest
        .split("\n[")
        .find_map(|section| section.strip_prefix("dependencies]"));
    let names = dependencies
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next());
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
        .map(|line| quotes(line).collect())
        .collect();
    let told: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(
        told,
        CRATES
            .into_iter()
            .filter(|name| !name.starts_with("examples/"))
            .collect()
    );
    for row in rows {
        let manifest = fs::read_to_string(root().join(row[0]).join("Cargo.toml")).unwrap();
        assert_eq!(
            used_crates(&manifest),
            row[1..].iter().copied().collect(),
            "{}",
            row[0]
        );
    }
}

/// Returns what each package of a `Cargo.lock` depends on. Packages of one name count as one. Of the workspace's own crates it has the
/// development dependencies too.
fn locked_packages(lock: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package
            .lines()
            .find_map(|line| line.strip_prefix("name = "))
            .unwrap();
        let dependencies = package
            .lines()
            .filter_map(|line| line.strip_prefix(" \""))
            .filter_map(|line| line.split([' ', '"']).next());
        packages
            .entry(name.trim_matches('"'))
            .or_default()
            .extend(dependencies);
    }
    packages
}

/// Returns a way from one package to another, if there is one.
fn way<'a>(
    packages: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let (mut seen, mut ways) = (BTreeSet::from([from]), vec![vec![from]]);
    while let Some(way) = ways.pop() {
        let last = way.last().copied().unwrap();
        if last == to {
            return Some(way);
        }
        for next in packages.get(last).into_iter().flatten() {
            if seen.insert(*next) {
                ways.push([way.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

#[test]
fn agent_links_no_api_server() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = locked_packages(&lock);
    assert!(way(&packages, "cloudsim", "apiserver").is_some());
    for crate_ in ["agent", "kubeapi", "objectstore"] {
        for absent in ["apiserver", "cel"] {
            let found = way(&packages, crate_, absent);
            assert_eq!(found, None, "{crate_} must not depend on {absent}");
        }
    }
}

#[test]
fn every_folder_of_the_map_exists() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = map
        .split_once("| folder | what | in KubeEdge |\n")
        .unwrap()
        .1;
    let mut missing = Vec::new();
    for row in table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
    {
        // one that stands behind another begins where that one stands
        let mut before: Option<&str> = None;
        for path in quotes(row.split('|').nth(1).unwrap()) {
            let parents = before
                .and_then(|before| before.split_once("/src/"))
                .map(|(name, _)| root().join(name).join("src"));
            let places = [
                Some(root().join(path)),
                parents.map(|parent| parent.join(path)),
            ];
            if !places.into_iter().flatten().any(|place| place.exists()) {
                missing.push(path);
            }
            before = before.or(Some(path));
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// The pages in docs/ and the README.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let all = pages.chain(
        [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
        ]
        .map(|name| root().join(name)),
    );
    all.map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn index_of_the_documentation_links_every_page() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    let names = pages()
        .into_iter()
        .filter(|(path, _)| path.parent().is_some_and(|parent| parent.ends_with("docs")));
    let names = names.map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned());
    let missing: Vec<String> = names
        .filter(|name| name != "README.md" && !index.contains(&format!("]({name}")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn readme_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (lines, words) = (readme.lines().count(), readme.split_whitespace().count());
    assert!(
        lines <= 100 && words <= 800,
        "{lines} lines and {words} words: at most 100 and 800"
    );
}

#[test]
fn files_that_pages_link_exist() {
    let mut missing = Vec::new();
    for (page, text) in pages() {
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#', ' ']).next())
        {
            // of the forge, beside the files
            let is_elsewhere = link.contains("://") || link.starts_with("../../actions/");
            if !link.is_empty() && !is_elsewhere && !page.parent().unwrap().join(link).exists() {
                missing.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_path_that_the_guides_name_exists() {
    let mut missing = Vec::new();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let is_path = |word: &&str| {
            CRATES
                .iter()
                .chain(["docs", "charts"].iter())
                .any(|first| word.starts_with(&format!("{first}/")))
        };
        let paths = text.lines().flat_map(quotes).filter(is_path);
        missing.extend(
            paths
                .filter(|path| !root().join(path).exists())
                .map(|path| format!("{page}: {path}")),
        );
    }
    assert!(missing.is_empty(), "{missing:?}");
}
