//! Finding and removing the token.

use super::*;

const TOKEN: &str = "aa.bb.cc.dd";

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edgecore.yaml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn only_the_token_changes() {
    let table = [
        "a: 1\nmodules:\n  edgeHub:\n    token: @  # ours\n    heartbeat: 15\n",
        "modules:\n    edged:\n        token: x\n    edgeHub:\n        quic: {token: y}\n        # token: z\n        token:   @\r\n",
        "modules:\n  edgehub:\n    \"token\": '@'",
        "modules: # all\n  edgeHub:\n\n    websocket:\n      server: a:1\n    token: \"@\"\n  eventBus:\n    enable: false\n",
        "token: keep\nmodules:\n edgeHub:\n  token : @\n",
        "{\"token\": \"keep\", \"modules\": {\"edgeHub\": {\"token\": \"@\", \"heartbeat\": 15}}}",
        "{\n  \"modules\": {\n    \"edgehub\": {\n      \"heartbeat\": 15,\n      \"Token\" : \"@\"\n    },\n    \"note\": \"ü, token\"\n  }\n}\n",
    ];
    for text in table {
        let before = text.replace('@', TOKEN);
        let (folder, path) = file(&before);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        remove_token(&path).unwrap();
        let after = fs::read_to_string(&path).unwrap();
        let expected = text
            .replace("\"@\"", "\"\"")
            .replace("'@'", "\"\"")
            .replace('@', "\"\"");
        assert_eq!(after, expected);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left behind"
        );
        // a second time changes nothing
        remove_token(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
}

#[test]
fn nothing_to_wipe() {
    for text in [
        "",
        "modules:\n  edgeHub:\n    token: \"\"\n",
        "modules:\n  edgeHub:\n    token:\n",
        "modules: {}\n",
        "- 1\n",
    ] {
        let (_folder, path) = file(text);
        let inode = fs::metadata(&path).unwrap().ino();
        remove_token(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().ino(),
            inode,
            "not rewritten: {text}"
        );
    }
}

#[test]
fn a_token_in_an_unsupported_form_stays_and_is_an_error() {
    for text in [
        "modules: {edgeHub: {token: aa.bb.cc.dd}}\n",
        "modules:\n  edgeHub:\n    token: >-\n      aa.bb.cc.dd\n    heartbeat: 15\n",
        "note: |\n  text\nmodules:\n  edgeHub: {token: a}\n",
        "note: |\n  text\nx: &t {token: a}\nmodules:\n  edgeHub: *t\n",
    ] {
        let (_folder, path) = file(text);
        let error = remove_token(&path).unwrap_err();
        assert!(matches!(error, Error::TokenStays(_)), "{error} in {text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_link_stays_a_link() {
    let (folder, path) = file("modules:\n  edgeHub:\n    token: abc\n");
    let link = folder.path().join("link.yaml");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    remove_token(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "modules:\n  edgeHub:\n    token: \"\"\n"
    );
}

#[test]
fn a_missing_file_is_an_error() {
    let error = remove_token(Path::new("/nonexistent/edgecore.yaml")).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
}

#[test]
fn bootstrap_file_beside_or_above() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("config");
    fs::create_dir(&folder).unwrap();
    let config = folder.join("edgecore.yaml");
    assert_eq!(bootstrap_token(&config).unwrap(), None);
    fs::write(root.path().join(BOOTSTRAP_FILE), " above\n").unwrap();
    assert_eq!(bootstrap_token(&config).unwrap().as_deref(), Some("above"));
    fs::write(folder.join(BOOTSTRAP_FILE), "beside").unwrap();
    assert_eq!(bootstrap_token(&config).unwrap().as_deref(), Some("beside"));
    // above only if the folder is named `config`
    let other = root.path().join("other");
    fs::create_dir(&other).unwrap();
    assert_eq!(bootstrap_token(&other.join("edgecore.yaml")).unwrap(), None);
}
