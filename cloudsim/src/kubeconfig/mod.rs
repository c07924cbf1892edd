//! The administrator's kubeconfig: the API's address, its CA, and a client certificate with all rights. They are merged into the user's
//! files by the rules of `kubectl config`, and removed again when a cloud that kept nothing ends.

mod document;
mod error;
mod file;
mod merge;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use wire::enroll::{pem_certificate, pem_ec_private_key};

pub use self::error::KubeconfigError;
use self::{document::Document, file::Locked, merge::Files};

/// The name of the cluster, user and context by default.
pub const DEFAULT_CONTEXT: &str = "cloudsim";

/// The field by which entries of clouds are recognized, as minikube marks its own.
const EXTENSIONS: &str = "extensions";

/// Returns the value of that field.
fn mark() -> serde_json::Value {
    serde_json::json!([{"name": "cloudsim", "extension": {"provider": "outrigger.dev/cloudsim"}}])
}

/// The files that a cloud's entries are merged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The files in kubectl's order of precedence. Entries that exist are replaced where they are; new ones are added to the first file
    /// that exists, or else to the last one.
    pub files: Vec<PathBuf>,
    /// The name of the cluster, user and context.
    pub context: String,
    /// Whether the context becomes the current one even if another one is.
    pub make_current: bool,
}

impl From<PathBuf> for Destination {
    fn from(file: PathBuf) -> Self {
        Self {
            files: vec![file],
            context: DEFAULT_CONTEXT.to_owned(),
            make_current: false,
        }
    }
}

