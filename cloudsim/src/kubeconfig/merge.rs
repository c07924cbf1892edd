//! Several kubeconfigs as one, by kubectl's rules: an entry is that of the first file that has it, and changes there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    KubeconfigError,
    document::{Document, SECTIONS},
    file,
};

/// Files in the order of precedence. Each is written only if it changed.
#[derive(Debug)]
pub(super) struct Files {
    all: Vec<ReadFile>,
    /// The index of the file that gets new entries.
    default: usize,
}

#[derive(Debug)]
struct ReadFile {
    path: PathBuf,
    /// `None`: the file does not exist.
    before: Option<Document>,
    now: Document,
}

/// Returns the file that gets new entries: the first one that exists, or else the last one.
pub(super) fn default_file(paths: &[PathBuf]) -> Option<&Path> {
    paths
        .iter()
        .find(|path| path.exists())
        .or(paths.last())
        .map(PathBuf::as_path)
}

impl Files {
    /// Reads all files that exist.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, KubeconfigError> {
        let mut all = Vec::new();
        for path in paths {
            let before = file::read(path)?;
            all.push(ReadFile {
                path: path.clone(),
                now: before.clone().unwrap_or_default(),
                before,
            });
        }
        let default =
            default_file(paths).and_then(|default| paths.iter().position(|path| *path == default));
        Ok(Self {
            all,
            default: default.unwrap_or_default(),
        })
    }

    /// Returns the entry that is in effect, with its file.
    pub(super) fn find(&self, section: &str, name: &str) -> Option<(&Path, &Value)> {
        self.all
            .iter()
            .find_map(|file| Some((file.path.as_path(), file.now.get(section, name)?)))
    }

    /// Returns the file with this entry.
    pub(super) fn path_of(&self, section: &str, name: &str) -> Option<&Path> {
        self.find(section, name).map(|(path, _)| path)
    }

    /// Returns the current context in the file that gets new entries.
    pub(super) fn default_current(&self) -> Option<&str> {
        self.all.get(self.default)?.now.current()
    }

    /// Returns the client certificate of a user, as it is in the file.
    pub(super) fn certificate_of(&self, user: &str) -> Option<&str> {
        let user = self
            .all
            .iter()
            .find_map(|file| file.now.get("users", user))?;
        user.get("client-certificate-data").and_then(Value::as_str)
    }

    /// Adds an entry, or replaces that of this name where it is.
    pub(super) fn put(&mut self, section: &str, name: &str, content: Value) {
        let index = self
            .all
            .iter()
            .position(|file| file.now.get(section, name).is_some());
        if let Some(file) = self.all.get_mut(index.unwrap_or(self.default)) {
            file.now.put(section, name, content);
        }
    }

    /// Removes the entry that is in effect.
    pub(super) fn remove(&mut self, section: &str, name: &str) {
        if let Some(file) = self
            .all
            .iter_mut()
            .find(|file| file.now.get(section, name).is_some())
        {
            file.now.remove(section, name);
        }
    }

    /// Returns the files with nothing but entries of this name. A link is the user's.
    pub(super) fn paths_with_only(&self, name: &str) -> Vec<PathBuf> {
        let has_only = |file: &&ReadFile| {
            let mut rest = file.now.clone();
            SECTIONS
                .iter()
                .for_each(|section| rest.remove(section, name));
            if rest.current() == Some(name) {
                rest.set_current("");
            }
            rest != file.now && rest.is_empty() && !file.path.is_symlink()
        };
        let files = self.all.iter().filter(has_only);
        files.map(|file| file.path.clone()).collect()
    }

    /// Makes a context the current one if none is, or in any case. Returns whether it is.
    pub(super) fn make_current(&mut self, name: &str, always: bool) -> bool {
        let current = self
            .all
            .iter()
            .find_map(|file| file.now.current())
            .map(str::to_owned);
        match current {
            Some(current) if current == name => true,
            Some(_) if !always => false,
            _ => {
                if let Some(file) = self.all.get_mut(self.default) {
                    file.now.set_current(name);
                }
                true
            }
        }
    }

    /// If the current context is this one, sets the one before it again, or none if that no longer exists.
    pub(super) fn restore_current(&mut self, name: &str, before: Option<&str>) {
        let before = before
            .filter(|before| self.path_of("contexts", before).is_some())
            .unwrap_or_default();
        let first = self
            .all
            .iter_mut()
            .find(|file| file.now.current().is_some());
        if let Some(file) = first.filter(|file| file.now.current() == Some(name)) {
            file.now.set_current(before);
        }
    }

    /// Deletes those of the files `among` that have become empty.
    pub(super) fn remove_empty(&mut self, among: &[PathBuf]) -> Result<(), KubeconfigError> {
        let (empty, rest) = std::mem::take(&mut self.all)
            .into_iter()
            .partition::<Vec<_>, _>(|file| among.contains(&file.path) && file.now.is_empty());
        self.all = rest;
        self.default = 0;
        for file in empty.into_iter().filter(|file| file.before.is_some()) {
            fs::remove_file(&file.path).map_err(|source| KubeconfigError::Write {
                path: file.path,
                source,
            })?;
        }
        Ok(())
    }

    /// Writes the files that changed. Returns those that did not exist before.
    pub(super) fn write(self) -> Result<Vec<PathBuf>, KubeconfigError> {
        let mut created = Vec::new();
        for file in self.all {
            let unchanged = match &file.before {
                Some(before) => *before == file.now,
                None => file.now.is_empty(),
            };
            if unchanged {
                continue;
            }
            let text = file
                .now
                .text()
                .map_err(|source| KubeconfigError::Text(Box::new(source)))?;
            file::write(&file.path, &text)?;
            if file.before.is_none() {
                created.push(file.path);
            }
        }
        Ok(created)
    }
}
