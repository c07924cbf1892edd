//! The credentials of clients on this machine, as files in one directory: a kubeconfig with the token and the CA, MetaServer's
//! certificate, and its key. All stay over restarts, so that a client may keep a copy.

use std::{
    fs,
    io::{self, ErrorKind, Read},
    net::{IpAddr, SocketAddr},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use componentbase::yaml;
use nix::{
    fcntl::OFlag,
    unistd::{Group, Uid},
};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use wire::enroll::{Ca, CertError, pem_certificate, pem_ec_private_key, server_names_of};

use super::Loopback;
use crate::file;

/// The file that clients use.
pub(super) const KUBECONFIG: &str = "metaserver.kubeconfig";
/// The file of MetaServer's certificate and its CA.
const CERT: &str = "metaserver-loopback.crt";
const KEY: &str = "metaserver-loopback.key";
/// The largest file that is read, bytes; far beyond the size of any of these.
const MAX_BYTES: u64 = 64 * 1024;
const TOKEN_BYTES: usize = 32;
/// The names that every certificate is for.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// One of the files cannot be written or read.
    #[error("cannot write {path}; check that its folder exists, is writable and has free space")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The certificate cannot be generated.
    #[error(
        "cannot create a certificate for the loopback interface; check allowedHosts of modules.metaManager.metaServer"
    )]
    Certificate(#[source] CertError),
    /// The generated certificate is not accepted.
    #[error("the certificate for the loopback interface cannot be used")]
    Tls(#[from] rustls::Error),
    /// The configured group does not exist.
    #[error(
        "modules.metaManager.metaServer.clientGroup is {0:?}, but this machine has no such group"
    )]
    Group(String),
}

/// Returns the paths of all files in `directory`.
pub fn files(directory: &Path) -> [PathBuf; 3] {
    [KUBECONFIG, CERT, KEY].map(|name| directory.join(name))
}

/// The credentials of clients on this machine.
pub(in super::super) struct Credentials {
    /// The bearer token of requests.
    pub(in super::super) token: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    path: PathBuf,
    gid: Option<u32>,
}

impl Credentials {
    /// Reads the credentials, or generates new ones if a file is missing, damaged, or accessible to other users.
    pub(in super::super) fn load(
        config: &Loopback,
        address: IpAddr,
    ) -> Result<Self, CredentialsError> {
        let gid = config.group.as_deref().map(group).transpose()?;
        let [path, cert, key] = files(&config.directory);
        let names: Vec<String> = LOOPBACK_NAMES
            .map(str::to_owned)
            .into_iter()
            .chain([address.to_string()])
            .chain(config.hosts.clone())
            .collect();
        let (chain, key) = match load_certificate(&cert, &key, &names) {
            Some(found) => found,
            None => new_certificate(&cert, &key, names)?,
        };
        let token = stored_token(&path, gid).unwrap_or_else(new_token);
        Ok(Self {
            token,
            chain,
            key,
            path,
            gid,
        })
    }

    /// Builds the TLS configuration, without client certificates.
    pub(in super::super) fn tls(&self) -> Result<ServerConfig, CredentialsError> {
        let tls = ServerConfig::builder().with_no_client_auth();
        Ok(tls.with_single_cert(self.chain.clone(), self.key.clone_key())?)
    }

    /// Writes the kubeconfig for a server at `address`.
    pub(in super::super) fn write_kubeconfig(
        &self,
        address: SocketAddr,
    ) -> Result<(), CredentialsError> {
        let failed = |source| CredentialsError::File {
            path: self.path.clone(),
            source,
        };
        let ca = self
            .chain
            .last()
            .map(|ca| pem_certificate(ca))
            .unwrap_or_default();
        let text = format!(
            "# MetaServer on this node. Whoever can read this file can use it.\n\
             apiVersion: v1\nkind: Config\ncurrent-context: metaserver\n\
             clusters:\n- name: metaserver\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {}\n\
             contexts:\n- name: metaserver\n  context:\n    cluster: metaserver\n    user: metaserver\n\
             users:\n- name: metaserver\n  user:\n    token: {}\n",
            STANDARD.encode(ca),
            self.token,
        );
        file::replace(&self.path, text.as_bytes(), 0o600).map_err(failed)?;
        if self.gid.is_some() {
            chown(&self.path, None, self.gid).map_err(failed)?;
            fs::set_permissions(&self.path, fs::Permissions::from_mode(0o640)).map_err(failed)?;
        }
        Ok(())
    }
}

