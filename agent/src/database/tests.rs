//! The commands on files that a store has written.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use linux_keyutils::{KeyRing, KeyRingIdentifier};
use objectstore::{Expect, Key, Resource, SqliteOptions, SqliteStore, Store, Write as Put};

use super::*;
use crate::cli::{InstallPaths, OutputArgs};

struct Node {
    directory: tempfile::TempDir,
}

impl Node {
    /// Creates a configuration, with a key file or without.
    fn new(has_keys: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("keys");
        let keys = if has_keys {
            format!(", keyFile: {}", keys.display())
        } else {
            String::new()
        };
        Self::with(directory, &keys)
    }

    /// Creates a configuration with a setting for the keys, after a comma, or with none.
    fn with(directory: tempfile::TempDir, keys: &str) -> Self {
        let at = |name: &str| directory.path().join(name);
        let text = format!(
            "apiVersion: edgecore.config.kubeedge.io/v1alpha2\nkind: EdgeCore\n\
             database: {{dataSource: {}{keys}}}\nmodules: {{}}\n",
            at("edgecore.db").display()
        );
        fs::write(at("edgecore.yaml"), text).unwrap();
        Self { directory }
    }

    /// Executes a statement on the file from outside.
    fn damage(&self, statement: &'static str) {
        use sqlx::ConnectOptions;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.at("outrigger.db"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut hand = options.connect().await.unwrap();
            sqlx::raw_sql(statement).execute(&mut hand).await.unwrap();
            sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                .execute(&mut hand)
                .await
                .unwrap();
            sqlx::Connection::close(hand).await.unwrap();
        });
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self) -> DbFile {
        DbFile {
            paths: paths(self.at("edgecore.yaml")),
            database: None,
        }
    }

    /// Writes objects as the agent does.
    fn write(&self, objects: &[(Key, Value)]) {
        let (config, _) = config::load(&self.at("edgecore.yaml")).unwrap();
        let options = SqliteOptions {
            seal: app::seal(&config).unwrap(),
            ..SqliteOptions::default()
        };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = SqliteStore::open_with(&app::database(&config), options)
                .await
                .unwrap();
            let put = |(key, value): &(Key, Value)| Put {
                key: key.clone(),
                expect: Expect::Anything,
                value: Some(value.clone()),
            };
            store
                .commit(objects.iter().map(put).collect())
                .await
                .unwrap();
        });
    }
}

fn secret() -> (Key, Value) {
    let key = Key::new(Resource::new("", "secrets"), "a", "s");
    let annotations =
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"p\":\"c2VzYW1l\"}"});
    (
        key,
        json!({"metadata": {"name": "s", "annotations": annotations}, "data": {"p": "c2VzYW1l"}}),
    )
}

fn token() -> (Key, Value) {
    let key = Key::new(
        Resource::new("kubeedge.io", "serviceaccounttokens"),
        "a",
        "t",
    );
    (
        key,
        json!({"metadata": {}, "pod": "u", "token": {"status": {"token": "c2VzYW1l"}}}),
    )
}

fn pod() -> (Key, Value) {
    (
        Key::new(Resource::new("", "pods"), "a", "p"),
        json!({"metadata": {"name": "p"}}),
    )
}

fn run_command(command: Db) -> (ExitCode, String) {
    let mut out = Vec::new();
    let code = run(&command, &mut out).unwrap();
    (code, String::from_utf8(out).unwrap())
}

#[test]
fn a_dump_has_every_object_and_secrets_on_request() {
    let node = Node::new(false);
    node.write(&[pod(), secret(), token()]);
    let (_, masked) = run_command(Db::Dump {
        file: node.file(),
        show_secrets: false,
    });
    let lines: Vec<Value> = masked
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert!(!masked.contains("c2VzYW1l"), "{masked}");
    assert_eq!(lines[0]["object"]["metadata"]["name"], "p");
    assert_eq!(lines[1]["object"]["data"], json!({"p": "***"}));
    assert_eq!(lines[2]["object"]["token"]["status"]["token"], "***");
    let place = json!([
        lines[1]["resource"],
        lines[1]["namespace"],
        lines[1]["name"],
        lines[1]["revision"]
    ]);
    assert_eq!(place, json!(["secrets", "a", "s", 3]));
    let (_, shown) = run_command(Db::Dump {
        file: node.file(),
        show_secrets: true,
    });
    assert_eq!(shown.matches("c2VzYW1l").count(), 3);
}

