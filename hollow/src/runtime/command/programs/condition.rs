//! `test` and `[`.

use super::super::{outcome::Outcome, shell::Shell, streams::Streams};
use crate::runtime::files::{Files, Kind};

impl Shell {
    /// Runs `[ … ]` or `[[ … ]]`; `end` is the bracket that must close it.
    pub(super) async fn bracket(
        &mut self,
        end: &str,
        arguments: &[String],
        streams: &Streams,
    ) -> Outcome {
        match arguments.split_last() {
            Some((last, condition)) if last == end => self.test(condition, streams).await,
            _ => {
                self.complain(streams, &format!("missing {end}")).await?;
                Ok(2)
            }
        }
    }

    /// Runs `test …`: 0 if the condition holds, 1 if it does not, 2 if it is malformed.
    pub(super) async fn test(&mut self, condition: &[String], streams: &Streams) -> Outcome {
        let mut words: Vec<&str> = condition.iter().map(String::as_str).collect();
        let mut wanted = true;
        while words.len() > 1 && words.first() == Some(&"!") {
            words.remove(0);
            wanted = !wanted;
        }
        let holds = match words.as_slice() {
            [] => false,
            [word] => !word.is_empty(),
            ["-n", text] => !text.is_empty(),
            ["-z", text] => text.is_empty(),
            ["-t", _] => false,
            [
                flag @ ("-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s"),
                path,
            ] => {
                let found = self.files(path, Files::kind).await?;
                match (*flag, found) {
                    (_, Err(_)) => false,
                    ("-d", Ok(kind)) => kind == Kind::Directory,
                    ("-f", Ok(kind)) => kind != Kind::Directory,
                    ("-s", Ok(kind)) => kind != Kind::File(0),
                    (_, Ok(_)) => true,
                }
            }
            [left, "=" | "==", right] => left == right,
            [left, "!=", right] => left != right,
            [left, operator, right] => match (left.parse::<i64>(), right.parse::<i64>()) {
                (Ok(left), Ok(right)) => match *operator {
                    "-eq" => left == right,
                    "-ne" => left != right,
                    "-lt" => left < right,
                    "-le" => left <= right,
                    "-gt" => left > right,
                    "-ge" => left >= right,
                    _ => return self.no_condition(streams).await,
                },
                _ => return self.no_condition(streams).await,
            },
            _ => return self.no_condition(streams).await,
        };
        Ok(i32::from(holds != wanted))
    }

    async fn no_condition(&mut self, streams: &Streams) -> Outcome {
        self.complain(streams, "test: this condition is not simulated")
            .await?;
        Ok(2)
    }
}
