//! `agnhost`, the image of Kubernetes' own tests, as far as it uses files: `mounttest`.
//!
//! Source: `test/images/agnhost` of <https://github.com/kubernetes/kubernetes>.

use std::time::Duration;

use super::super::{
    outcome::{Outcome, Stop},
    shell::{Real, Shell, World},
    streams::Streams,
};
use crate::runtime::files::{Files, Stat};

/// The content that `mounttest` writes into new files.
const NEW: &str = "mount-tester new file\n";
/// How long `mounttest` waits before it reads a file again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long, in seconds, `mounttest` keeps reading a file if no flag says otherwise.
const RETRY_SECONDS: u64 = 180;

impl Shell {
    /// Runs one of its commands; all but `mounttest` run for ever.
    pub(super) async fn agnhost(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        match arguments.split_first() {
            Some((name, arguments)) if name == "mounttest" => {
                self.mounttest(arguments, streams).await
            }
            _ => Err(Stop::Unknown),
        }
    }

    async fn mounttest(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let World::Real(Real { identity, .. }) = &self.world else {
            return Err(Stop::Depends);
        };
        let [user, group] =
            [identity.user, identity.group].map(|id| u32::try_from(id).unwrap_or_default());
        let flag = |name: &str| {
            let given = arguments
                .iter()
                .filter_map(|argument| argument.trim_start_matches('-').split_once('='));
            given
                .filter(|(flag, _)| *flag == name)
                .map(|(_, value)| value.to_owned())
                .next_back()
        };
        let mut failed = false;
        if let Some(path) = flag("fs_type") {
            let kind = self.files(&path, Files::is_in_memory).await?;
            let text = kind.map(|is_in_memory| {
                let kind = if is_in_memory { "tmpfs" } else { "61267" };
                format!("mount type of \"{path}\": {kind}\n")
            });
            failed |= self
                .print_result(
                    text.map_err(|why| format!("error from statfs({path:?}): {why}\n")),
                    streams,
                )
                .await?;
        }
        for (name, mode) in [
            ("new_file_0644", 0o644),
            ("new_file_0666", 0o666),
            ("new_file_0660", 0o660),
            ("new_file_0777", 0o777),
        ] {
            let Some(path) = flag(name) else { continue };
            let written = self.files(&path, move |files, path| {
                files.write(path, NEW.as_bytes(), false)?;
                files.set_mode(path, mode);
                Ok(())
            });
            match written.await? {
                Ok(()) => failed |= self.print_file(&path, streams).await?,
                Err(why) => {
                    failed |= self
                        .print_result(
                            Err(format!("error writing new file {path:?}: {why}\n")),
                            streams,
                        )
                        .await?;
                }
            }
        }
        for name in ["file_mode", "file_perm", "file_owner"] {
            let Some(path) = flag(name) else { continue };
            let stat = self
                .files(&path, move |files, path| files.stat(path, user, group))
                .await?;
            let text = stat.map(|stat| match name {
                "file_mode" => format!("mode of file {path:?}: {}\n", mode(stat, true)),
                "file_perm" => format!("perms of file {path:?}: {}\n", mode(stat, false)),
                _ => format!(
                    "owner UID of {path:?}: {}\nowner GID of {path:?}: {}\n",
                    stat.user, stat.group
                ),
            });
            failed |= self
                .print_result(
                    text.map_err(|why| format!("error from stat({path:?}): {why}\n")),
                    streams,
                )
                .await?;
        }
        if let Some(path) = flag("file_content") {
            failed |= self.print_file(&path, streams).await?;
        }
        if let Some(path) = flag("file_content_in_loop") {
            let seconds = flag("retry_time")
                .and_then(|value| value.parse().ok())
                .unwrap_or(RETRY_SECONDS);
            let breaks = flag("break_on_expected_content").is_none_or(|value| value != "false");
            let begun = tokio::time::Instant::now();
            while begun.elapsed() < Duration::from_secs(seconds) {
                self.take_turn().await?;
                failed = self.print_file(&path, streams).await?;
                let found = self.files(&path, Files::read).await?;
                if breaks && found.is_ok_and(|content| content == NEW.as_bytes()) {
                    break;
                }
                self.pause(AGAIN).await;
            }
        }
        Ok(i32::from(failed))
    }

    /// Prints a file's content; returns true if it cannot be read.
    async fn print_file(&mut self, path: &str, streams: &Streams) -> Result<bool, Stop> {
        let text = match self.files(path, Files::read).await? {
            Ok(content) => Ok(format!(
                "content of file {path:?}: {}\n",
                String::from_utf8_lossy(&content)
            )),
            Err(why) => Err(format!(
                "error reading file content for {path:?}: open {path}: {}\n",
                why.to_lowercase()
            )),
        };
        self.print_result(text, streams).await
    }

    /// Prints a text or an error; returns true for an error.
    async fn print_result(
        &mut self,
        text: Result<String, String>,
        streams: &Streams,
    ) -> Result<bool, Stop> {
        let failed = text.is_err();
        let text = text.unwrap_or_else(|why| why);
        self.print(&streams.output, text.as_bytes()).await?;
        Ok(failed)
    }
}

/// Formats permissions as Go does: `-rw-r--r--`, and with `all` `drwxr-xr-x` or `dgtrwxrwxrwx`.
fn mode(stat: Stat, all: bool) -> String {
    let mut text = String::new();
    if all {
        for (bits, letter) in [
            (0o040_000, 'd'),
            (0o4000, 'u'),
            (0o2000, 'g'),
            (0o1000, 't'),
        ] {
            if stat.mode & bits == bits {
                text.push(letter);
            }
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for place in (0..9).rev() {
        let letter = ['x', 'w', 'r'][place % 3];
        text.push(if stat.mode & (1 << place) == 0 {
            '-'
        } else {
            letter
        });
    }
    text
}