#[test]
fn a_check_reports_every_fault() {
    let node = Node::new(false);
    node.write(&[pod(), secret()]);
    let (code, said_whole) = run_command(Db::Check {
        file: node.file(),
        output: OutputArgs::default(),
    });
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(
        said_whole.starts_with("OK: 2 objects (0 encrypted), revision 3,"),
        "{said_whole}"
    );
    let (code, told) = run_command(Db::Check {
        file: node.file(),
        output: OutputArgs {
            format: Some(Output::Json),
        },
    });
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (code, &told["whole"], &told["objects"]),
        (ExitCode::SUCCESS, &json!(true), &json!(2))
    );
    assert_eq!(
        (&told["faults"], &told["revision"]),
        (&json!([]), &json!(3))
    );
    node.damage("UPDATE objects SET value = x'7b' WHERE name = 's'");
    let (code, said_damaged) = run_command(Db::Check {
        file: node.file(),
        output: OutputArgs::default(),
    });
    assert_eq!(code, ExitCode::FAILURE);
    let expected = "damaged: secrets a/s: its checksum does not match\nsome objects are damaged; the agent ignores them and";
    assert!(said_damaged.starts_with(expected), "{said_damaged}");
    let (code, dumped) = run_command(Db::Dump {
        file: node.file(),
        show_secrets: false,
    });
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(
        dumped.lines().count() == 2 && dumped.contains("\"damaged\":\"its checksum"),
        "{dumped}"
    );
    let bytes = fs::read(node.at("outrigger.db")).unwrap();
    fs::write(node.at("half.db"), &bytes[..bytes.len() / 2]).unwrap();
    let half = DbFile {
        database: Some(node.at("half.db")),
        paths: paths(node.at("none.yaml")),
    };
    let (code, told) = run_command(Db::Check {
        file: half.clone(),
        output: OutputArgs {
            format: Some(Output::Yaml),
        },
    });
    assert!(
        code == ExitCode::FAILURE && told.contains("whole: false") && told.contains("faults:"),
        "{told}"
    );
    let (code, said_half) = run_command(Db::Check {
        file: half,
        output: OutputArgs::default(),
    });
    assert_eq!(code, ExitCode::FAILURE, "{said_half}");
    assert!(said_half.starts_with("fault: "), "{said_half}");
    let none = DbFile {
        paths: paths(node.at("none.yaml")),
        database: None,
    };
    assert!(
        run(
            &Db::Check {
                file: none,
                output: OutputArgs::default()
            },
            &mut Vec::new()
        )
        .is_err()
    );
}

#[test]
fn a_file_that_is_missing_or_no_database_is_reported_as_such() {
    let node = Node::new(false);
    node.write(&[pod()]);
    fs::write(node.at("text.db"), "kind: EdgeCore\n".repeat(500)).unwrap();
    fs::write(node.at("empty.db"), "").unwrap();
    let only_paths = format!(
        "database: {{dataSource: {}}}\n",
        node.at("edgecore.db").display()
    );
    fs::write(node.at("paths.yaml"), only_paths).unwrap();
    let unused = format!(
        "database: {{dataSource: {}}}\n",
        node.at("unused/edgecore.db").display()
    );
    fs::write(node.at("unused.yaml"), unused).unwrap();
    let file = |config: &str, database: Option<&str>| DbFile {
        paths: paths(node.at(config)),
        database: database.map(|name| node.at(name)),
    };
    for (file, expected) in [
        (
            file("edgecore.yaml", Some("text.db")),
            Err("text.db is not a database"),
        ),
        (
            file("edgecore.yaml", Some("empty.db")),
            Err("empty.db is not a database"),
        ),
        (
            file("edgecore.yaml", Some("none.db")),
            Err("none.db does not exist; check the path"),
        ),
        (file("none.yaml", None), Err("none.yaml does not exist")),
        (file("unused.yaml", None), Err("there is no database")),
        (file("paths.yaml", None), Ok(())),
    ] {
        let check = Db::Check {
            file: file.clone(),
            output: OutputArgs::default(),
        };
        let dump = Db::Dump {
            file: file.clone(),
            show_secrets: false,
        };
        for command in [check, dump] {
            let done = run(&command, &mut Vec::new()).map(drop);
            match (&done, expected) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(part)) if error.to_string().contains(part) => {}
                _ => panic!("{file:?}: {done:?}"),
            }
        }
    }
}

