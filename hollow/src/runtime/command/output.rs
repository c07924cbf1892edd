//! Writes what a shell's programs print, and limits how much of it there may be.

use std::time::Duration;

use super::{
    outcome::Stop,
    shell::{Real, Shell, World},
    streams::{Output, push},
};

/// How many bytes the programs of a planned script may move; other tasks wait for the plan.
const MAX_PLANNED: usize = 512 * 1024;
/// How many bytes the programs of a container's own command move before it is slowed down: a file of 1 MiB and more.
const MAX_OWN: usize = 4 * 1024 * 1024;
/// How many bytes they may move in each further second.
const OWN_A_SECOND: usize = 64 * 1024;
/// After how many bytes other tasks are given a turn.
const CHUNK_BYTES: usize = 64 * 1024;
/// The most bytes of one write.
const CHUNK: usize = 16 * 1024;
/// The exit code of a program whose output nobody reads: 128 plus SIGPIPE.
const BROKEN_PIPE: i32 = 141;

impl Shell {
    /// Writes bytes to an output.
    pub(super) async fn print(&mut self, output: &Output, bytes: &[u8]) -> Result<(), Stop> {
        self.spend(bytes.len()).await?;
        match output {
            Output::Nowhere => {}
            Output::Plan => {
                if let World::Planned(plan) = &mut self.world {
                    plan.print(bytes);
                }
            }
            Output::Live(readers) => {
                self.has_printed |= !bytes.is_empty();
                for chunk in bytes.chunks(CHUNK) {
                    let chunk = bytes::Bytes::copy_from_slice(chunk);
                    readers
                        .send(chunk)
                        .await
                        .map_err(|_| Stop::Exit(BROKEN_PIPE))?;
                }
            }
            Output::Pipe(pipe) => {
                if !push(pipe, bytes) {
                    return Err(Stop::Broken("write error: the pipe is full".to_owned()));
                }
            }
            Output::File(path) => {
                let bytes = bytes.to_vec();
                let written = self
                    .files(path, move |files, path| files.write(path, &bytes, true))
                    .await?;
                written.map_err(|why| Stop::Broken(format!("write error: {why}")))?;
            }
        }
        Ok(())
    }

    /// Counts bytes that are read from a file or printed. A plan, which is made again and again, has a limit; a running command gives
    /// other tasks a turn now and then, and a container's own command that moves more than it should goes on slowly.
    pub(super) async fn spend(&mut self, bytes: usize) -> Result<(), Stop> {
        let before = self.bytes;
        self.bytes = before.saturating_add(bytes);
        match self.world {
            World::Planned(_) if self.bytes > MAX_PLANNED => return Err(Stop::Unknown),
            World::Real(Real { own: Some(_), .. }) if self.bytes > MAX_OWN => {
                let seconds = (bytes / OWN_A_SECOND).max(1);
                tokio::time::sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(1))).await;
                self.bytes = MAX_OWN - OWN_A_SECOND;
            }
            World::Real(_) if before / CHUNK_BYTES != self.bytes / CHUNK_BYTES => {
                tokio::task::yield_now().await
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits, or lets planned time pass.
    pub(super) async fn pause(&mut self, time: Duration) {
        match &mut self.world {
            World::Planned(plan) => plan.pass(time),
            World::Real(_) if time.is_zero() => {}
            World::Real(_) => tokio::time::sleep(time).await,
        }
    }
}
