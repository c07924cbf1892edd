//! Reads edgecore.yaml v1alpha2 and converts it to typed settings.
//!
//! The file is merged into EdgeCore's own default document ([`mod@overlay`]), deserialized in its own form ([`mod@file`]) and
//! converted to [`Config`] ([`mod@convert`]). A wrong type or value is a [`FieldError`] and prevents the start, all of them reported
//! together; an unknown or unused key is a [`Warning`].

mod convert;
mod document;
mod duration;
mod file;
mod fill;
mod header;
mod host;
mod names;
mod overlay;
mod report;
mod token;
mod typed;
mod update;

use std::{
    fmt::Display,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use componentbase::yaml::{self, NotYaml};
use serde_json::Value;

pub use self::{
    convert::disabled_eviction,
    document::{default_config, minimal_config},
    host::Host,
    names::{check_label_key, check_label_value, is_subdomain},
    report::{FieldError, Warning, WarningKind},
    token::remove_token,
    typed::*,
};
pub(crate) use self::{
    fill::{fill, relocate},
    host::is_of_node,
    token::replace_like,
    update::update,
};
use self::{overlay::SchemaNode, report::Report};

/// EdgeCore's default path.
pub const DEFAULT_PATH: &str = "/etc/kubeedge/config/edgecore.yaml";

/// The largest file that is read, bytes; the complete default file has 6 KiB.
const MAX_BYTES: u64 = 1024 * 1024;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not exist.
    #[error(
        "{path} does not exist; check the path, join a cloud with `edge-agent join`, or create a minimal configuration: `{}edge-agent \
         --minconfig > {path}`",
        make_folder(path)
    )]
    Missing {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {path}; check that it is a text file, and that this user may read it")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The file cannot be replaced.
    #[error("cannot write {path}; check that its folder exists, is writable and has free space")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The token cannot be removed alone.
    #[error(
        "cannot remove the used join token from {0}; remove modules.edgeHub.token from the file"
    )]
    TokenStays(PathBuf),
    /// The file is larger than any configuration.
    #[error("{0} has more than {MAX_BYTES} bytes; this is not an edgecore.yaml")]
    TooLarge(PathBuf),
    /// The file is empty.
    #[error(
        "{0} has no settings; write a minimal configuration with `edge-agent --minconfig > {0}`"
    )]
    Empty(PathBuf),
    /// The file sets nothing of the agent.
    #[error(
        "{path} has no `modules`{}, so the node would have no cloud; join a cloud with `edge-agent join`, or write a configuration with \
         `edge-agent --minconfig > {path}`",
        near.as_ref().map_or_else(String::new, |near| format!(" (is {near:?} a typing error?)"))
    )]
    NoModules {
        /// The path of the file.
        path: PathBuf,
        /// A key that may have been meant.
        near: Option<String>,
    },
    /// The file is not YAML.
    #[error("{path} is not YAML")]
    Yaml {
        /// The path of the file.
        path: PathBuf,
        /// The error of the parser, with the position.
        #[source]
        source: NotYaml,
    },
    /// Settings have wrong values.
    #[error(
        "{path} has {} to correct:{}{}",
        describe_count(errors),
        lines(errors),
        lines(typos)
    )]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// All errors.
        errors: Vec<FieldError>,
        /// The mistyped keys of the same file, which may be the reason.
        typos: Vec<Warning>,
    },
}

/// Parses `HOST[:PORT]`: an IPv6 address needs brackets if a port follows.
///
/// # Errors
/// It is neither a name nor an address, or the port is invalid.
pub fn host_port_or(text: &str, port: u16) -> Result<HostPort, &'static str> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(text).parse::<std::net::Ipv6Addr>() {
        return Ok(HostPort {
            host: address.to_string(),
            port,
        });
    }
    if text.contains(':') {
        convert::parse_host_port(text)
    } else {
        convert::parse_host_port(&format!("{text}:{port}"))
    }
}

/// Reads the configuration at `path`, with the token of a bootstrap file beside it if there is one.
///
/// # Errors
/// The file is missing, too large or not YAML, or at least one setting has a wrong type or value.
pub fn load(path: &Path) -> Result<(Config, Vec<Warning>), Error> {
    let text = read_limited(path)?;
    let token = token::bootstrap_token(path)?;
    let missing = header::check(path, &parse_yaml(path, &text)?)?;
    let (config, mut warnings) = parse(path, &text, token, &Host::detect())?;
    warnings.extend(missing);
    Ok((config, warnings))
}

/// Reads the configuration at `path` for a command that needs only its paths: it may set no module.
///
/// # Errors
/// As [`load`].
pub fn load_paths(path: &Path) -> Result<Config, Error> {
    let text = read_limited(path)?;
    parse(path, &text, None, &Host::detect()).map(|(config, _)| config)
}

