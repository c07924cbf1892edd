//! The parser, by recursive descent: a function for each rule of the grammar. Operators of two operands are parsed by their
//! precedence.

use crate::cel::functions::overloads;

use super::{
    Fault,
    ast::{
        CallExpr, Expr, ExprKind, ListExpr, Literal, MapEntry, MapExpr, SelectExpr, StructExpr,
        StructField,
    },
    macros, operators,
    parser::{OPERAND, Parser},
    strings,
    token::{Token, TokenKind},
};

/// The most expressions that may be nested in each other, which bounds the recursion.
const MAX_DEPTH: usize = 96;

/// Identifiers that are reserved, though not as names of fields and methods.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

impl Parser<'_> {
    /// Parses the whole source. `None`: a fault of the syntax ended it; other faults do not.
    pub(super) fn whole(&mut self) -> Option<Expr> {
        let expr = self.expr()?;
        self.expect_after(TokenKind::End, &[])?;
        Some(expr)
    }

    /// `or ? or : expr`
    fn expr(&mut self) -> Option<Expr> {
        if self.depth >= MAX_DEPTH {
            let place = self.token_at(self.next).start;
            let what = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.faults.push(Fault::new(place, what));
            return None;
        }
        self.depth += 1;
        let condition = self.or()?;
        let expr = match self.accept(TokenKind::Question) {
            None => condition,
            Some(operator) => {
                let yes = self.or()?;
                self.expect_after(TokenKind::Colon, &[])?;
                let no = self.expr()?;
                self.new_call(operator, operators::CONDITIONAL, vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Some(expr)
    }

    fn or(&mut self) -> Option<Expr> {
        self.chain(TokenKind::Or, operators::LOGICAL_OR, Self::and)
    }

    fn and(&mut self) -> Option<Expr> {
        self.chain(TokenKind::And, operators::LOGICAL_AND, |parser| {
            parser.binary(0)
        })
    }

    /// Terms with an operator between them, as a balanced tree: long chains are usual, and must not be deep.
    fn chain(
        &mut self,
        kind: TokenKind,
        name: &str,
        term: impl Fn(&mut Self) -> Option<Expr>,
    ) -> Option<Expr> {
        let mut terms = vec![term(self)?];
        let mut ids = Vec::new();
        while let Some(operator) = self.accept(kind) {
            terms.push(term(self)?);
            ids.push(self.places.add(operator.start));
        }
        balance(name, &mut terms.into_iter(), &ids)
    }

    /// Operands with operators between them that bind more tightly than `precedence`.
    fn binary(&mut self, precedence: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some((name, own)) = infix(self.peek()).filter(|(_, own)| *own > precedence) {
            let operator = self.advance();
            let right = self.binary(own)?;
            left = self.new_call(operator, name, vec![left, right]);
        }
        Some(left)
    }

    /// A member after any number of `!` or `-`. An even number of them is none.
    fn unary(&mut self) -> Option<Expr> {
        let kind = self.peek();
        let name = match kind {
            TokenKind::Not => operators::LOGICAL_NOT,
            TokenKind::Minus if !self.is_negative_literal() => operators::NEGATE,
            _ => return self.member(),
        };
        let first = self.advance();
        let mut count = 1;
        while self.accept(kind).is_some() {
            count += 1;
        }
        let operand = self.member()?;
        if count % 2 == 0 {
            return Some(operand);
        }
        Some(self.new_call(first, name, vec![operand]))
    }

    fn is_negative_literal(&self) -> bool {
        let following = self.token_at(self.next + 1).kind;
        self.peek() == TokenKind::Minus && matches!(following, TokenKind::Int | TokenKind::Float)
    }

    /// A primary expression with fields, calls of methods and indices after it.
    fn member(&mut self) -> Option<Expr> {
        let mut operand = self.primary()?;
        loop {
            operand = match self.peek() {
                TokenKind::Dot => self.select(operand)?,
                TokenKind::OpenBracket => self.index(operand)?,
                _ => return Some(operand),
            };
        }
    }

    /// `.field`, `.?field` or `.method(args)`
    fn select(&mut self, operand: Expr) -> Option<Expr> {
        let dot = self.advance();
        let is_optional = self.accept(TokenKind::Question).is_some();
        let token = self.advance();
        match token.kind {
            TokenKind::Identifier => {}
            TokenKind::EscapedIdentifier => {
                return Some(self.fault(dot, "unsupported syntax: '`'"));
            }
            _ => {
                self.next -= 1;
                let mut expected = vec![TokenKind::Identifier, TokenKind::EscapedIdentifier];
                if !is_optional {
                    expected.push(TokenKind::Question);
                }
                return self.report_unexpected(expected);
            }
        }
        let name = self.text(token).to_owned();
        if is_optional {
            let field = self.new_expr(dot, ExprKind::Literal(Literal::String(name)));
            return Some(self.new_call(dot, operators::OPT_SELECT, vec![operand, field]));
        }
        match self.accept(TokenKind::OpenParen) {
            Some(open) => self.call(open, name, Some(operand)),
            None => {
                let select = SelectExpr {
                    operand: Box::new(operand),
                    field: name,
                    test: false,
                };
                Some(self.new_expr(dot, ExprKind::Select(select)))
            }
        }
    }

    /// `[index]` or `[?index]`
    fn index(&mut self, operand: Expr) -> Option<Expr> {
        let open = self.advance();
        let name = match self.accept(TokenKind::Question) {
            Some(_) => operators::OPT_INDEX,
            None => operators::INDEX,
        };
        let index = self.expr()?;
        self.expect_after(TokenKind::CloseBracket, &[])?;
        Some(self.new_call(open, name, vec![operand, index]))
    }

    /// The arguments of a call, after its bracket. Macros are expanded.
    fn call(&mut self, open: Token, name: String, target: Option<Expr>) -> Option<Expr> {
        let mut args = Vec::new();
        if self.accept(TokenKind::CloseParen).is_none() {
            if !OPERAND.contains(&self.peek()) {
                return self.operand_or(&[TokenKind::CloseParen]);
            }
            args.push(self.expr()?);
            while self.accept(TokenKind::Comma).is_some() {
                args.push(self.expr()?);
            }
            self.expect_after(TokenKind::CloseParen, &[TokenKind::Comma])?;
        }
        let id = self.places.add(open.start);
        let Some(found) = macros::find(&name, target.is_some(), args.len()) else {
            let target = target.map(Box::new);
            let kind = ExprKind::Call(CallExpr {
                func_name: name,
                target,
                args,
            });
            return Some(Expr { id, kind });
        };
        match macros::expand(found, &mut self.places, id, target, args) {
            Ok(expr) => Some(expr),
            Err(fault) => {
                self.faults.push(fault);
                Some(self.new_expr(open, ExprKind::Literal(Literal::Null)))
            }
        }
    }

    fn primary(&mut self) -> Option<Expr> {
        let token = self.token_at(self.next);
        match token.kind {
            TokenKind::OpenParen => {
                self.advance();
                let inner = self.expr()?;
                self.expect_after(TokenKind::CloseParen, &[])?;
                Some(inner)
            }
            TokenKind::OpenBracket => self.list(),
            TokenKind::OpenBrace => self.map(),
            TokenKind::Dot | TokenKind::Identifier => self.parse_name(),
            TokenKind::Minus if self.is_negative_literal() => {
                self.advance();
                let number = self.advance();
                Some(self.number(number, "-"))
            }
            TokenKind::Int | TokenKind::Uint | TokenKind::Float => {
                self.advance();
                Some(self.number(token, ""))
            }
            TokenKind::String | TokenKind::Bytes => {
                self.advance();
                Some(self.parse_quoted(token))
            }
            TokenKind::True | TokenKind::False => {
                self.advance();
                let value = Literal::Bool(token.kind == TokenKind::True);
                Some(self.new_expr(token, ExprKind::Literal(value)))
            }
            TokenKind::Null => {
                self.advance();
                Some(self.new_expr(token, ExprKind::Literal(Literal::Null)))
            }
            _ => self.operand_or(&[]),
        }
    }

    fn number(&mut self, token: Token, sign: &str) -> Expr {
        let text = self.text(token);
        let (radix, digits) = text
            .strip_prefix("0x")
            .map_or((10, text), |rest| (16, rest));
        let value = match token.kind {
            TokenKind::Int => i64::from_str_radix(&format!("{sign}{digits}"), radix)
                .map(Literal::Int)
                .map_err(|_| "invalid int literal"),
            TokenKind::Uint => u64::from_str_radix(digits.trim_end_matches(['u', 'U']), radix)
                .map(Literal::Uint)
                .map_err(|_| "invalid uint literal"),
            _ => match format!("{sign}{text}").parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Literal::Double(value)),
                _ => Err("invalid double literal"),
            },
        };
        match value {
            Ok(value) => self.new_expr(token, ExprKind::Literal(value)),
            Err(what) => self.fault(token, what),
        }
    }

    fn parse_quoted(&mut self, token: Token) -> Expr {
        let text = self.text(token);
        let value = match token.kind {
            TokenKind::Bytes => strings::bytes(text).map(Literal::Bytes),
            _ => strings::string(text).map(Literal::String),
        };
        match value {
            Ok(value) => self.new_expr(token, ExprKind::Literal(value)),
            Err(what) => self.fault(token, what),
        }
    }

    /// An identifier, a call of a function or a message, each with or without a dot before it.
    fn parse_name(&mut self) -> Option<Expr> {
        let dot = self.accept(TokenKind::Dot).map_or("", |_| ".");
        if let Some(names) = self.names_before_brace() {
            return self.message(&format!("{dot}{names}"));
        }
        let token = self.expect(TokenKind::Identifier)?;
        let name = format!("{dot}{}", self.text(token));
        let is_reserved = RESERVED.contains(&self.text(token));
        let expr = match self.accept(TokenKind::OpenParen) {
            Some(open) => self.call(open, name.clone(), None)?,
            None => self.new_expr(token, ExprKind::Ident(name.clone())),
        };
        Some(if is_reserved {
            self.fault(token, format!("reserved identifier: {name}"))
        } else {
            expr
        })
    }

    /// Returns the name of a message, which is names with dots between them before `{`, and consumes it.
    fn names_before_brace(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut at = self.next;
        loop {
            let token = self.token_at(at);
            if token.kind != TokenKind::Identifier {
                return None;
            }
            name.push_str(self.text(token));
            match self.token_at(at + 1).kind {
                TokenKind::Dot => name.push('.'),
                TokenKind::OpenBrace => {
                    self.next = at + 1;
                    return Some(name);
                }
                _ => return None,
            }
            at += 2;
        }
    }

    /// `{field: value, …}` after the name of a type. A known type is a function of its name, or of its name and that of its one field.
    fn message(&mut self, name: &str) -> Option<Expr> {
        let open = self.advance();
        let mut func_name = name.trim_start_matches('.').to_owned();
        let mut fields = Vec::new();
        self.items(TokenKind::CloseBrace, |parser| {
            let optional = parser.accept(TokenKind::Question).is_some();
            let mut field = String::new();
            if let Some(token) = parser.accept(TokenKind::EscapedIdentifier) {
                parser.fault(token, "unsupported syntax: '`'");
            } else {
                let token = parser.expect(TokenKind::Identifier)?;
                field = parser.text(token).to_owned();
                func_name = format!("{func_name}.{field}");
            }
            parser.expect(TokenKind::Colon)?;
            fields.push(StructField {
                name: field,
                value: parser.expr()?,
                optional,
            });
            Some(())
        })?;
        let is_plain = fields.iter().all(|field| !field.optional);
        let kind = match overloads(&func_name) {
            known if is_plain && known.iter().any(|one| one.args.len() == fields.len()) => {
                ExprKind::Call(CallExpr {
                    func_name,
                    target: None,
                    args: fields.into_iter().map(|field| field.value).collect(),
                })
            }
            _ => ExprKind::Struct(StructExpr {
                type_name: name.to_owned(),
                fields,
            }),
        };
        Some(self.new_expr(open, kind))
    }

    /// `[item, ?item, …]`
    fn list(&mut self) -> Option<Expr> {
        let open = self.advance();
        let mut list = ListExpr::default();
        self.items(TokenKind::CloseBracket, |parser| {
            if parser.accept(TokenKind::Question).is_some() {
                list.optional_indices.push(list.elements.len());
            }
            list.elements.push(parser.expr()?);
            Some(())
        })?;
        Some(self.new_expr(open, ExprKind::List(list)))
    }

    /// `{key: value, ?key: value, …}`
    fn map(&mut self) -> Option<Expr> {
        let open = self.advance();
        let mut map = MapExpr::default();
        self.items(TokenKind::CloseBrace, |parser| {
            let optional = parser.accept(TokenKind::Question).is_some();
            let key = parser.expr()?;
            parser.expect_after(TokenKind::Colon, &[])?;
            let value = parser.expr()?;
            map.entries.push(MapEntry {
                key,
                value,
                optional,
            });
            Some(())
        })?;
        Some(self.new_expr(open, ExprKind::Map(map)))
    }

    /// Items with commas between them up to a closing bracket, before which there may be one comma more.
    fn items(
        &mut self,
        close: TokenKind,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let first = [close, TokenKind::Comma, TokenKind::Question];
        if !OPERAND.contains(&self.peek())
            && !first.contains(&self.peek())
            && self.peek() != TokenKind::EscapedIdentifier
        {
            return self.operand_or(&first);
        }
        if self.accept(TokenKind::Comma).is_some() {
            return self.expect(close).map(drop);
        }
        while self.accept(close).is_none() {
            item(self)?;
            if self.accept(TokenKind::Comma).is_none() {
                return self.expect_after(close, &[TokenKind::Comma]).map(drop);
            }
        }
        Some(())
    }
}

