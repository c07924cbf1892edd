//! Key files and values, whole and worse.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn key(name: &str) -> Key {
    Key::new(Resource::new("", "secrets"), "a", name)
}

fn with_file(text: &str, mode: u32) -> Result<Seal, SealError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    Seal::from_file(&path, vec![Resource::new("", "secrets")])
}

#[test]
fn key_files() {
    let good = Seal::new_key().unwrap();
    assert!(with_file(&good, 0o600).is_ok());
    assert!(
        with_file(
            &format!("# since May\n\n  {good}  \n{}\n", Seal::new_key().unwrap()),
            0o400
        )
        .is_ok()
    );
    assert!(matches!(with_file(&good, 0o640), Err(SealError::Open(_))));
    assert!(matches!(
        with_file("# none\n", 0o600),
        Err(SealError::Empty(_))
    ));
    for bad in ["", "x", "AAAA", &good[..40], &format!("{good}{good}")] {
        let error = with_file(&format!("{good}\n{bad}!\n"), 0o600).expect_err(bad);
        assert!(matches!(error, SealError::NoKey { line: 2, .. }), "{error}");
        assert!(!error.to_string().contains(&good), "a key is in a message");
    }
    assert!(matches!(
        Seal::from_file(Path::new("/no/such/file"), Vec::new()),
        Err(SealError::Read { .. })
    ));
    let error =
        Seal::from_text("the key \"k\" of a keyring", "no key", Vec::new()).expect_err("no key");
    assert!(
        error
            .to_string()
            .starts_with("line 1 of the key \"k\" of a keyring is not a 32-byte key"),
        "{error}"
    );
}

#[test]
fn key_file_is_the_owners_alone_or_a_credential_of_systemd() {
    for (mode, user, group, expected) in [
        (0o100_600, 1000, 1000, true),
        (0o100_400, 0, 0, true),
        (0o100_440, 0, 0, true),
        (0o100_440, 0, 1000, false),
        (0o100_440, 1000, 0, false),
        (0o100_640, 0, 0, false),
        (0o100_444, 0, 0, false),
    ] {
        assert_eq!(
            is_private(mode, user, group),
            expected,
            "{mode:o} {user}:{group}"
        );
    }
}

#[test]
fn what_is_sealed_can_be_opened_in_its_place_only() {
    let seal = with_file(&Seal::new_key().unwrap(), 0o600).unwrap();
    let value = seal.seal(&key("x"), 7, b"{\"open\":\"sesame\"}").unwrap();
    assert!(!value.windows(6).any(|part| part == b"sesame"));
    assert_ne!(
        value,
        seal.seal(&key("x"), 7, b"{\"open\":\"sesame\"}").unwrap(),
        "the same nonce twice"
    );
    assert_eq!(
        seal.open(&key("x"), 7, value.clone()).unwrap(),
        b"{\"open\":\"sesame\"}"
    );
    for (other, revision) in [(key("y"), 7), (key("x"), 8)] {
        assert!(matches!(
            seal.open(&other, revision, value.clone()),
            Err(SealError::Forged(_))
        ));
    }
    for byte in 5..value.len() {
        let mut value = value.clone();
        value[byte] ^= 1;
        assert!(
            matches!(seal.open(&key("x"), 7, value), Err(SealError::Forged(_))),
            "byte {byte}"
        );
    }
    for length in 0..value.len() {
        assert!(
            seal.open(&key("x"), 7, value[..length].to_vec()).is_err(),
            "{length} bytes"
        );
    }
}

#[test]
fn a_new_key_seals_and_an_old_one_opens() {
    let (old, new) = (Seal::new_key().unwrap(), Seal::new_key().unwrap());
    let before = with_file(&old, 0o600).unwrap();
    let after = with_file(&format!("{new}\n{old}"), 0o600).unwrap();
    let secrets = Resource::new("", "secrets");
    let value = before.seal(&key("x"), 1, b"{}").unwrap();
    assert_eq!(after.open(&key("x"), 1, value.clone()).unwrap(), b"{}");
    assert!(before.is_up_to_date(&secrets, &value) && !after.is_up_to_date(&secrets, &value));
    assert!(
        !before.is_up_to_date(&secrets, b"{}")
            && before.is_up_to_date(&Resource::new("", "pods"), b"{}")
    );
    let value = after.seal(&key("x"), 1, b"{}").unwrap();
    assert!(matches!(
        before.open(&key("x"), 1, value),
        Err(SealError::WrongKey(_))
    ));
    assert!(!format!("{after:?}").contains(&new));
}
