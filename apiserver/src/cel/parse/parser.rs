//! The state of a parser: its tokens, and what it has found.

use super::{
    Fault, Places,
    ast::{CallExpr, Expr, ExprKind, Literal},
    lexer,
    token::{self, Token, TokenKind},
};

/// The tokens with which an operand can begin.
pub(super) const OPERAND: [TokenKind; 15] = [
    TokenKind::OpenBracket,
    TokenKind::OpenBrace,
    TokenKind::OpenParen,
    TokenKind::Dot,
    TokenKind::Minus,
    TokenKind::Not,
    TokenKind::True,
    TokenKind::False,
    TokenKind::Null,
    TokenKind::Float,
    TokenKind::Int,
    TokenKind::Uint,
    TokenKind::String,
    TokenKind::Bytes,
    TokenKind::Identifier,
];

/// The tokens with which an expression can be continued.
const CONTINUATION: [TokenKind; 17] = [
    TokenKind::Equals,
    TokenKind::NotEquals,
    TokenKind::In,
    TokenKind::Less,
    TokenKind::LessEquals,
    TokenKind::GreaterEquals,
    TokenKind::Greater,
    TokenKind::And,
    TokenKind::Or,
    TokenKind::OpenBracket,
    TokenKind::Dot,
    TokenKind::Minus,
    TokenKind::Question,
    TokenKind::Plus,
    TokenKind::Star,
    TokenKind::Slash,
    TokenKind::Percent,
];

/// A parser of one expression.
pub(super) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    pub(super) next: usize,
    pub(super) places: Places,
    pub(super) faults: Vec<Fault>,
    pub(super) depth: usize,
}

impl<'s> Parser<'s> {
    /// Makes a parser of `source`, whose tokens are `tokens`.
    pub(super) fn new(source: &'s str, tokens: Vec<Token>) -> Self {
        Self {
            source,
            tokens,
            next: 0,
            places: Places::default(),
            faults: Vec::new(),
            depth: 0,
        }
    }

    /// Returns the places of the parts, and the faults.
    pub(super) fn finish(self) -> (Places, Vec<Fault>) {
        (self.places, self.faults)
    }

    pub(super) fn token_at(&self, index: usize) -> Token {
        let end = Token {
            kind: TokenKind::End,
            start: 0,
            end: 0,
        };
        let last = self.tokens.last().copied().unwrap_or(end);
        self.tokens.get(index).copied().unwrap_or(last)
    }

    pub(super) fn peek(&self) -> TokenKind {
        self.token_at(self.next).kind
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.token_at(self.next);
        self.next += 1;
        token
    }

    /// Consumes the next token if it is of this kind.
    pub(super) fn accept(&mut self, kind: TokenKind) -> Option<Token> {
        (self.peek() == kind).then(|| self.advance())
    }

    pub(super) fn expect(&mut self, kind: TokenKind) -> Option<Token> {
        match self.accept(kind) {
            None => self.report_unexpected(vec![kind]),
            token => token,
        }
    }

    /// Reports that the next token is none of these, which ends the parse.
    pub(super) fn report_unexpected<T>(&mut self, expected: Vec<TokenKind>) -> Option<T> {
        let token = self.token_at(self.next);
        let following = self.token_at(self.next + 1).kind;
        let found = match token.kind {
            TokenKind::End => "<EOF>".to_owned(),
            _ => lexer::visible(self.text(token)),
        };
        let how = if token.kind != TokenKind::End && expected.contains(&following) {
            "extraneous"
        } else {
            "mismatched"
        };
        let expected = token::names(expected);
        let what = format!("{how} input '{found}' expecting {expected}");
        self.faults.push(Fault::syntax(token.start as usize, what));
        None
    }

    pub(super) fn text(&self, token: Token) -> &'s str {
        self.source
            .get(token.start as usize..token.end as usize)
            .unwrap_or_default()
    }

    pub(super) fn new_expr(&mut self, token: Token, kind: ExprKind) -> Expr {
        Expr {
            id: self.places.add(token.start),
            kind,
        }
    }

    pub(super) fn new_call(&mut self, operator: Token, name: &str, args: Vec<Expr>) -> Expr {
        let call = CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        };
        self.new_expr(operator, ExprKind::Call(call))
    }

    /// Reports a fault that does not end the parse, and returns something in its place.
    pub(super) fn fault(&mut self, token: Token, what: impl Into<String>) -> Expr {
        self.faults.push(Fault::new(token.start, what));
        self.new_expr(token, ExprKind::Literal(Literal::Null))
    }

    /// Consumes what must follow a whole expression, which could have been continued by an operator or by one of these.
    pub(super) fn expect_after(&mut self, kind: TokenKind, or: &[TokenKind]) -> Option<Token> {
        if let Some(token) = self.accept(kind) {
            return Some(token);
        }
        let mut expected: Vec<_> = or.iter().chain([&kind]).copied().collect();
        if self.peek() == TokenKind::End || !expected.contains(&self.token_at(self.next + 1).kind) {
            expected.extend(CONTINUATION);
        }
        self.report_unexpected(expected)
    }

    /// Reports that neither an operand nor one of these is there.
    pub(super) fn operand_or<T>(&mut self, or: &[TokenKind]) -> Option<T> {
        let expected = OPERAND.iter().chain(or).copied().collect();
        self.report_unexpected(expected)
    }
}