#[test]
fn a_new_key_is_first_and_the_old_one_still_decrypts() {
    let node = Node::new(true);
    let new_key = || {
        run(
            &Db::NewKey {
                file: node.at("keys"),
            },
            &mut Vec::new(),
        )
    };
    new_key().unwrap();
    node.write(&[secret(), token(), pod()]);
    let first = fs::read_to_string(node.at("keys")).unwrap();
    new_key().unwrap();
    let second = fs::read_to_string(node.at("keys")).unwrap();
    assert!(
        second.ends_with(&first) && second.lines().count() == 2,
        "{second}"
    );
    assert_eq!(
        fs::metadata(node.at("keys")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (_, before) = run_command(Db::Dump {
        file: node.file(),
        show_secrets: true,
    });
    node.write(&[pod()]);
    fs::write(node.at("keys"), second.lines().next().unwrap()).unwrap();
    let (_, after) = run_command(Db::Dump {
        file: node.file(),
        show_secrets: true,
    });
    assert_eq!(
        before.matches("c2VzYW1l").count(),
        after.matches("c2VzYW1l").count()
    );
    assert!(
        run_command(Db::Check {
            file: node.file(),
            output: OutputArgs::default()
        })
        .1
        .contains("3 objects (2 encrypted)")
    );

    // without its key, or with another one, it cannot be told whether the object is damaged
    let elsewhere = DbFile {
        paths: paths(node.at("none.yaml")),
        database: Some(node.at("outrigger.db")),
    };
    fs::write(node.at("keys"), Seal::new_key().unwrap()).unwrap();
    for file in [elsewhere, node.file()] {
        let mut out = Vec::new();
        let error = run(
            &Db::Check {
                file,
                output: OutputArgs::default(),
            },
            &mut out,
        )
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("2 of 2 encrypted objects cannot be decrypted: their key"),
            "{error}"
        );
        assert!(out.is_empty(), "{}", String::from_utf8_lossy(&out));
    }

    fs::write(node.at("keys"), "kind: EdgeCore").unwrap();
    assert!(
        new_key().is_err(),
        "a file that is none of keys is left as it is"
    );
    assert_eq!(
        fs::read_to_string(node.at("keys")).unwrap(),
        "kind: EdgeCore"
    );
}

#[test]
fn keys_may_be_in_the_kernels_keyring() {
    let description = format!("outrigger:test-{}", std::process::id());
    let node = Node::with(
        tempfile::tempdir().unwrap(),
        &format!(", keyring: \"{description}\""),
    );
    let refused = || {
        run(
            &Db::Check {
                file: node.file(),
                output: OutputArgs::default(),
            },
            &mut Vec::new(),
        )
        .unwrap_err()
        .to_string()
    };
    assert!(
        refused().contains(&format!("keyctl padd user {description:?} @u")),
        "{}",
        refused()
    );

    let keyring = KeyRing::from_special_id(KeyRingIdentifier::User, true).unwrap();
    let key = keyring
        .add_key(
            &description,
            &format!("# since May\n{}\n", Seal::new_key().unwrap()),
        )
        .unwrap();
    // a failed assertion below leaves the key in the keyring no longer than that
    key.set_timeout(60).unwrap();
    node.write(&[secret(), pod()]);
    assert!(
        run_command(Db::Check {
            file: node.file(),
            output: OutputArgs::default()
        })
        .1
        .contains("2 objects (1 encrypted)")
    );
    assert!(
        run_command(Db::Dump {
            file: node.file(),
            show_secrets: true
        })
        .1
        .contains("c2VzYW1l")
    );
    let bytes = fs::read(node.at("outrigger.db")).unwrap();
    assert!(!bytes.windows(8).any(|part| part == b"c2VzYW1l"));

    key.update(&Seal::new_key().unwrap()).unwrap();
    let (show, file) = (true, node.file());
    let error = run(
        &Db::Dump {
            file,
            show_secrets: show,
        },
        &mut Vec::new(),
    )
    .unwrap_err();
    assert!(
        format!("{error:#}").contains("encrypted with an unknown key"),
        "{error:#}"
    );
    key.update(&"no key").unwrap();
    assert_eq!(refused(), "database.keyring cannot be used");
    keyring.unlink_key(key).unwrap();
}

#[test]
fn a_closed_pipe_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let node = Node::new(false);
    node.write(&[pod()]);
    assert!(
        run(
            &Db::Dump {
                file: node.file(),
                show_secrets: false
            },
            &mut Closed
        )
        .is_ok()
    );
}

