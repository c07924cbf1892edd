//! Tests of [`super`].

use super::*;

fn manifest(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

#[test]
fn only_manifests_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for name in [
        "a.yaml",
        "b.json",
        "c.yml",
        ".hidden.yaml",
        "backup.yaml~",
        "notes.txt",
    ] {
        write(
            name,
            &manifest(name.split('.').find(|part| !part.is_empty()).unwrap()),
        );
    }
    write("d.yaml", "kind: Service");
    write("e.yaml", &manifest("a"));
    write("f.yaml", &"x".repeat(MAX_BYTES as usize + 1));
    write("g.yaml", "");
    fs::create_dir(folder.path().join("h.yaml")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("nowhere"), folder.path().join("i.yaml"))
        .unwrap();
    let files = read(folder.path(), "edge-1").unwrap();
    assert_eq!(
        files.pods.keys().collect::<Vec<_>>(),
        ["a.yaml", "b.json", "c.yml"]
    );
    let bad: Vec<_> = files
        .invalid
        .iter()
        .map(|(file, why)| format!("{file}: {why}"))
        .collect();
    assert_eq!(bad.len(), 4, "{bad:?}");
    assert!(
        bad[1].contains("a.yaml has a pod of the same name"),
        "{bad:?}"
    );
    assert!(bad[2].contains("more than"), "{bad:?}");
}

#[test]
fn single_file_is_read_and_missing_folder_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("only.manifest");
    fs::write(&file, manifest("only")).unwrap();
    assert_eq!(read(&file, "edge-1").unwrap().pods.len(), 1);
    assert_eq!(
        read(&folder.path().join("none"), "edge-1").unwrap(),
        Files::default()
    );
}

#[tokio::test]
async fn folder_changes_and_removal_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifests");
    assert!(FolderWatch::new(&path).is_err());
    fs::create_dir(&path).unwrap();
    let changes: [fn(&Path); 4] = [
        |path| fs::write(path.join("a.yaml"), "x").unwrap(),
        |path| fs::rename(path.join("a.yaml"), path.join("b.yaml")).unwrap(),
        |path| fs::remove_file(path.join("b.yaml")).unwrap(),
        |path| fs::remove_dir(path).unwrap(),
    ];
    for change in changes {
        let watch = FolderWatch::new(&path).unwrap();
        change(&path);
        watch.changed().await.unwrap();
    }
}
