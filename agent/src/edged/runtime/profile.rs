//! The seccomp profile of sandboxes: of the runtime's own default, what a program that waits can use.
//!
//! A default profile is made for any program: it allows hundreds of system calls, for all kinds of programs that a processor can run (three
//! on amd64), and is compiled anew for each sandbox, which takes a good third of the processor time that runc takes for one. So the
//! runtime is asked once how it has confined a sandbox, and what it allowed there of [`CALLS`] is the profile of those that follow.
//! It never allows what the default does not. Where no sandbox starts with it, they get the default again.
//!
//! Source: <https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp>.

mod calls;

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

use self::calls::CALLS;
use super::CallError;

/// In the agent's own directory.
const FILE: &str = "sandbox-seccomp.json";
/// What of a verbose answer tells how the sandbox was made: containerd's.
const INFO: &str = "info";
/// In what a runtime says that cannot take a profile, or cannot start a program under it.
const REFUSALS: [&str; 2] = ["seccomp", "operation not permitted"];

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

    /// Whether the profile may be why no sandbox was made: then it has to be tried without.
    pub(super) fn may_be_why(error: &CallError) -> bool {
        REFUSALS.iter().any(|text| error.message().contains(text))
    }

    /// What fails with the profile succeeds without: no other sandbox gets it.
    pub(super) fn give_up(&self, error: &CallError) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, "sandboxes have the runtime's seccomp profile as it is");
        self.0.refused.store(true, Ordering::Relaxed);
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
            let profile = restricted(answer.info.get(INFO)?)?;
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

/// What the profile in this text allows of [`CALLS`]; `None` where it is none that allows single calls only.
fn restricted(info: &str) -> Option<String> {
    let mut profile = serde_json::from_str::<Info>(info).ok()?.runtime_spec.linux.seccomp;
    if profile.get("defaultAction")? != "SCMP_ACT_ERRNO" {
        return None;
    }
    // a program of this machine's own kind is all that is started
    profile.remove("architectures");
    let rules = profile.get_mut("syscalls")?.as_array_mut()?;
    for rule in &mut *rules {
        let needed = |name: &Value| name.as_str().is_some_and(|name| CALLS.contains(&name));
        rule.get_mut("names")?.as_array_mut()?.retain(needed);
    }
    rules.retain(|rule| rule["names"].as_array().is_some_and(|names| !names.is_empty()));
    (!rules.is_empty()).then(|| Value::Object(profile).to_string())
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

    fn info() -> String {
        let seccomp = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
            "syscalls": [
                {"names": ["mount", "pause", "read", "keyctl"], "action": "SCMP_ACT_ALLOW"},
                {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 8, "op": "SCMP_CMP_EQ"}]},
                {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
            ],
        });
        json!({"pid": 1, "runtimeSpec": {"ociVersion": "1.0.2", "linux": {"seccomp": seccomp}}}).to_string()
    }

    #[test]
    fn of_the_default_it_has_what_a_waiting_program_calls() {
        let taken: Value = serde_json::from_str(&restricted(&info()).unwrap()).unwrap();
        let rules = json!([
            {"names": ["pause", "read"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ]);
        assert_eq!(taken, json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules}));
        let loose =
            info().replace(r#""defaultAction":"SCMP_ACT_ERRNO""#, r#""defaultAction":"SCMP_ACT_ALLOW""#);
        let odd = info().replace(r#""names":"#, r#""name":"#);
        let other = info().replace("pause", "bpf").replace("read", "bpf").replace("clone3", "bpf");
        for text in [&loose, &odd, &other, "{}", "no JSON"] {
            assert_eq!(restricted(text), None, "{text}");
        }
    }

    #[test]
    fn calls_are_named_once_and_in_order() {
        assert!(CALLS.is_sorted_by(|one, next| one < next));
    }

    #[tokio::test]
    async fn it_is_asked_for_once_and_can_be_given_up() {
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
        profile.learn(&default, told(info())).await;
        profile.learn(&default, async { unreachable!("it is known") }).await;
        let with = profile.on(&default).unwrap().linux.unwrap().security_context.unwrap().seccomp.unwrap();
        assert_eq!(with.profile_type(), ProfileType::Localhost);
        assert!(fs::read_to_string(&with.localhost_ref).unwrap().contains("SCMP_ACT_ALLOW"));
        assert_eq!(profile.on(&config(ProfileType::RuntimeDefault, true)), None);
        assert_eq!(profile.on(&config(ProfileType::Localhost, false)), None);
        let error = |text: &str| CallError { call: "RunPodSandbox", status: Status::unknown(text) };
        assert!(!Profile::may_be_why(&error("no network")));
        assert!(Profile::may_be_why(&error("exec: operation not permitted")));
        let error = error("cannot load seccomp profile");
        assert!(Profile::may_be_why(&error) && profile.on(&default).is_some());
        profile.give_up(&error);
        assert_eq!(profile.on(&default), None);
    }
}
