//! Parses words: texts, quotes, variables, `$(…)`, backquotes and `$((…))`.

use super::{Depth, MAX_DEPTH, Otherwise, Part, Reader, Unreadable, Word};

use Unreadable::{Unfinished, Unsupported};

const TOO_DEEP: Unreadable = Unsupported("more than four $( ) in one another");
const FORM_OF_BRACES: Unreadable = Unsupported("this form of ${ }");

impl Reader<'_, '_> {
    pub(super) fn next_word(&mut self) -> Result<Word, Unreadable> {
        while self
            .rest
            .next_if(|next| matches!(next, ' ' | '\t'))
            .is_some()
        {}
        let word = self.word()?;
        if word.is_empty() {
            Err(Unsupported("an operator at this place"))
        } else {
            Ok(word)
        }
    }

    pub(super) fn word(&mut self) -> Result<Word, Unreadable> {
        let mut word = Word::new();
        let mut is_quoted = false;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
                    if !is_quoted =>
                {
                    break;
                }
                '`' => {
                    self.rest.next();
                    let part = self.parse_backquoted(is_quoted)?;
                    word.push(part);
                }
                '"' => {
                    is_quoted = !is_quoted;
                    push(&mut word, "");
                    self.rest.next();
                }
                '\'' if !is_quoted => {
                    self.rest.next();
                    let text: String =
                        std::iter::from_fn(|| self.rest.next_if(|next| *next != '\'')).collect();
                    self.rest.next().ok_or(Unfinished)?;
                    push(&mut word, &text);
                }
                '\\' => {
                    self.rest.next();
                    match self.rest.next().ok_or(Unfinished)? {
                        // The line continues.
                        '\n' => {}
                        escaped => {
                            if is_quoted && !matches!(escaped, '"' | '\\' | '$' | '`') {
                                push(&mut word, "\\");
                            }
                            push(&mut word, escaped.encode_utf8(&mut [0; 4]));
                        }
                    }
                }
                '$' => {
                    self.rest.next();
                    let part = self.variable(is_quoted)?;
                    word.push(part);
                }
                other => {
                    self.rest.next();
                    push(&mut word, other.encode_utf8(&mut [0; 4]));
                }
            }
        }
        if is_quoted { Err(Unfinished) } else { Ok(word) }
    }

    /// Parses what follows a backquote: `` `…` `` is an older form of `$(…)`, in which a backslash protects itself, `$` and backquotes.
    fn parse_backquoted(&mut self, is_quoted: bool) -> Result<Part, Unreadable> {
        let mut text = String::new();
        loop {
            match self.rest.next().ok_or(Unfinished)? {
                '`' => break,
                '\\' => match self.rest.next().ok_or(Unfinished)? {
                    escaped @ ('`' | '\\' | '$') => text.push(escaped),
                    escaped => text.extend(['\\', escaped]),
                },
                other => text.push(other),
            }
        }
        if self.depth.scripts >= MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        // A nested script ends with its bracket.
        text.push(')');
        let depth = Depth {
            scripts: self.depth.scripts + 1,
            ..self.depth
        };
        let mut rest = text.chars().peekable();
        let script = Reader::new(&mut rest, depth).script()?;
        if rest.next().is_some() {
            return Err(Unsupported("brackets without a partner in backquotes"));
        }
        Ok(Part::Output { script, is_quoted })
    }

    /// Parses what follows a `$`.
    fn variable(&mut self, is_quoted: bool) -> Result<Part, Unreadable> {
        if self.rest.next_if_eq(&'(').is_some() {
            if self.rest.next_if_eq(&'(').is_some() {
                return self.sum();
            }
            if self.depth.scripts >= MAX_DEPTH {
                return Err(TOO_DEEP);
            }
            let depth = Depth {
                scripts: self.depth.scripts + 1,
                ..self.depth
            };
            let script = Reader::new(self.rest, depth).script()?;
            return Ok(Part::Output { script, is_quoted });
        }
        let is_name = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
        let is_braced = self.rest.next_if_eq(&'{').is_some();
        let mut name: String = std::iter::from_fn(|| self.rest.next_if(is_name)).collect();
        if name.is_empty() && self.rest.next_if_eq(&'?').is_some() {
            name.push('?');
        }
        let otherwise = if is_braced { self.otherwise()? } else { None };
        match (name.is_empty(), is_braced) {
            (false, _) => Ok(Part::Variable {
                name,
                is_quoted,
                otherwise,
            }),
            (true, true) => Err(FORM_OF_BRACES),
            (true, false) => Ok(Part::Text("$".into())),
        }
    }

    /// Parses what follows the name in `${…}`.
    fn otherwise(&mut self) -> Result<Option<Otherwise>, Unreadable> {
        if self.rest.next_if_eq(&'}').is_some() {
            return Ok(None);
        }
        self.rest.next_if_eq(&':').ok_or(FORM_OF_BRACES)?;
        let kind = self.rest.next().ok_or(Unfinished)?;
        let text: String = std::iter::from_fn(|| self.rest.next_if(|next| *next != '}')).collect();
        self.rest.next().ok_or(Unfinished)?;
        match kind {
            '-' if !text.contains(['"', '{', '(']) => {
                let text = format!("\"{text}\"");
                let word = Reader::new(&mut text.chars().peekable(), self.depth).word()?;
                Ok(Some(Otherwise::Word(word)))
            }
            '?' => Ok(Some(Otherwise::Fails)),
            _ => Err(FORM_OF_BRACES),
        }
    }

    /// Parses what follows a `$((`.
    fn sum(&mut self) -> Result<Part, Unreadable> {
        let (mut text, mut open) = (String::new(), 0_usize);
        loop {
            match self.rest.next().ok_or(Unfinished)? {
                ')' if open == 0 => {
                    break self
                        .rest
                        .next_if_eq(&')')
                        .ok_or(Unsupported("this form of $(( ))"))
                        .map(drop)?;
                }
                ')' => {
                    open -= 1;
                    text.push(')');
                }
                '(' => {
                    open += 1;
                    text.push('(');
                }
                other => text.push(other),
            }
        }
        Ok(Part::Sum(text))
    }
}

fn push(word: &mut Word, text: &str) {
    match word.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ => word.push(Part::Text(text.to_owned())),
    }
}
