//! The terminal of this program, for a command in a container that has one.

use std::io::{self, IsTerminal};

use futures::{SinkExt, channel::mpsc};
use kube::api::TerminalSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use terminal_size::{Height, Width, terminal_size};
use tokio::signal::unix::{SignalKind, signal};

/// Passes each key on as it is typed. The terminal is as before when this is dropped.
pub(super) struct RawTerminal(Termios);

impl RawTerminal {
    /// Changes the terminal of stdin; `None` if it is none.
    ///
    /// # Errors
    /// The terminal refuses the mode.
    pub(super) fn enter() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Some(Self(before)))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // the terminal may be gone
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Sends the size of the terminal, now and after each change, until the command has ended.
pub(super) async fn follow_size(sizes: Option<mpsc::Sender<TerminalSize>>) {
    let (Some(mut sizes), Ok(mut changes)) = (sizes, signal(SignalKind::window_change())) else {
        return;
    };
    while let Some((Width(width), Height(height))) = terminal_size() {
        let sent = sizes.send(TerminalSize { width, height }).await;
        if sent.is_err() || changes.recv().await.is_none() {
            return;
        }
    }
}
