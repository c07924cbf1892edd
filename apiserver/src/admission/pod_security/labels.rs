//! Parses the Pod Security labels of a namespace.

use std::fmt;

use serde_json::Value;

use kubeapi::cause::Cause;

/// The prefix of the labels.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// A Pod Security level, the least strict first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// `privileged`: unrestricted.
    Privileged,
    /// `baseline`: prevents known privilege escalations.
    Baseline,
    /// `restricted`: hardened pods.
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

/// The version of the checks: a minor version of Kubernetes 1, or the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// `v1.30`
    Minor(u32),
    /// `latest`
    Latest,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_canonical = minor == "0" || !minor.starts_with('0');
        let is_number = minor.bytes().all(|byte| byte.is_ascii_digit());
        (is_canonical && is_number)
            .then(|| minor.parse().ok())
            .flatten()
            .map(Self::Minor)
    }
}

/// A level with the version of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl Standard {
    const PRIVILEGED: Self = Self {
        level: Level::Privileged,
        version: Version::Latest,
    };

    /// Reports whether pods that satisfy `before` may violate this standard.
    pub(super) fn is_stricter_than(self, before: Self) -> bool {
        self != before
            && self.level != Level::Privileged
            && (self.version != before.version || self.level > before.level)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
            Version::Latest => write!(f, "{level}:latest"),
        }
    }
}

/// The Pod Security policy of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Violating pods are refused.
    pub(super) enforce: Standard,
    /// Violations are logged for the audit.
    pub(super) audit: Standard,
    /// Violations cause a warning.
    pub(super) warn: Standard,
}

impl Policy {
    /// Parses the labels of `namespace`, and returns the faults: an invalid level is enforced as `restricted`, and neither audited nor
    /// warned about.
    pub(super) fn of(namespace: &Value) -> (Self, Vec<Cause>) {
        let mut reader = LabelParser {
            labels: namespace.pointer("/metadata/labels"),
            faults: Vec::new(),
        };
        let (enforce, is_enforced) = reader.standard("enforce", Level::Restricted);
        let (audit, _) = reader.standard("audit", Level::Privileged);
        let (mut warn, _) = reader.standard("warn", Level::Privileged);
        // who enforces something wants its authors to be told, unless another level is named
        if reader.label("warn").is_none() && is_enforced && enforce.level > warn.level {
            warn.level = enforce.level;
            if reader.label("warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        (
            Self {
                enforce,
                audit,
                warn,
            },
            reader.faults,
        )
    }
}

struct LabelParser<'a> {
    labels: Option<&'a Value>,
    faults: Vec<Cause>,
}

impl<'a> LabelParser<'a> {
    fn label(&self, name: &str) -> Option<&'a str> {
        self.labels?.get(format!("{PREFIX}{name}"))?.as_str()
    }

    /// Returns the standard of a mode, and whether its level is valid.
    fn standard(&mut self, mode: &str, otherwise: Level) -> (Standard, bool) {
        let mut standard = Standard::PRIVILEGED;
        let mut is_said = false;
        if let Some(said) = self.label(mode) {
            let level = Level::parse(said);
            is_said = level.is_some();
            standard.level = level.unwrap_or(otherwise);
            if level.is_none() {
                self.fault(
                    mode,
                    said,
                    "must be one of privileged, baseline, restricted",
                );
            }
        }
        let mode = format!("{mode}-version");
        if let Some(said) = self.label(&mode) {
            let version = Version::parse(said);
            standard.version = version.unwrap_or(Version::Latest);
            if version.is_none() {
                self.fault(&mode, said, "must be \"latest\" or \"v1.x\"");
            }
        }
        (standard, is_said)
    }

    fn fault(&mut self, name: &str, said: &str, why: &str) {
        let field = format!("metadata.labels[{PREFIX}{name}]");
        self.faults
            .push(Cause::invalid(field, &Value::from(said), why));
    }
}
