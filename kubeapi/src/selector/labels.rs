//! Label selectors: `app=web,tier in (a, b),!debug`. Texts of messages are those of the real server, which clients show.

use std::collections::BTreeSet;

use super::lexer::{Lexer, Token};
use crate::object::names;

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelRequirement {
    key: String,
    test: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl LabelRequirement {
    /// Returns the key of the label that it is about.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Reports whether an object with this value of the label meets the requirement.
    pub(super) fn matches(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        match &self.test {
            Operator::Exists => label.is_some(),
            Operator::Absent => label.is_none(),
            Operator::In(values) => label.is_some_and(|label| values.contains(label)),
            Operator::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Operator::Above(bound) => number().is_some_and(|number| number > *bound),
            Operator::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Parses a label selector.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut lexer = Lexer::new(text);
    let mut requirements = Vec::new();
    loop {
        match lexer.peek() {
            Token::Word(_) | Token::Symbol("!") => {}
            Token::End => return Ok(requirements),
            other => return Err(describe_found(other, ": !, identifier, or 'end of string'")),
        }
        let requirement =
            requirement(&mut lexer).map_err(|why| format!("unable to parse requirement: {why}"))?;
        requirements.push(requirement);
        match lexer.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => match lexer.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(describe_found(other, ": identifier after ','")),
            },
            other => return Err(describe_found(&other, ": ',' or 'end of string'")),
        }
    }
}

fn describe_found(token: &Token, expected: &str) -> String {
    format!("found '{}', expected{expected}", token.text())
}

fn requirement(lexer: &mut Lexer<'_>) -> Result<LabelRequirement, String> {
    let negated = *lexer.peek() == Token::Symbol("!");
    if negated {
        lexer.next();
    }
    let key = match lexer.next() {
        Token::Word(key) => key,
        other => return Err(describe_found(&other, ": identifier")),
    };
    let faults = names::qualified_name(&key);
    if !faults.is_empty() {
        return Err(format!(
            "<nil>: Invalid value: {key:?}: {}",
            faults.join("; ")
        ));
    }
    if matches!(lexer.peek(), Token::End | Token::Symbol(",")) {
        let test = if negated {
            Operator::Absent
        } else {
            Operator::Exists
        };
        return Ok(LabelRequirement { key, test });
    }
    // as the real server: `!key=value` reads as `key=value`
    let test = test(lexer, &key)?;
    Ok(LabelRequirement { key, test })
}

fn test(lexer: &mut Lexer<'_>, key: &str) -> Result<Operator, String> {
    let operator = lexer.next();
    match operator.text() {
        "in" => Ok(Operator::In(value_set(lexer, key)?)),
        "notin" => Ok(Operator::NotIn(value_set(lexer, key)?)),
        "=" | "==" => Ok(Operator::In(BTreeSet::from([one_value(lexer, key)?]))),
        "!=" => Ok(Operator::NotIn(BTreeSet::from([one_value(lexer, key)?]))),
        ">" => Ok(Operator::Above(number(lexer, key)?)),
        "<" => Ok(Operator::Below(number(lexer, key)?)),
        _ => Err(describe_found(&operator, ": in, notin, =, ==, !=, gt, lt")),
    }
}

fn number(lexer: &mut Lexer<'_>, key: &str) -> Result<i64, String> {
    let value = one_value(lexer, key)?;
    value.parse().map_err(|_| {
        format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
    })
}

fn one_value(lexer: &mut Lexer<'_>, key: &str) -> Result<String, String> {
    if matches!(lexer.peek(), Token::End | Token::Symbol(",")) {
        return Ok(String::new());
    }
    match lexer.next() {
        Token::Word(value) => check_value(key, 0, &value).map(|()| value),
        other => Err(describe_found(&other, ": identifier")),
    }
}

/// What stands in parentheses; nothing between two commas, or beside one, is the empty value.
fn value_set(lexer: &mut Lexer<'_>, key: &str) -> Result<BTreeSet<String>, String> {
    match lexer.next() {
        Token::Symbol("(") => {}
        other => return Err(format!("found '{}' expected: '('", other.text())),
    }
    let mut values = BTreeSet::new();
    if *lexer.peek() == Token::Symbol(")") {
        return Err(
            "values: Invalid value: []string{}: for 'in', 'notin' operators, values set can't be empty"
                .into(),
        );
    }
    loop {
        match lexer.peek() {
            Token::Word(_) => values.insert(lexer.next().text().to_owned()),
            Token::Symbol("," | ")") => values.insert(String::new()),
            other => return Err(describe_found(other, ": ',', or identifier")),
        };
        match lexer.next() {
            Token::Symbol(",") => {}
            Token::Symbol(")") => break,
            other => return Err(describe_found(&other, ": ',' or ')'")),
        }
    }
    for (index, value) in values.iter().enumerate() {
        check_value(key, index, value)?;
    }
    Ok(values)
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), String> {
    let faults = names::label_value(value);
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!(
        "values[{index}][{key}]: Invalid value: {value:?}: {}",
        faults.join("; ")
    ))
}