/// Parses a configuration with a given token and host.
pub(crate) fn parse(
    path: &Path,
    text: &str,
    token: Option<String>,
    host: &Host,
) -> Result<(Config, Vec<Warning>), Error> {
    let mut parsed = parse_document(path, parse_yaml(path, text)?, token, host);
    add_lines(text, &mut parsed);
    parsed
}

/// Adds the lines of errors and warnings, and sorts them. Those that the file does not set come last.
fn add_lines(text: &str, parsed: &mut Result<(Config, Vec<Warning>), Error>) {
    let (errors, warnings) = match parsed {
        Ok((_, warnings)) => (None, warnings),
        Err(Error::Invalid { errors, typos, .. }) => (Some(errors), typos),
        Err(_) => return,
    };
    let Some(positions) = yaml::positions(text) else {
        return;
    };
    if let Some(errors) = errors {
        for error in errors.iter_mut() {
            error.line = positions.line(&error.path);
        }
        errors.sort_by_key(|error| error.line.unwrap_or(u64::MAX));
    }
    for warning in warnings.iter_mut() {
        warning.line = positions.line(warning.path());
    }
    warnings.sort_by_key(|warning| warning.line.unwrap_or(u64::MAX));
}

fn parse_yaml(path: &Path, text: &str) -> Result<Value, Error> {
    if yaml::is_empty(text) {
        return Err(Error::Empty(path.to_owned()));
    }
    yaml::parse(text).map_err(|source| Error::Yaml {
        path: path.to_owned(),
        source,
    })
}

/// Merges the user's document into the default one, and converts the result.
fn parse_document(
    path: &Path,
    user: Value,
    token: Option<String>,
    host: &Host,
) -> Result<(Config, Vec<Warning>), Error> {
    let known = document::known_documents(host);
    let (mut document, shape) = known.map_err(|source| Error::Yaml {
        path: path.to_owned(),
        source,
    })?;
    let mut report = Report::default();
    let used = used_keys(&shape, &mut report);
    overlay::overlay(
        &mut document,
        SchemaNode {
            shape: &shape,
            used: Some(&used),
        },
        user,
        "",
        &mut report,
    );
    if let Some(token) = token {
        set_token(&mut document, token);
    }
    let config = read(document, &mut report).map(|file| convert::convert(file, &mut report));
    match config {
        Some(config) if report.errors.is_empty() => Ok((config, report.warnings)),
        _ => Err(Error::Invalid {
            path: path.to_owned(),
            errors: report.errors,
            typos: (report.warnings.into_iter())
                .filter(Warning::is_typo)
                .collect(),
        }),
    }
}

/// Returns a value of the right type for every key.
#[cfg(test)]
pub(crate) fn shape(host: &Host) -> Result<Value, NotYaml> {
    document::known_documents(host).map(|(_, shape)| shape)
}

/// Returns the keys that the agent uses: the shape after deserializing and serializing it.
fn used_keys(shape: &Value, report: &mut Report) -> Value {
    read(shape.clone(), report)
        .and_then(|file| serde_json::to_value(file).ok())
        .unwrap_or_default()
}

/// Deserializes the document. This cannot fail after the overlay has checked the types; if it does, the error is reported.
fn read(document: Value, report: &mut Report) -> Option<file::File> {
    let read = serde_json::from_value(document);
    if let Err(error) = &read
        && report.errors.is_empty()
    {
        report.error("the document", error.to_string());
    }
    read.ok()
}

fn set_token(document: &mut Value, token: String) {
    if let Some(slot) = document.pointer_mut("/modules/edgeHub/token") {
        *slot = Value::String(token);
    }
}

fn read_limited(path: &Path) -> Result<String, Error> {
    let read = |source: io::Error| {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path },
            _ => Error::Read { path, source },
        }
    };
    let mut text = String::new();
    let file = limits::open_regular_file(path, fs::OpenOptions::new().read(true)).map_err(read)?;
    let size = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    // a large file is refused as such, even if it was cut inside a character
    match size {
        Ok(size) if size as u64 <= MAX_BYTES => Ok(text),
        Err(source) if fs::metadata(path).map_or(true, |file| file.len() <= MAX_BYTES) => {
            Err(read(source))
        }
        _ => Err(Error::TooLarge(path.to_owned())),
    }
}

fn describe_count(errors: &[FieldError]) -> String {
    match errors.len() {
        1 => "one setting".to_owned(),
        count => format!("{count} settings"),
    }
}

fn lines(all: &[impl Display]) -> String {
    all.iter().map(|one| format!("\n  {one}")).collect()
}

/// Returns the command that creates the folder of a file, if there is none.
fn make_folder(file: &Path) -> String {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            format!("mkdir -p {} && ", folder.display())
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
