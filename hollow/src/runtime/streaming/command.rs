//! Runs a command or an attachment, independent of the protocol over which the client is connected.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::request::StreamRequest;
use crate::runtime::{
    attached::{Attachment, Source},
    command::{self, Channels},
    core::Core,
    exec, own_command,
};

/// How many pieces of bytes may wait at each end.
const QUEUE_LENGTH: usize = 4;
/// The exit code of a command that ended with its container: 128 plus SIGKILL.
const KILLED: i32 = 137;

/// Which streams a client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl Wanted {
    pub(super) fn of(ask: &StreamRequest) -> Self {
        match ask {
            StreamRequest::Exec(ask) => Self {
                stdin: ask.stdin,
                stdout: ask.stdout,
                stderr: ask.stderr,
                tty: ask.tty,
            },
            StreamRequest::Attach(ask) => Self {
                stdin: ask.stdin,
                stdout: ask.stdout,
                stderr: ask.stderr,
                tty: ask.tty,
            },
            StreamRequest::PortForward(_) => Self {
                stdin: false,
                stdout: false,
                stderr: false,
                tty: false,
            },
        }
    }
}

/// The client's end of the channels.
pub(super) struct Client {
    /// The command's input, which ends when this is dropped.
    pub(super) stdin: mpsc::Sender<Bytes>,
    pub(super) stdout: mpsc::Receiver<Bytes>,
    pub(super) stderr: mpsc::Receiver<Bytes>,
}

/// Returns both ends of the channels; without `stdin` there is no input.
pub(super) fn channels(wanted: Wanted) -> (Client, Channels) {
    let (stdin, typed) = mpsc::channel(QUEUE_LENGTH);
    let (stdout, out) = mpsc::channel(QUEUE_LENGTH);
    let (stderr, err) = mpsc::channel(QUEUE_LENGTH);
    (
        Client {
            stdin,
            stdout: out,
            stderr: err,
        },
        Channels {
            stdin: wanted.stdin.then_some(typed),
            stdout,
            stderr,
        },
    )
}

/// How a command or an attachment ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It ended with this exit code.
    Code { code: i32, words: Vec<String> },
    /// It could not be run, for this reason.
    Failed(String),
}

impl Ended {
    /// Returns the status that the last message of a session carries.
    pub(super) fn status(&self) -> Value {
        match self {
            Self::Code { code: 0, .. } => json!({"metadata": {}, "status": "Success"}),
            Self::Code { code, words } => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!(
                    "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                    words.join(" ")
                ),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": (code & 0xff).to_string()}]},
            }),
            Self::Failed(why) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {why}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": why}]},
                "code": 500,
            }),
        }
    }
}

/// Serves a request to its end. When the future is dropped, a command ends; a container with an attachment goes on.
pub(super) async fn run(core: Weak<Core>, ask: StreamRequest, channels: Channels) -> Ended {
    match ask {
        StreamRequest::Exec(ask) => {
            let Some(strong) = core.upgrade() else {
                return Ended::Failed("the runtime has ended".to_owned());
            };
            let running = match strong.read(|state| state.running(&ask.container_id)) {
                Ok(running) => running,
                Err(why) => {
                    return Ended::Failed(format!("error executing command in container: {why}"));
                }
            };
            let inside = exec::inside(&strong, &ask.container_id, running);
            drop(strong);
            let id = ask.container_id.as_str();
            clock::select! {
                ended = command::execute(&ask.cmd, inside, channels, ask.tty) => match ended {
                    Ok(code) => Ended::Code { code, words: ask.cmd.clone() },
                    Err(why) => Ended::Failed(format!(
                        "error executing command in container: failed to exec in container: \
                         failed to start exec {:?}: {why}",
                        clock::uuid().simple().to_string()
                    )),
                },
                () = exec::wait_ended(core, id) => Ended::Code { code: KILLED, words: ask.cmd.clone() },
            }
        }
        StreamRequest::Attach(ask) => {
            if let Some(attached) = core
                .upgrade()
                .map(|core| Attached::to(&core, &ask.container_id))
            {
                attached.serve(core, &ask.container_id, channels).await;
            }
            Ended::Code {
                code: 0,
                words: Vec::new(),
            }
        }
        StreamRequest::PortForward(_) => Ended::Failed("a port is no command".to_owned()),
    }
}

/// An attachment to a container.
struct Attached {
    attachment: Attachment,
    is_terminal: bool,
    ends_input: bool,
}

impl Attached {
    fn to(core: &Arc<Core>, id: &str) -> Self {
        own_command::start(core, id);
        let config = core
            .read(|state| state.running(id))
            .map(|running| running.config)
            .unwrap_or_default();
        let (is_terminal, ends_input) = (config.tty, config.stdin_once && !config.tty);
        Self {
            attachment: core.attached.attach(id),
            is_terminal,
            ends_input,
        }
    }

    /// Serves the attachment until the container ends.
    async fn serve(self, core: Weak<Core>, id: &str, channels: Channels) {
        let Self {
            attachment: Attachment { mut output, input },
            is_terminal,
            ends_input,
        } = self;
        let Channels {
            stdin,
            stdout,
            stderr,
        } = channels;
        let feed = async {
            let Some(mut stdin) = stdin else { return };
            while let Some(bytes) = stdin.recv().await {
                // Input that no program reads is lost.
                if let Some(input) = &input {
                    let _ = input.send(bytes).await;
                }
            }
            drop(input);
            if let Some(core) = core.upgrade().filter(|_| ends_input) {
                core.attached.end_input(id);
            }
        };
        let show = async {
            let ended = exec::wait_ended(core.clone(), id);
            tokio::pin!(ended);
            let mut is_over = false;
            loop {
                clock::select! {
                    biased;
                    piece = output.recv() => {
                        let Some((source, bytes)) = piece else { return };
                        let is_error = source == Source::Stderr && !is_terminal;
                        // If the client did not ask for this output, nobody receives it.
                        let _ = if is_error { &stderr } else { &stdout }.send(bytes).await;
                    }
                    // The last output is shown before the attachment ends.
                    () = &mut ended, if !is_over => {
                        is_over = true;
                        output.close();
                    }
                }
            }
        };
        tokio::pin!(show);
        clock::select! {
            () = &mut show => return,
            () = feed => {}
        }
        show.await;
    }
}
