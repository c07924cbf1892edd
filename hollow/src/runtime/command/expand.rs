//! Expands words: variables, the output of scripts, and sums.

use futures::future::BoxFuture;

use super::{
    arithmetic,
    outcome::Stop,
    script::{Otherwise, Part, Pipeline, Word},
    shell::{MAX_WORD, Shell, Words, World},
    streams::{Output, Streams},
};

impl Shell {
    /// Expands a word to one text.
    pub(super) async fn word(&mut self, word: &Word, streams: &Streams) -> Result<String, Stop> {
        let mut words = Words::default();
        self.expand(word, streams, &mut words).await?;
        Ok(words.all.join(" "))
    }

    /// Adds the expansion of a word: values outside quotes are split at spaces, and an empty one adds no word at all.
    pub(super) async fn expand(
        &mut self,
        word: &Word,
        streams: &Streams,
        words: &mut Words,
    ) -> Result<(), Stop> {
        let mut current: Option<String> = None;
        for part in word {
            let (value, is_quoted) = match part {
                Part::Text(text) => (text.clone(), true),
                Part::Variable {
                    name,
                    is_quoted,
                    otherwise,
                } => {
                    let value = self.value(name)?;
                    let value = match otherwise {
                        Some(otherwise) if value.is_empty() => {
                            self.otherwise(name, otherwise, streams).await?
                        }
                        _ => value,
                    };
                    (value, *is_quoted)
                }
                Part::Sum(text) => (self.sum(text, streams).await?, true),
                Part::Output { script, is_quoted } => {
                    (self.substitute(script, streams).await?, *is_quoted)
                }
            };
            if is_quoted {
                current.get_or_insert_default().push_str(&value);
            } else {
                for (place, piece) in value.split(char::is_whitespace).enumerate() {
                    if place > 0 {
                        words.extend(current.take());
                    }
                    if !piece.is_empty() {
                        current.get_or_insert_default().push_str(piece);
                    }
                }
            }
            let length = current.as_ref().map_or(0, String::len);
            if length > MAX_WORD || words.are_too_many() {
                self.complain(streams, "argument list too long").await?;
                return Err(Stop::Exit(2));
            }
        }
        words.extend(current);
        Ok(())
    }

    /// Returns what a script prints, without the newlines at its end.
    async fn substitute(&mut self, script: &[Pipeline], streams: &Streams) -> Result<String, Stop> {
        let (output, pipe) = Output::pipe();
        let inner = Streams {
            output,
            ..streams.clone()
        };
        let last = self.last;
        let saved = self.save();
        let outcome = self.script(script, &inner).await;
        self.restore(saved, outcome)?;
        self.last = last;
        let bytes = std::mem::take(&mut *pipe.lock());
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches('\n')
            .to_owned())
    }

    fn value(&self, name: &str) -> Result<String, Stop> {
        Ok(match (name, &self.world) {
            ("?", _) => self.last.to_string(),
            ("PWD", _) => self.directory.clone(),
            ("HOSTNAME", _) => self.hostname.clone(),
            // A plan must give the same result whenever it is made.
            ("RANDOM", World::Planned(_)) => return Err(Stop::Depends),
            ("RANDOM", World::Real(_)) => clock::rng().random_range(0..32768).to_string(),
            _ => self.variables.get(name).cloned().unwrap_or_default(),
        })
    }

    /// Returns the substitute for a variable that is empty or not set. Boxed because it is recursive.
    fn otherwise<'a>(
        &'a mut self,
        name: &'a str,
        otherwise: &'a Otherwise,
        streams: &'a Streams,
    ) -> BoxFuture<'a, Result<String, Stop>> {
        Box::pin(async move {
            match otherwise {
                Otherwise::Word(word) => self.word(word, streams).await,
                Otherwise::Fails => {
                    self.complain(streams, &format!("{name}: parameter not set or null"))
                        .await?;
                    Err(Stop::Exit(2))
                }
            }
        })
    }

    /// Returns the result of a sum.
    async fn sum(&mut self, text: &str, streams: &Streams) -> Result<String, Stop> {
        let mut stop = None;
        let mut value = |name: &str| match self.value(name) {
            Ok(value) => value,
            Err(why) => {
                stop = Some(why);
                String::new()
            }
        };
        let result = arithmetic::evaluate(text, &mut value);
        match (stop, result) {
            (Some(stop), _) => Err(stop),
            (None, Ok(number)) => Ok(number.to_string()),
            (None, Err(why)) => {
                self.complain(streams, &why).await?;
                Err(Stop::Exit(2))
            }
        }
    }
}