/// Returns the name of an operator between operands, and how tightly it binds.
fn infix(kind: TokenKind) -> Option<(&'static str, u8)> {
    Some(match kind {
        TokenKind::Less => (operators::LESS, 1),
        TokenKind::LessEquals => (operators::LESS_EQUALS, 1),
        TokenKind::Greater => (operators::GREATER, 1),
        TokenKind::GreaterEquals => (operators::GREATER_EQUALS, 1),
        TokenKind::Equals => (operators::EQUALS, 1),
        TokenKind::NotEquals => (operators::NOT_EQUALS, 1),
        TokenKind::In => (operators::IN, 1),
        TokenKind::Plus => (operators::ADD, 2),
        TokenKind::Minus => (operators::SUBTRACT, 2),
        TokenKind::Star => (operators::MULTIPLY, 3),
        TokenKind::Slash => (operators::DIVIDE, 3),
        TokenKind::Percent => (operators::MODULO, 3),
        _ => return None,
    })
}

/// The terms with operators between them, whose numbers are `ids`.
fn balance(name: &str, terms: &mut impl Iterator<Item = Expr>, ids: &[u32]) -> Option<Expr> {
    let middle = ids.len() / 2;
    let Some(id) = ids.get(middle) else {
        return terms.next();
    };
    let left = balance(name, terms, ids.get(..middle)?)?;
    let right = balance(name, terms, ids.get(middle + 1..)?)?;
    let call = CallExpr {
        func_name: name.to_owned(),
        target: None,
        args: vec![left, right],
    };
    Some(Expr {
        id: *id,
        kind: ExprKind::Call(call),
    })
}
