//! Parses conditions and loops: `if`, `while`, `until`, `for` and `{ … }`.

use super::{Depth, Part, Reader, Script, Unreadable, Word};

use Unreadable::{Unfinished, Unsupported};

/// How deep conditions and loops may be nested.
const MAX_COMPOUNDS: usize = 16;

const FORM_OF_FOR: Unreadable = Unsupported("this form of for");

/// A command that consists of scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Compound {
    If {
        /// The conditions, each with the script that is run if it holds.
        branches: Vec<(Script, Script)>,
        otherwise: Script,
    },
    While {
        condition: Script,
        /// Whether the loop ends when the condition holds: `until`.
        is_until: bool,
        body: Script,
    },
    For {
        name: String,
        words: Vec<Word>,
        body: Script,
    },
    Group(Script),
}

impl Reader<'_, '_> {
    /// Parses what follows its first word; returns `None` if that word begins no compound command.
    pub(super) fn compound(&mut self, first: &str) -> Result<Option<Compound>, Unreadable> {
        let compound = match first {
            "if" => self.condition()?,
            "while" | "until" => {
                let (condition, _) = self.inner(&["do"])?;
                let (body, _) = self.inner(&["done"])?;
                // No shell accepts these, and such a loop would never end.
                if condition.is_empty() || body.is_empty() {
                    return Err(Unsupported("empty loops"));
                }
                Compound::While {
                    condition,
                    is_until: first == "until",
                    body,
                }
            }
            "for" => self.each()?,
            "{" => Compound::Group(self.inner(&["}"])?.0),
            _ => return Ok(None),
        };
        Ok(Some(compound))
    }

    fn condition(&mut self) -> Result<Compound, Unreadable> {
        let mut branches = Vec::new();
        loop {
            let (condition, _) = self.inner(&["then"])?;
            let (body, end) = self.inner(&["elif", "else", "fi"])?;
            branches.push((condition, body));
            match end {
                "elif" => {}
                "else" => {
                    let (otherwise, _) = self.inner(&["fi"])?;
                    return Ok(Compound::If {
                        branches,
                        otherwise,
                    });
                }
                _ => {
                    return Ok(Compound::If {
                        branches,
                        otherwise: Script::new(),
                    });
                }
            }
        }
    }

    fn each(&mut self) -> Result<Compound, Unreadable> {
        let name = match self.next_word()?.as_slice() {
            [Part::Text(name)] => name.clone(),
            _ => return Err(FORM_OF_FOR),
        };
        if self.next_word()? != [Part::Text("in".to_owned())] {
            return Err(FORM_OF_FOR);
        }
        let mut words = Vec::new();
        loop {
            while self
                .rest
                .next_if(|next| matches!(next, ' ' | '\t' | '\r'))
                .is_some()
            {}
            match self.rest.peek() {
                None => return Err(Unfinished),
                Some(';' | '\n') => break,
                Some(_) => words.push(self.next_word()?),
            }
        }
        // Whatever stands before its `do` must be empty.
        let (before, _) = self.inner(&["do"])?;
        if !before.is_empty() {
            return Err(FORM_OF_FOR);
        }
        let (body, _) = self.inner(&["done"])?;
        Ok(Compound::For { name, words, body })
    }

    /// Parses a script up to one of these words, and returns the script and that word.
    fn inner(
        &mut self,
        ends: &'static [&'static str],
    ) -> Result<(Script, &'static str), Unreadable> {
        if self.depth.compounds >= MAX_COMPOUNDS {
            return Err(Unsupported(
                "more than 16 conditions and loops in one another",
            ));
        }
        let depth = Depth {
            compounds: self.depth.compounds + 1,
            ..self.depth
        };
        let mut reader = Reader::new(self.rest, depth);
        reader.ends = ends;
        while reader.step()? {}
        let end = reader.end.ok_or(Unfinished)?;
        reader.end_pipeline(super::Joint::Always)?;
        Ok((reader.script, end))
    }
}
