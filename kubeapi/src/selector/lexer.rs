//! Splits a label selector into tokens.

use std::{iter::Peekable, str::Chars};

/// A token; messages quote it as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A key, a value, `in` or `notin`.
    Word(String),
    /// `(`, `)`, `,`, `!`, `=`, `==`, `!=`, `>`, `<`.
    Symbol(&'static str),
    /// The end of the selector.
    End,
}

impl Token {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Word(text) => text,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

/// The lexer of a selector.
pub(super) struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    ahead: Option<Token>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
            ahead: None,
        }
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> &Token {
        if self.ahead.is_none() {
            self.ahead = Some(self.read());
        }
        self.ahead.as_ref().unwrap_or(&Token::End)
    }

    /// Returns and consumes the next token.
    pub(super) fn next(&mut self) -> Token {
        match self.ahead.take() {
            Some(token) => token,
            None => self.read(),
        }
    }

    fn read(&mut self) -> Token {
        while self.rest.next_if(is_blank).is_some() {}
        let Some(first) = self.rest.peek().copied() else {
            return Token::End;
        };
        if let Some(symbol) = symbol(first) {
            self.rest.next();
            let doubled = matches!(first, '=' | '!') && self.rest.next_if_eq(&'=').is_some();
            return Token::Symbol(match (first, doubled) {
                ('=', true) => "==",
                ('!', true) => "!=",
                _ => symbol,
            });
        }
        let mut word = String::new();
        while let Some(char) = self
            .rest
            .next_if(|char| symbol(*char).is_none() && !is_blank(char))
        {
            word.push(char);
        }
        Token::Word(word)
    }
}

fn is_blank(char: &char) -> bool {
    matches!(char, ' ' | '\t' | '\r' | '\n')
}

fn symbol(char: char) -> Option<&'static str> {
    Some(match char {
        '=' => "=",
        '!' => "!",
        '(' => "(",
        ')' => ")",
        ',' => ",",
        '>' => ">",
        '<' => "<",
        _ => return None,
    })
}
