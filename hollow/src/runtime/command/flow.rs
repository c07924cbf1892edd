//! Runs conditions and loops, and limits how fast a container's own command may loop for ever.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{
    outcome::{Outcome, Stop},
    script::{Compound, Script, Word},
    shell::{Real, Shell, Words, World},
    streams::Streams,
};

/// How many commands a container's own script may run in each further second when its initial allowance is used up.
const COMMANDS_A_SECOND: usize = 100;

impl Shell {
    /// Runs a condition or a loop. Boxed because it is recursive.
    pub(super) fn compound<'a>(
        &'a mut self,
        compound: &'a Compound,
        streams: &'a Streams,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match compound {
                Compound::Group(script) => self.script(script, streams).await,
                Compound::If {
                    branches,
                    otherwise,
                } => {
                    for (condition, body) in branches {
                        if self.condition(condition, streams).await? == 0 {
                            return self.body(body, streams).await;
                        }
                    }
                    self.body(otherwise, streams).await
                }
                // The loop may never end.
                Compound::While { .. } if matches!(self.world, World::Planned(_)) => {
                    Err(Stop::Depends)
                }
                Compound::While {
                    condition,
                    is_until,
                    body,
                } => {
                    let mut last = 0;
                    while (self.condition(condition, streams).await? == 0) != *is_until {
                        self.take_turn().await?;
                        match self.turn(body, streams).await? {
                            Some(code) => last = code,
                            None => break,
                        }
                    }
                    Ok(last)
                }
                Compound::For { name, words, body } => self.each(name, words, body, streams).await,
            }
        })
    }

    async fn each(
        &mut self,
        name: &str,
        words: &[Word],
        body: &Script,
        streams: &Streams,
    ) -> Outcome {
        let mut expanded = Words::default();
        for word in words {
            self.expand(word, streams, &mut expanded).await?;
        }
        let mut last = 0;
        for word in expanded.all {
            self.take_turn().await?;
            self.variables.set(name, word);
            match self.turn(body, streams).await? {
                Some(code) => last = code,
                None => break,
            }
        }
        Ok(last)
    }

    /// Runs a condition; its failure does not stop the script, even under `set -e`.
    async fn condition(&mut self, script: &Script, streams: &Streams) -> Outcome {
        let stops_at_failure = std::mem::take(&mut self.stops_at_failure);
        let outcome = self.script(script, streams).await;
        self.stops_at_failure |= stops_at_failure;
        outcome
    }

    async fn body(&mut self, script: &Script, streams: &Streams) -> Outcome {
        if script.is_empty() {
            Ok(0)
        } else {
            self.script(script, streams).await
        }
    }

    /// Runs one turn of a loop; returns `None` after a `break`.
    async fn turn(&mut self, body: &Script, streams: &Streams) -> Result<Option<i32>, Stop> {
        match self.body(body, streams).await {
            Err(Stop::Break) => Ok(None),
            Err(Stop::Continue) => Ok(Some(0)),
            outcome => outcome.map(Some),
        }
    }

    /// Counts a command. When there are too many, an exec ends, and a container's own script goes on slowly.
    pub(super) async fn take_turn(&mut self) -> Result<(), Stop> {
        if self.commands == 0 {
            match self.world {
                World::Planned(_) => return Err(Stop::Depends),
                World::Real(Real { own: Some(_), .. }) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    self.commands = COMMANDS_A_SECOND;
                }
                World::Real(_) => return Err(Stop::Exit(2)),
            }
        }
        self.commands -= 1;
        if matches!(self.world, World::Real(_)) {
            // A long script must not keep other tasks waiting.
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }
}
