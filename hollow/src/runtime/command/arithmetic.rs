//! Evaluates sums of whole numbers: `$((…))`. Pure.

/// How deep brackets may be nested.
const MAX_DEPTH: usize = 32;

/// Evaluates a sum; `value` returns the values of names. Errors use the words of a shell.
pub(super) fn evaluate(text: &str, value: &mut dyn FnMut(&str) -> String) -> Result<i64, String> {
    let mut sum = Sum {
        rest: text.trim(),
        value,
        depth: 0,
    };
    let result = sum.parse_comparison()?;
    if sum.rest.is_empty() {
        Ok(result)
    } else {
        Err(format!("arithmetic syntax error: {text}"))
    }
}

/// Applies an operator to two numbers: `+`, `-`, `*`, `/`, `%` or a comparison, whose result is 1 or 0.
pub(super) fn operate(left: i64, operator: &str, right: i64) -> Result<i64, String> {
    let result = match operator {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" | "%" if right == 0 => return Err("divide by zero".to_owned()),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        "<" => Some(i64::from(left < right)),
        "<=" => Some(i64::from(left <= right)),
        ">" => Some(i64::from(left > right)),
        ">=" => Some(i64::from(left >= right)),
        "=" | "==" => Some(i64::from(left == right)),
        "!=" => Some(i64::from(left != right)),
        _ => return Err(format!("{operator} is not simulated")),
    };
    result.ok_or_else(|| "number out of range".to_owned())
}

struct Sum<'a, 'b> {
    rest: &'a str,
    value: &'b mut dyn FnMut(&str) -> String,
    depth: usize,
}

impl Sum<'_, '_> {
    fn parse_comparison(&mut self) -> Result<i64, String> {
        self.chain(&["<=", ">=", "==", "!=", "<", ">"], |sum| {
            sum.chain(&["+", "-"], |sum| sum.chain(&["*", "/", "%"], Self::one))
        })
    }

    /// Evaluates operations of one precedence from left to right.
    fn chain(
        &mut self,
        operators: &[&str],
        operand: impl Fn(&mut Self) -> Result<i64, String>,
    ) -> Result<i64, String> {
        let mut left = operand(self)?;
        loop {
            self.rest = self.rest.trim_start();
            let Some(operator) = operators
                .iter()
                .find(|operator| self.rest.starts_with(**operator))
            else {
                return Ok(left);
            };
            self.rest = &self.rest[operator.len()..];
            left = operate(left, operator, operand(self)?)?;
        }
    }

    fn one(&mut self) -> Result<i64, String> {
        self.rest = self.rest.trim_start();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("too deep".to_owned());
        }
        let result = if let Some(rest) = self.rest.strip_prefix('-') {
            self.rest = rest;
            self.one().map(|number| number.wrapping_neg())
        } else if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest;
            let inner = self.parse_comparison()?;
            self.rest = self
                .rest
                .strip_prefix(')')
                .ok_or("arithmetic syntax error: ) is missing")?;
            Ok(inner)
        } else {
            self.word()
        };
        self.depth -= 1;
        result
    }

    /// Reads a number or a name, which may be written `$NAME` or `${NAME}`.
    fn word(&mut self) -> Result<i64, String> {
        let text = self.rest.strip_prefix('$').unwrap_or(self.rest);
        let (text, is_braced) = text
            .strip_prefix('{')
            .map_or((text, false), |text| (text, true));
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = if is_braced {
            rest.strip_prefix('}').unwrap_or(rest)
        } else {
            rest
        };
        if word.is_empty() {
            return Err(format!("arithmetic syntax error: {rest}"));
        }
        let word = if word.starts_with(|first: char| first.is_ascii_digit()) {
            word.to_owned()
        } else {
            (self.value)(word)
        };
        match word.trim() {
            "" => Ok(0),
            number => number.parse().map_err(|_| format!("bad number: {number}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_as_in_a_shell() {
        for (text, result) in [
            ("1 + 2 * 3", Ok(7)),
            ("(1+2)*3", Ok(9)),
            ("7 / 2 - 7 % 4", Ok(0)),
            ("A * ${A} - $A", Ok(20)),
            ("-A + 6", Ok(1)),
            ("NONE", Ok(0)),
            ("A > 4", Ok(1)),
            ("A == 4", Ok(0)),
            ("9223372036854775807 + 1", Err("number out of range")),
            ("1 / 0", Err("divide by zero")),
            ("1 +", Err("arithmetic syntax error: ")),
            ("1 2", Err("arithmetic syntax error: 1 2")),
            ("WORD", Err("bad number: x")),
        ] {
            let mut value = |name: &str| match name {
                "A" => "5".to_owned(),
                "WORD" => "x".to_owned(),
                _ => String::new(),
            };
            assert_eq!(
                evaluate(text, &mut value),
                result.map_err(str::to_owned),
                "{text}"
            );
        }
        assert!(evaluate(&"(".repeat(8000), &mut |_| String::new()).is_err());
        assert!(evaluate(&"-".repeat(8000), &mut |_| String::new()).is_err());
    }
}