impl Destination {
    /// Returns the files of a list as in `$KUBECONFIG`, without empty and repeated ones.
    pub fn list(files: &OsStr) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::new();
        for file in std::env::split_paths(files).filter(|file| !file.as_os_str().is_empty()) {
            if !all.contains(&file) {
                all.push(file);
            }
        }
        all
    }

    /// Returns the file that gets new entries.
    pub fn default_file(&self) -> Option<&Path> {
        merge::default_file(&self.files)
    }

    /// Returns its directory.
    pub fn directory(&self) -> Option<&Path> {
        self.default_file()?.parent()
    }

    /// Checks that every file that exists is a kubeconfig, and that entries of this name are those of a cloud. Returns the file with its
    /// cluster.
    ///
    /// # Errors
    /// A file is no kubeconfig, or cannot be read, or has entries of this name that no cloud wrote.
    pub fn find_cluster(&self) -> Result<Option<PathBuf>, KubeconfigError> {
        let files = Files::read(&self.files)?;
        self.check_unused(&files)?;
        Ok(files.path_of("clusters", &self.context).map(Path::to_owned))
    }

    /// Checks that no entry of this name would be lost: those of an earlier cloud are replaced.
    fn check_unused(&self, files: &Files) -> Result<(), KubeconfigError> {
        let name = &self.context;
        for section in document::SECTIONS {
            if let Some((path, entry)) = files.find(section, name)
                && entry.get(EXTENSIONS) != Some(&mark())
            {
                return Err(KubeconfigError::Taken {
                    path: path.to_owned(),
                    context: name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Merges the entries of a cloud into the files.
    ///
    /// # Errors
    /// A file is no kubeconfig, has other entries of this name, is locked, or cannot be written; then none was changed, unless
    /// the second of two could not be written.
    pub(crate) fn merge(&self, credentials: &Credentials) -> Result<Entries, KubeconfigError> {
        let file = self.default_file().ok_or(KubeconfigError::NoFile)?;
        file::create_directory(file)?;
        let _locked = Locked::take(&self.files)?;
        let mut files = Files::read(&self.files)?;
        self.check_unused(&files)?;
        let entries = credentials.entries(&self.context);
        // An earlier cloud of this name was killed, and could not remove what it had created.
        let mut created = files.paths_with_only(&self.context);
        let file = files
            .path_of("contexts", &self.context)
            .unwrap_or(file)
            .to_owned();
        for (section, entry) in entries {
            files.put(section, &self.context, entry);
        }
        let before = files
            .default_current()
            .filter(|before| *before != self.context)
            .map(str::to_owned);
        let is_current = files.make_current(&self.context, self.make_current);
        created.extend(files.write()?);
        Ok(Entries {
            destination: self.clone(),
            file,
            is_current,
            before,
            created,
            certificate: credentials.certificate.clone(),
            is_temporary: false,
        })
    }
}

/// What a client needs to reach the API with all rights; PEM in base64 except for the server.
pub(crate) struct Credentials {
    server: String,
    ca: String,
    certificate: String,
    key: String,
}

impl Credentials {
    /// Returns credentials; certificates and key are DER, the key SEC1.
    pub(crate) fn new(server: String, ca: &[u8], certificate: &[u8], key: &[u8]) -> Self {
        let base64 = |pem: String| STANDARD.encode(pem);
        let (certificate, key) = (
            base64(pem_certificate(certificate)),
            base64(pem_ec_private_key(key)),
        );
        Self {
            server,
            ca: base64(pem_certificate(ca)),
            certificate,
            key,
        }
    }

    /// Returns the text of a kubeconfig with nothing else.
    pub(crate) fn text(&self) -> Result<String, KubeconfigError> {
        let mut document = Document::default();
        for (section, entry) in self.entries(DEFAULT_CONTEXT) {
            document.put(section, DEFAULT_CONTEXT, entry);
        }
        document.set_current(DEFAULT_CONTEXT);
        document
            .text()
            .map_err(|source| KubeconfigError::Text(Box::new(source)))
    }

    /// Returns the entry of each section.
    fn entries(&self, name: &str) -> [(&'static str, serde_json::Value); 3] {
        let Self {
            server,
            ca,
            certificate,
            key,
        } = self;
        [
            (
                "clusters",
                serde_json::json!({"certificate-authority-data": ca, "server": server}),
            ),
            (
                "users",
                serde_json::json!({"client-certificate-data": certificate, "client-key-data": key}),
            ),
            (
                "contexts",
                serde_json::json!({"cluster": name, "user": name}),
            ),
        ]
        .map(|(section, mut entry)| {
            entry[EXTENSIONS] = mark();
            (section, entry)
        })
    }
}

/// The entries of a running cloud in the user's files. For a cloud without a data directory, they are removed on drop.
#[derive(Debug)]
pub struct Entries {
    destination: Destination,
    file: PathBuf,
    is_current: bool,
    /// The current context that this one has replaced.
    before: Option<String>,
    created: Vec<PathBuf>,
    certificate: String,
    is_temporary: bool,
}

impl Entries {
    /// Returns the file with the context.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the name of the context.
    pub fn context(&self) -> &str {
        &self.destination.context
    }

    /// Reports whether the context is the current one of the files.
    pub fn is_current(&self) -> bool {
        self.is_current
    }

    /// Removes the entries when this value is dropped: they are useless without the cloud.
    pub(crate) fn make_temporary(&mut self) {
        self.is_temporary = true;
    }

    /// Removes the entries unless those of another cloud have replaced them, and files that were created for nothing else.
    fn remove(&self) -> Result<(), KubeconfigError> {
        let name = &self.destination.context;
        let _locked = Locked::take(&self.destination.files)?;
        let mut files = Files::read(&self.destination.files)?;
        if files.certificate_of(name) != Some(&self.certificate) {
            return Ok(());
        }
        for section in document::SECTIONS {
            files.remove(section, name);
        }
        files.restore_current(name, self.before.as_deref());
        files.remove_empty(&self.created)?;
        files.write().map(drop)
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if !self.is_temporary {
            return;
        }
        if let Err(error) = self.remove() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                file = %self.file.display(),
                "failed to remove the entries of this cloud from the kubeconfig"
            );
        }
    }
}

/// Formats a host for a URL: IPv6 addresses get brackets.
pub fn in_url(name: &str) -> String {
    if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    }
}
