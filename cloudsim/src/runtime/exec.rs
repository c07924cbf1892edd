//! The few commands that a simulated container knows.

use std::time::Duration;

use tonic::Status;
use wire::cri::{ContainerConfig, ExecSyncResponse};

use super::{behaviour::Behaviour, files};

/// What a command can see.
pub(super) struct Inside {
    pub(super) config: ContainerConfig,
    pub(super) hostname: String,
    pub(super) behaviour: Behaviour,
}

/// The answer and how long it takes. Reads files, so it may block for an instant.
pub(super) fn run(cmd: &[String], inside: &Inside) -> Result<(Duration, ExecSyncResponse), Status> {
    if let Some(answer) = inside.behaviour.exec.get(&cmd.join(" ")) {
        return Ok((answer.delay, output(answer.code, answer.stdout.clone(), answer.stderr.clone())));
    }
    let Some((name, args)) = cmd.split_first() else {
        return Err(Status::invalid_argument("cmd must not be empty"));
    };
    let response = match name.rsplit('/').next().unwrap_or_default() {
        "true" => output(0, "", ""),
        "false" => output(1, "", ""),
        "echo" => output(0, args.join(" ") + "\n", ""),
        "hostname" => output(0, inside.hostname.clone() + "\n", ""),
        "env" => output(0, env(inside), ""),
        "cat" => cat(args, inside),
        // containerd's words: clients look for them.
        _ => {
            return Err(Status::unknown(format!(
                "failed to exec in container: exec: {name:?}: executable file not found in $PATH"
            )));
        }
    };
    Ok((Duration::ZERO, response))
}

fn env(inside: &Inside) -> String {
    let own = format!("HOSTNAME={}\n", inside.hostname);
    inside.config.envs.iter().fold(own, |text, env| text + &env.key + "=" + &env.value + "\n")
}

fn cat(paths: &[String], inside: &Inside) -> ExecSyncResponse {
    let (mut stdout, mut stderr) = (Vec::new(), String::new());
    for path in paths {
        match files::read(&inside.config.mounts, path) {
            Ok(content) => stdout.extend(content),
            Err(e) => stderr += &format!("cat: {path}: {e}\n"),
        }
    }
    output(i32::from(!stderr.is_empty()), stdout, stderr)
}

fn output(exit_code: i32, stdout: impl Into<Vec<u8>>, stderr: impl Into<Vec<u8>>) -> ExecSyncResponse {
    ExecSyncResponse { exit_code, stdout: stdout.into().into(), stderr: stderr.into().into() }
}
