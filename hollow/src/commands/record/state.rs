//! What the proxy stores, so that it can be restarted: its CA, the CA of the cloud, and the nodes' certificates and keys at the cloud.
//!
//! All files are PEM, are replaced as a whole, and are readable only by their owner.

use std::{
    fs::{self, DirBuilder, File},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use limits::read_regular_file;
use nix::unistd::geteuid;
use peer::identity::Identity;
use rustls_pki_types::{CertificateDer, PrivateSec1KeyDer, pem::PemObject};
use wire::enroll::{Ca, is_node_name, pem_certificate, pem_ec_private_key};

/// The largest file that is read, bytes.
const MAX_BYTES: u64 = 64 * 1024;
const CA: &str = "ca.pem";
const CLOUD_CA: &str = "cloud-ca.pem";
const NODES: &str = "nodes";
/// Locked while a proxy uses the directory.
const LOCK: &str = "lock";

/// The directory of a proxy.
pub(super) struct State {
    folder: PathBuf,
    ca: Ca,
    _lock: File,
}

impl State {
    /// Opens a directory, or creates it with a new CA.
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.display();
        let nodes = folder.join(NODES);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&nodes)
            .with_context(|| format!("cannot create {name}; choose another --data-dir"))?;
        for folder in [folder, &nodes] {
            let found =
                fs::symlink_metadata(folder).with_context(|| format!("cannot read {name}"))?;
            let is_own = found.is_dir() && found.uid() == geteuid().as_raw();
            if !is_own || found.mode() & 0o022 != 0 {
                bail!("other users can write to {name}; choose another --data-dir");
            }
        }
        // keys that others could read are none
        for folder in [folder, &nodes] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).with_context(|| {
                format!("cannot make {name} private; choose another --data-dir")
            })?;
        }
        let mut options = File::options();
        options.write(true).create(true).mode(0o600);
        let lock = options.open(folder.join(LOCK));
        let lock = lock.with_context(|| format!("cannot write to {name}"))?;
        if lock.try_lock().is_err() {
            bail!("{name} is used by another proxy; choose another --data-dir");
        }
        let ca = match read(&folder.join(CA))? {
            Some(stored) => Ca::from_der(&stored.certificate, &stored.key)
                .with_context(|| format!("cannot use {name}/{CA}"))?,
            None => {
                let ca = Ca::generate(clock::system_now())?;
                let text = pem(ca.cert_der(), ca.key_sec1_der());
                write(folder, CA, &text)?;
                ca
            }
        };
        Ok(Self {
            folder: folder.to_owned(),
            ca,
            _lock: lock,
        })
    }

    /// Returns the directory.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the proxy's CA.
    pub(super) fn ca(&self) -> &Ca {
        &self.ca
    }

    /// Returns the CA of the cloud, DER, if it was stored.
    pub(super) fn cloud_ca(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.folder.join(CLOUD_CA);
        let Some(text) = read_file(&path)? else {
            return Ok(None);
        };
        let certificate = CertificateDer::from_pem_slice(&text);
        let certificate = certificate.with_context(|| damage(&path))?;
        Ok(Some(certificate.to_vec()))
    }

    /// Stores the CA of the cloud.
    pub(super) fn set_cloud_ca(&self, ca: &[u8]) -> anyhow::Result<()> {
        write(&self.folder, CLOUD_CA, &pem_certificate(ca))
    }

    /// Returns a node's certificate and key at the cloud, if it has enrolled.
    pub(super) fn identity(&self, node: &str) -> anyhow::Result<Option<Identity>> {
        read(&self.folder.join(NODES).join(file_name(node)?))
    }

    /// Stores a node's certificate and key at the cloud.
    pub(super) fn set_identity(&self, node: &str, identity: &Identity) -> anyhow::Result<()> {
        let text = pem(&identity.certificate, &identity.key);
        write(&self.folder.join(NODES), &file_name(node)?, &text)
    }
}

fn file_name(node: &str) -> anyhow::Result<String> {
    // a name of a node has no `/`
    if !is_node_name(node) {
        bail!("{node:?} is no name of a node");
    }
    Ok(format!("{node}.pem"))
}

fn damage(path: &Path) -> String {
    let path = path.display();
    format!("cannot use {path}; restore it, or choose another --data-dir and join the nodes again")
}

fn pem(certificate: &[u8], key: &[u8]) -> String {
    pem_certificate(certificate) + &pem_ec_private_key(key)
}

fn read_file(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match read_regular_file(path, MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| damage(path)),
    }
}

/// Reads a certificate and its key.
fn read(path: &Path) -> anyhow::Result<Option<Identity>> {
    let Some(text) = read_file(path)? else {
        return Ok(None);
    };
    let certificate = CertificateDer::from_pem_slice(&text);
    let key = PrivateSec1KeyDer::from_pem_slice(&text);
    Ok(Some(Identity {
        certificate: certificate.with_context(|| damage(path))?.to_vec(),
        key: key
            .with_context(|| damage(path))?
            .secret_sec1_der()
            .to_vec(),
    }))
}

/// Replaces a file as a whole. Temporary files are readable only by their owner, and become the file.
fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let written = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(folder.join(name))?;
        Ok(())
    };
    written().with_context(|| format!("cannot write {}/{name}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ca_and_keys_survive_a_restart_and_are_private() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("proxy");
        let state = State::open(&folder).unwrap();
        let ca = state.ca().cert_der().to_vec();
        let identity = Identity {
            certificate: ca.clone(),
            key: state.ca().key_sec1_der().to_vec(),
        };
        state.set_identity("edge-1", &identity).unwrap();
        state.set_cloud_ca(&ca).unwrap();
        assert!(State::open(&folder).is_err(), "two proxies at a time");
        drop(state);
        let state = State::open(&folder).unwrap();
        assert_eq!(state.ca().cert_der(), ca);
        assert_eq!(state.cloud_ca().unwrap(), Some(ca));
        let stored = state.identity("edge-1").unwrap().unwrap();
        assert_eq!(stored.key, identity.key);
        assert!(state.identity("edge-2").unwrap().is_none());
        assert!(state.identity("../ca").is_err());
        for file in ["ca.pem", "cloud-ca.pem", "nodes/edge-1.pem"] {
            let mode = fs::metadata(folder.join(file))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o077, 0, "{file}");
        }
        fs::write(folder.join("nodes/edge-1.pem"), "damaged").unwrap();
        let error = state.identity("edge-1").err().unwrap().to_string();
        assert!(error.contains("edge-1.pem"), "{error}");
    }
}
