//! `ls`, `ln`, `readlink`, `mkdir`, `touch`, `cp`, `mv`, `rm`.

use std::io::ErrorKind;

use super::super::{
    outcome::{Outcome, Stop},
    shell::{Real, Shell, World},
    streams::Streams,
};
use crate::runtime::files::{Files, Kind};

impl Shell {
    /// Runs one of these programs.
    pub(super) async fn file_program(
        &mut self,
        name: &str,
        arguments: &[String],
        streams: &Streams,
    ) -> Outcome {
        let (flags, paths): (Vec<&String>, Vec<&String>) = arguments
            .iter()
            .partition(|argument| argument.len() > 1 && argument.starts_with('-'));
        let has = |flag: char| flags.iter().any(|flags| flags.contains(flag));
        let mut failed = false;
        match (name, paths.as_slice()) {
            ("ls", []) => failed = !self.ls(".", has('l'), has('a'), streams).await?,
            ("ln", [target, path]) if has('s') => {
                let (target, forced) = ((*target).clone(), has('f'));
                let made = self
                    .files(path, move |files, path| files.link(path, &target, forced))
                    .await?;
                if let Err(why) = made {
                    failed = true;
                    self.say(name, path, &why, streams).await?;
                }
            }
            ("readlink", [path]) => match self.files(path, Files::target).await? {
                Ok(Some(target)) => {
                    self.print(&streams.output, format!("{target}\n").as_bytes())
                        .await?
                }
                Ok(None) | Err(_) => failed = true,
            },
            ("ln" | "cp" | "mv", [from, to]) => {
                failed = !self.copy(name, from, to, streams).await?
            }
            ("ln" | "readlink" | "cp" | "mv", _) => {
                return Err(Stop::Broken(
                    "one file and where it goes are wanted".to_owned(),
                ));
            }
            (_, []) => return Err(Stop::Broken("missing operand".to_owned())),
            ("ls", paths) => {
                for path in paths {
                    failed |= !self.ls(path, has('l'), has('a'), streams).await?;
                }
            }
            (_, paths) => {
                for path in paths {
                    let (parents, forced) = (has('p'), has('f'));
                    let done = match name {
                        "mkdir" => {
                            self.files(path, move |files, path| files.make_directory(path, parents))
                                .await?
                        }
                        "touch" => {
                            self.files(path, |files, path| files.write(path, b"", true))
                                .await?
                        }
                        _ => self.files(path, Files::remove).await?,
                    };
                    match done {
                        Err(why) if !(forced && why.starts_with("No such")) => {
                            failed = true;
                            self.say(name, path, &why, streams).await?;
                        }
                        Ok(()) | Err(_) => {}
                    }
                }
            }
        }
        Ok(i32::from(failed))
    }

    async fn say(
        &mut self,
        name: &str,
        path: &str,
        why: &str,
        streams: &Streams,
    ) -> Result<(), Stop> {
        self.print(
            &streams.error,
            format!("{name}: {path}: {why}\n").as_bytes(),
        )
        .await
    }

    async fn ls(
        &mut self,
        path: &str,
        is_long: bool,
        all: bool,
        streams: &Streams,
    ) -> Result<bool, Stop> {
        let found = self.files(path, |files, path| {
            let Kind::Directory = files.kind(path)? else {
                return Ok(vec![(None, files.kind(path)?)]);
            };
            let join = |name: &str| format!("{}/{name}", path.trim_end_matches('/'));
            let entry = |name: String| {
                let kind = files.kind(&join(&name)).unwrap_or(Kind::File(0));
                (Some(name), kind)
            };
            Ok(files.list(path)?.into_iter().map(entry).collect::<Vec<_>>())
        });
        let entries = match found.await? {
            Ok(entries) => entries,
            Err(why) => {
                self.say("ls", path, &why, streams).await?;
                return Ok(false);
            }
        };
        let mut text = String::new();
        for (name, kind) in entries {
            let name = name.as_deref().unwrap_or(path);
            if name.starts_with('.') && !all && name != path {
                continue;
            }
            if is_long {
                let (mode, size) = match kind {
                    Kind::Directory => ("drwxr-xr-x", 4096),
                    Kind::File(size) => ("-rw-r--r--", size),
                };
                text.push_str(&format!("{mode}    1 root     root     {size:>9} {name}\n"));
            } else {
                text.push_str(&format!("{name}\n"));
            }
        }
        self.print(&streams.output, text.as_bytes()).await?;
        Ok(true)
    }

    async fn copy(
        &mut self,
        name: &str,
        from: &str,
        to: &str,
        streams: &Streams,
    ) -> Result<bool, Stop> {
        let target = self.resolve(to);
        let source = self.resolve(from);
        let moves = name == "mv";
        // Init containers hand programs of their image to others. Which files an image has is not known, and the programs are not run.
        let guesses = name == "cp" && matches!(&self.world, World::Real(Real { own: Some(_), .. }));
        let copied = self.files(from, move |files, from| {
            let content = match files.read(from) {
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && guesses
                        && files.may_be_of_image(from) =>
                {
                    Vec::new()
                }
                content => content?,
            };
            let target = match files.kind(&target) {
                Ok(Kind::Directory) => {
                    let name = source.rsplit('/').next().unwrap_or_default();
                    format!("{}/{name}", target.trim_end_matches('/'))
                }
                Ok(Kind::File(_)) | Err(_) => target,
            };
            files.write(&target, &content, false)?;
            if moves && target != from {
                files.remove(from)
            } else {
                Ok(())
            }
        });
        match copied.await? {
            Ok(()) => Ok(true),
            Err(why) => {
                self.say(name, from, &why, streams).await?;
                Ok(false)
            }
        }
    }
}
