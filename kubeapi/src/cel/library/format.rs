//! `format`: texts with clauses such as `%s`, `%d` and `%f`.

use super::{context::Context, convert};
use crate::cel::{
    error::{EvalError, Evaluated},
    value::{List, Val},
};

/// The most digits after the point.
const PRECISION: usize = 100;

/// Returns `template` with its clauses replaced by the arguments.
pub(super) fn format<'a>(template: &str, args: &List<'a>, context: &mut Context<'_>) -> Evaluated<'a> {
    let mut result = String::new();
    let mut chars = template.chars().peekable();
    let mut next = 0;
    while let Some(char) = chars.next() {
        if char != '%' {
            result.push(char);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            result.push('%');
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok();
            if precision.is_none_or(|precision| precision > PRECISION) {
                return EvalError::failed("error while parsing precision");
            }
        }
        let Some(clause) = chars.next() else { return EvalError::failed("unexpected end of string") };
        let Some(arg) = args.get(next) else {
            return EvalError::failed(format!("index {next} out of range"));
        };
        next += 1;
        context.budget.spend_on(&arg)?;
        let written = clause_of(clause, precision, &arg)?;
        context.budget.spend_bytes(written.len())?;
        result.push_str(&written);
    }
    Ok(Val::text(result))
}

fn clause_of(clause: char, precision: Option<usize>, arg: &Val<'_>) -> Result<String, EvalError> {
    let wrong = || {
        let why =
            format!("error during formatting: no formatting function for {} with %{clause}", arg.type_name());
        Err(EvalError::Failed(why))
    };
    Ok(match (clause, arg) {
        ('s', arg) => text(arg)?,
        ('d', Val::Int(number)) => number.to_string(),
        ('d', Val::Uint(number)) => number.to_string(),
        #[allow(clippy::cast_precision_loss, reason = "as they are shown")]
        ('f' | 'e', Val::Int(number)) => real(clause, *number as f64, precision),
        #[allow(clippy::cast_precision_loss, reason = "as they are shown")]
        ('f' | 'e', Val::Uint(number)) => real(clause, *number as f64, precision),
        ('f' | 'e', Val::Double(number)) => real(clause, *number, precision),
        ('b', Val::Int(number)) => signed(*number, |number| format!("{number:b}")),
        ('b', Val::Uint(number)) => format!("{number:b}"),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('x', Val::Int(number)) => signed(*number, |number| format!("{number:x}")),
        ('X', Val::Int(number)) => signed(*number, |number| format!("{number:X}")),
        ('x', Val::Uint(number)) => format!("{number:x}"),
        ('X', Val::Uint(number)) => format!("{number:X}"),
        ('x' | 'X', Val::String(text)) => hex(text.as_bytes(), clause == 'X'),
        ('x' | 'X', Val::Bytes(bytes)) => hex(bytes, clause == 'X'),
        ('o', Val::Int(number)) => signed(*number, |number| format!("{number:o}")),
        ('o', Val::Uint(number)) => format!("{number:o}"),
        ('d' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o', _) => return wrong(),
        _ => {
            return EvalError::failed(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
            ));
        }
    })
}

fn hex(bytes: &[u8], upper: bool) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let written = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    written.map(|digit| if upper { digit.to_ascii_uppercase() } else { digit }).collect()
}

fn signed(number: i64, write: impl FnOnce(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", write(number.unsigned_abs()))
}

fn real(clause: char, number: f64, precision: Option<usize>) -> String {
    let precision = precision.unwrap_or(6);
    if clause == 'f' {
        return format!("{number:.precision$}");
    }
    let written = format!("{number:.precision$e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Returns a value as `%s` writes it.
fn text(arg: &Val<'_>) -> Result<String, EvalError> {
    Ok(match arg {
        Val::List(list) => {
            let items: Result<Vec<_>, _> = list.iter().map(|item| text(&item)).collect();
            format!("[{}]", items?.join(", "))
        }
        Val::Map(map) => {
            let entries = map.entries();
            let entries: Result<Vec<_>, _> =
                entries.iter().map(|(key, value)| Ok(format!("{}: {}", text(key)?, text(value)?))).collect();
            format!("{{{}}}", entries?.join(", "))
        }
        Val::Null => "null".to_owned(),
        Val::Type(name) => (*name).to_owned(),
        other => match convert::text(other) {
            Some(text) => text,
            None => {
                let why = format!(
                    "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {}",
                    other.type_name()
                );
                return EvalError::failed(why);
            }
        },
    })
}
