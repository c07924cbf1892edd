//! Tokens.

/// A token: its kind and its bytes in the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// The kinds of tokens, in the order in which errors list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TokenKind {
    End,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
}

/// What the tokens are written like that are always written the same, longer ones before their beginnings.
pub(super) const SYMBOLS: [(&str, TokenKind); 24] = [
    ("==", TokenKind::Equals),
    ("!=", TokenKind::NotEquals),
    ("<=", TokenKind::LessEquals),
    (">=", TokenKind::GreaterEquals),
    ("&&", TokenKind::And),
    ("||", TokenKind::Or),
    ("<", TokenKind::Less),
    (">", TokenKind::Greater),
    ("[", TokenKind::OpenBracket),
    ("]", TokenKind::CloseBracket),
    ("{", TokenKind::OpenBrace),
    ("}", TokenKind::CloseBrace),
    ("(", TokenKind::OpenParen),
    (")", TokenKind::CloseParen),
    (".", TokenKind::Dot),
    (",", TokenKind::Comma),
    ("-", TokenKind::Minus),
    ("!", TokenKind::Not),
    ("?", TokenKind::Question),
    (":", TokenKind::Colon),
    ("+", TokenKind::Plus),
    ("*", TokenKind::Star),
    ("/", TokenKind::Slash),
    ("%", TokenKind::Percent),
];

/// The words that are no identifiers.
pub(super) const KEYWORDS: [(&str, TokenKind); 4] = [
    ("in", TokenKind::In),
    ("true", TokenKind::True),
    ("false", TokenKind::False),
    ("null", TokenKind::Null),
];

impl TokenKind {
    /// Returns how errors name a token that is missing.
    fn name(self) -> String {
        let fixed = SYMBOLS.iter().chain(&KEYWORDS);
        if let Some((text, _)) = fixed.into_iter().find(|(_, kind)| *kind == self) {
            return format!("'{text}'");
        }
        let name = match self {
            Self::Float => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::EscapedIdentifier => "ESC_IDENTIFIER",
            Self::End => "<EOF>",
            _ => "IDENTIFIER",
        };
        name.to_owned()
    }
}

/// Formats the tokens of which one is missing.
pub(super) fn names(mut kinds: Vec<TokenKind>) -> String {
    kinds.sort_unstable();
    let names: Vec<_> = kinds.into_iter().map(TokenKind::name).collect();
    match names.as_slice() {
        [name] => name.clone(),
        names => format!("{{{}}}", names.join(", ")),
    }
}