fn paths(config: PathBuf) -> InstallPaths {
    InstallPaths {
        config: Some(config),
        root: "/".into(),
    }
}

fn export(node: &Node, output: &str, overwrite: bool) -> Result<String, String> {
    let output = Some(node.at(output));
    let command = Db::Export {
        paths: paths(node.at("edgecore.yaml")),
        output,
        overwrite,
    };
    let mut out = Vec::new();
    run(&command, &mut out).map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn an_export_is_refused_where_it_would_do_harm() {
    let node = Node::new(false);
    let error = export(&node, "new.db", false).unwrap_err();
    assert!(
        error.ends_with("outrigger.db does not exist: the agent has not run on this node"),
        "{error}"
    );
    node.write(&[pod(), secret()]);
    // another process that has a file open
    let open = |name: &str| {
        let file = fs::File::open(node.at(name)).unwrap();
        std::process::Command::new("sleep")
            .arg("60")
            .stdin(file)
            .spawn()
            .unwrap()
    };
    let mut agent = open("outrigger.db");
    let error = export(&node, "new.db", false).unwrap_err();
    assert!(
        error.starts_with(&format!("process {} has ", agent.id()))
            && error.contains("outrigger.db open"),
        "{error}"
    );
    agent.kill().unwrap();
    agent.wait().unwrap();

    let said = export(&node, "new.db", false).unwrap();
    assert!(said.contains("new.db: rows of meta 2, meta_v2 2"), "{said}");
    let first = fs::read(node.at("new.db")).unwrap();
    assert!(
        export(&node, "new.db", false)
            .unwrap_err()
            .ends_with("new.db exists; --overwrite replaces it")
    );
    assert!(
        export(&node, "outrigger.db", true)
            .unwrap_err()
            .contains("the agent's own database")
    );
    let mut edgecore = open("new.db");
    let error = export(&node, "new.db", true).unwrap_err();
    assert!(error.ends_with("stop EdgeCore first"), "{error}");
    edgecore.kill().unwrap();
    edgecore.wait().unwrap();
    assert_eq!(
        fs::read(node.at("new.db")).unwrap(),
        first,
        "it was not touched"
    );
    export(&node, "new.db", true).unwrap();
    let mode = fs::metadata(node.at("new.db"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_export_decrypts_the_store() {
    let node = Node::new(true);
    run(
        &Db::NewKey {
            file: node.at("keys"),
        },
        &mut Vec::new(),
    )
    .unwrap();
    node.write(&[secret()]);
    export(&node, "new.db", false).unwrap();
    let bytes = fs::read(node.at("new.db")).unwrap();
    assert!(
        bytes.windows(8).any(|part| part == b"c2VzYW1l"),
        "EdgeCore reads no other"
    );
}
