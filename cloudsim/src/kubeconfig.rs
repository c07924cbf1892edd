//! The administrator's kubeconfig: the API's address, its CA, and a client certificate with all rights.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use wire::enroll::{pem_certificate, pem_ec_private_key};

/// The name of the cluster, user and context.
const NAME: &str = "cloudsim";

/// A kubeconfig cannot be written.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kubeconfig {path} cannot be written; choose a directory that you may write to with --kubeconfig"
)]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Returns the text of a kubeconfig; certificates and key are DER, the key SEC1.
pub(crate) fn text(server: &str, ca: &[u8], certificate: &[u8], key: &[u8]) -> String {
    let base64 = |pem: String| STANDARD.encode(pem);
    let (ca, certificate, key) =
        (base64(pem_certificate(ca)), base64(pem_certificate(certificate)), base64(pem_ec_private_key(key)));
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: {NAME}\n  cluster:\n    server: {server}\n    certificate-authority-data: {ca}\n\
         users:\n\
         - name: {NAME}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
         contexts:\n\
         - name: {NAME}\n  context:\n    cluster: {NAME}\n    user: {NAME}\n\
         current-context: {NAME}\n"
    )
}

/// Formats a host for a URL: IPv6 addresses get brackets.
pub fn in_url(name: &str) -> String {
    if name.contains(':') { format!("[{name}]") } else { name.to_owned() }
}

/// Writes `text` atomically, readable by its owner only: kubectl never sees a partial file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |source| WriteError { path: path.to_owned(), source };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // created anew, since an older file could have another mode
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_its_owner_reads_it_and_an_older_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/config");
        for round in ["one", "two"] {
            write(&path, round).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), round);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_place_that_cannot_be_is_named() {
        let error = write(Path::new("/proc/nowhere/config"), "x").unwrap_err().to_string();
        assert!(error.contains("/proc/nowhere/config") && error.contains("--kubeconfig"), "{error}");
    }
}
