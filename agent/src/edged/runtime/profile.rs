//! The seccomp profile of sandboxes: the runtime's own default, for programs of this machine's kind only.
//!
//! A default profile names all kinds of programs that a processor can run (three on amd64) and is compiled for each, which takes a good
//! third of the processor time that runc takes for a sandbox. Nothing in a sandbox is of another kind. So the runtime is asked once
//! how it has confined a sandbox, and what it allowed there is the profile of those that follow. A program of another kind, which
//! the default would let run, is killed by the kernel.
//!
//! Source: <https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp>.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use wire::cri::{self, security_profile::ProfileType};

use super::CallError;

/// In the agent's own directory.
const FILE: &str = "sandbox-seccomp.json";
/// What of a verbose answer tells how the sandbox was made: containerd's.
const INFO: &str = "info";
/// In what a runtime says that cannot take a profile.
const REFUSAL: &str = "seccomp";

/// The profile, once it is known.
#[derive(Clone, Debug)]
pub(super) struct Profile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    /// Whether there is one.
    known: OnceCell<bool>,
    refused: AtomicBool,
}

impl Profile {
    /// None is known yet; it will be kept below `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self(Arc::new(Inner {
            file: root.join(FILE),
            known: OnceCell::new(),
            refused: AtomicBool::new(false),
        }))
    }

    /// The same sandbox with the profile, if it is known and this one is to have the default.
    pub(super) fn on(&self, config: &cri::PodSandboxConfig) -> Option<cri::PodSandboxConfig> {
        let known = self.0.known.get() == Some(&true) && !self.0.refused.load(Ordering::Relaxed);
        if !known || !has_default(config) {
            return None;
        }
        let mut config = config.clone();
        let seccomp = config.linux.as_mut()?.security_context.as_mut()?.seccomp.as_mut()?;
        seccomp.profile_type = ProfileType::Localhost as i32;
        seccomp.localhost_ref = self.0.file.to_string_lossy().into_owned();
        Some(config)
    }

    /// Whether the runtime could not take the profile: then no other sandbox gets it.
    pub(super) fn is_refused(&self, error: &CallError) -> bool {
        let refused = error.message().contains(REFUSAL);
        if refused {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "sandboxes have the runtime's seccomp profile as it is");
            self.0.refused.store(true, Ordering::Relaxed);
        }
        refused
    }

    /// Takes note of how a sandbox with the default was made. `told`: the runtime's verbose answer about it.
    pub(super) async fn learn(
        &self,
        config: &cri::PodSandboxConfig,
        told: impl Future<Output = Result<cri::PodSandboxStatusResponse, CallError>>,
    ) {
        if !has_default(config) {
            return;
        }
        let known = async || {
            let answer = told.await.ok()?;
            let profile = native(answer.info.get(INFO)?)?;
            let file = self.0.file.clone();
            let written = tokio::task::spawn_blocking(move || write(&file, &profile)).await.ok()?;
            written.inspect_err(|error| tracing::debug!(%error, "no profile of sandboxes")).ok()
        };
        self.0.known.get_or_init(async || known().await.is_some()).await;
    }
}

/// Whether the sandbox is confined by the runtime's default; runtimes do not confine what is privileged.
fn has_default(config: &cri::PodSandboxConfig) -> bool {
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    context.is_some_and(|context| {
        let seccomp = context.seccomp.as_ref();
        !context.privileged && seccomp.is_some_and(|it| it.profile_type() == ProfileType::RuntimeDefault)
    })
}

/// How a sandbox was made, as far as it counts here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    runtime_spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    linux: Linux,
}

#[derive(Deserialize)]
struct Linux {
    seccomp: Map<String, Value>,
}

/// The profile in this text without other kinds of programs; `None` where it names none, or is none that allows single calls only.
fn native(info: &str) -> Option<String> {
    let mut profile = serde_json::from_str::<Info>(info).ok()?.runtime_spec.linux.seccomp;
    let kinds = profile.remove("architectures")?;
    let allows = profile.get("syscalls")?.as_array().is_some_and(|calls| !calls.is_empty());
    let strict = profile.get("defaultAction")? == "SCMP_ACT_ERRNO";
    (kinds.as_array().is_some_and(|kinds| kinds.len() > 1) && allows && strict)
        .then(|| Value::Object(profile).to_string())
}

/// Whole or not at all, wherever it is cut off.
fn write(file: &Path, profile: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, profile)?;
    fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tonic::Status;

    use super::*;

    fn config(kind: ProfileType, privileged: bool) -> cri::PodSandboxConfig {
        let seccomp = cri::SecurityProfile { profile_type: kind as i32, ..Default::default() };
        let security_context =
            cri::LinuxSandboxSecurityContext { seccomp: Some(seccomp), privileged, ..Default::default() };
        let linux =
            cri::LinuxPodSandboxConfig { security_context: Some(security_context), ..Default::default() };
        cri::PodSandboxConfig { linux: Some(linux), ..Default::default() }
    }

    fn info(kinds: &Value) -> String {
        let seccomp = json!({"defaultAction": "SCMP_ACT_ERRNO", "architectures": kinds,
            "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]});
        json!({"pid": 1, "runtimeSpec": {"ociVersion": "1.0.2", "linux": {"seccomp": seccomp}}}).to_string()
    }

    #[test]
    fn the_default_is_taken_without_other_kinds_of_programs() {
        let taken = native(&info(&json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]))).unwrap();
        let taken: Value = serde_json::from_str(&taken).unwrap();
        let calls = json!([{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]);
        assert_eq!(taken, json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": calls}));
        let loose = info(&json!(["a", "b"])).replace("SCMP_ACT_ERRNO", "SCMP_ACT_ALLOW");
        for other in [&info(&json!(["one"])), &info(&json!(null)), &loose, "{}", "no JSON"] {
            assert_eq!(native(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn it_is_asked_for_once_and_given_up_when_it_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let profile = Profile::new(place.path());
        let default = config(ProfileType::RuntimeDefault, false);
        let told = |text: String| async move {
            let info = [(INFO.to_owned(), text)].into();
            Ok(cri::PodSandboxStatusResponse { info, ..Default::default() })
        };
        assert_eq!(profile.on(&default), None, "not known");
        // a privileged one has none
        profile.learn(&config(ProfileType::RuntimeDefault, true), told(String::new())).await;
        profile.learn(&default, told(info(&json!(["a", "b"])))).await;
        profile.learn(&default, async { unreachable!("it is known") }).await;
        let with = profile.on(&default).unwrap().linux.unwrap().security_context.unwrap().seccomp.unwrap();
        assert_eq!(with.profile_type(), ProfileType::Localhost);
        assert!(fs::read_to_string(&with.localhost_ref).unwrap().contains("SCMP_ACT_ALLOW"));
        assert_eq!(profile.on(&config(ProfileType::RuntimeDefault, true)), None);
        assert_eq!(profile.on(&config(ProfileType::Localhost, false)), None);
        let error = |text: &str| CallError { call: "RunPodSandbox", status: Status::unknown(text) };
        assert!(!profile.is_refused(&error("no network")) && profile.on(&default).is_some());
        assert!(profile.is_refused(&error("cannot load seccomp profile")) && profile.on(&default).is_none());
    }
}