/// Removes a kubeconfig that was written while accounts were not checked: its token is not valid any more.
pub(in super::super) fn remove_stale_kubeconfig(directory: &Path) {
    let path = directory.join(KUBECONFIG);
    match fs::remove_file(&path) {
        Ok(()) => {
            tracing::info!(path = %path.display(), "kubeconfig removed: requireAuthorization is true")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "failed to remove the outdated kubeconfig");
        }
    }
}

/// Returns a group's number.
fn group(name: &str) -> Result<u32, CredentialsError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = Group::from_name(name).ok().flatten();
    found
        .map(|group| group.gid.as_raw())
        .ok_or_else(|| CredentialsError::Group(name.to_owned()))
}

/// Reads a file that belongs to this user and that no other user can read or write, except that `gid` may read it.
fn read_private(path: &Path, gid: Option<u32>) -> Option<String> {
    let not_followed = OFlag::O_NOFOLLOW.bits();
    let file = match fs::OpenOptions::new()
        .read(true)
        .custom_flags(not_followed)
        .open(path)
    {
        Ok(file) => file,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "cannot read file; file will be recreated");
            }
            return None;
        }
    };
    let metadata = file.metadata().ok()?;
    let for_group = if gid == Some(metadata.gid()) {
        0o040
    } else {
        0
    };
    let is_private = metadata.is_file()
        && metadata.uid() == Uid::effective().as_raw()
        && metadata.mode() & 0o077 & !for_group == 0;
    if !is_private {
        tracing::warn!(
            path = %path.display(),
            "credentials file exposed to other users; recreating the file with new contents"
        );
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn stored_token(path: &Path, gid: Option<u32>) -> Option<String> {
    let document = yaml::parse(&read_private(path, gid)?).ok()?;
    let token = document.pointer("/users/0/user/token")?.as_str()?;
    let is_whole =
        token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| token.to_owned())
}

fn new_token() -> String {
    clock::rng()
        .random::<[u8; TOKEN_BYTES]>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

type Chain = Vec<CertificateDer<'static>>;

/// Reads the certificate and key from the files, if they are complete and for all of these names.
fn load_certificate(
    cert: &Path,
    key: &Path,
    wanted: &[String],
) -> Option<(Chain, PrivateKeyDer<'static>)> {
    let key = PrivateKeyDer::from_pem_slice(read_private(key, None)?.as_bytes()).ok()?;
    let chain: Chain = CertificateDer::pem_slice_iter(fs::read_to_string(cert).ok()?.as_bytes())
        .collect::<Result<_, _>>()
        .ok()?;
    let (names, addresses) = server_names_of(chain.first().filter(|_| chain.len() == 2)?).ok()?;
    let is_for = |wanted: &String| match wanted.parse::<IpAddr>() {
        Ok(address) => addresses.contains(&address),
        Err(_) => names.contains(wanted),
    };
    let provider = rustls::crypto::ring::default_provider();
    let fits =
        rustls::sign::CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider).is_ok();
    (fits && wanted.iter().all(is_for)).then_some((chain, key))
}

/// Generates a certificate of a new CA whose key is not kept.
fn new_certificate(
    cert: &Path,
    key: &Path,
    names: Vec<String>,
) -> Result<(Chain, PrivateKeyDer<'static>), CredentialsError> {
    let now = clock::system_now();
    let ca = Ca::generate(now).map_err(CredentialsError::Certificate)?;
    let (signed, sec1) = ca
        .sign_server(names, now)
        .map_err(CredentialsError::Certificate)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CredentialsError::File { path, source }
    };
    file::replace(key, pem_ec_private_key(&sec1).as_bytes(), 0o600).map_err(failed(key))?;
    let chain = format!(
        "{}{}",
        pem_certificate(&signed),
        pem_certificate(ca.cert_der())
    );
    file::replace(cert, chain.as_bytes(), 0o644).map_err(failed(cert))?;
    let chain = vec![
        CertificateDer::from(signed),
        CertificateDer::from(ca.cert_der().to_vec()),
    ];
    Ok((chain, PrivateKeyDer::Sec1(sec1.into())))
}
