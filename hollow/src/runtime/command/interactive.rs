//! A shell that reads its commands from a terminal or from a pipe.

use tokio::sync::Notify;

use super::{
    outcome::{Outcome, Stop},
    script::{self, MAX_SCRIPT, Unreadable},
    shell::{Shell, World},
    streams::Streams,
    terminal::INTERRUPTED,
};

/// The most lines of one command: with each new line, all are parsed again.
const MAX_LINES: usize = 256;

impl Shell {
    /// Runs commands line by line until the input ends. At a terminal it prints a prompt for each.
    pub(super) async fn interactive(&mut self, streams: &Streams) -> Outcome {
        let interrupts = match &mut self.world {
            World::Real(real) => {
                // A user who types must be told that a program does not exist.
                real.own = None;
                real.interrupts.clone()
            }
            World::Planned(_) => None,
        };
        let (depth, stops_at_failure) = (self.depth, self.stops_at_failure);
        let (mut text, mut lines) = (String::new(), 0);
        loop {
            self.allow_more();
            if text.is_empty() {
                lines = 0;
            }
            if interrupts.is_some() {
                let prompt = if text.is_empty() {
                    format!("{} # ", self.directory)
                } else {
                    "> ".to_owned()
                };
                self.print(&streams.error, prompt.as_bytes()).await?;
            }
            let line = clock::select! {
                biased;
                // The terminal has already thrown away what was typed of the line.
                () = wait_interrupted(interrupts.as_deref()) => {
                    text.clear();
                    self.last = INTERRUPTED;
                    continue;
                }
                line = streams.input.line() => line?,
            };
            let Some(line) = line else { break };
            lines += 1;
            text.push_str(&String::from_utf8_lossy(&line));
            let script = match script::read(&text) {
                Ok(script) => script,
                Err(Unreadable::Unfinished) if text.len() < MAX_SCRIPT && lines < MAX_LINES => {
                    continue;
                }
                Err(why) => {
                    self.complain(streams, &why.text()).await?;
                    self.last = 2;
                    text.clear();
                    continue;
                }
            };
            text.clear();
            if script.is_empty() {
                continue;
            }
            let outcome = clock::select! {
                biased;
                () = wait_interrupted(interrupts.as_deref()) => {
                    self.stops_at_failure = stops_at_failure;
                    Ok(INTERRUPTED)
                }
                outcome = self.script(&script, streams) => outcome,
            };
            // The interrupted command may have been nested deeper.
            self.depth = depth;
            self.last = match outcome {
                Ok(code) => code,
                Err(Stop::Broken(why)) => {
                    self.complain(streams, &why).await?;
                    1
                }
                Err(stop) => return Err(stop),
            };
        }
        Ok(self.last)
    }
}

async fn wait_interrupted(interrupts: Option<&Notify>) {
    match interrupts {
        Some(interrupts) => interrupts.notified().await,
        None => std::future::pending().await,
    }
}
