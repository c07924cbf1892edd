//! `format`: texts with clauses such as `%s`, `%d` and `%f`, as cel-go writes them for `en_US`.

use super::{context::Context, convert, quote::go_quoted};
use crate::cel::{
    decl::Decl,
    error::{EvalError, Evaluated},
    value::{List, MapKey, Val},
};

/// The most digits after the point, or the greatest width.
const MAX_PRECISION: usize = 1000;

/// The digits after the point where none are asked for.
const PRECISION: usize = 6;

/// Returns `template` with its clauses replaced by the arguments.
pub(super) fn format<'a>(
    template: &str,
    args: &List<'a>,
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    let mut spent = Ok(());
    let written = walk(template, args.len(), |index, clause, precision| {
        let Some(arg) = args.get(index) else {
            return Err(format!("index {index} out of range"));
        };
        let written = context.budget.spend_on(&arg).and_then(|()| {
            let written = clause_of(clause, precision, &arg).map_err(EvalError::Failed)?;
            context.budget.spend_bytes(written.len())?;
            Ok(written)
        });
        written.map_err(|error| {
            let why = error.to_string();
            if error.is_final() {
                spent = Err(error);
            }
            why
        })
    });
    spent?;
    written.map(Val::text).map_err(EvalError::Failed)
}

/// Goes through a template with `count` arguments; `write` returns the text of a clause: the index of its argument, its letter and
/// precision.
///
/// # Errors
/// Returns cel-go's text for a template that cannot be read, or a clause that cannot be written.
pub(in crate::cel) fn walk(
    template: &str,
    count: usize,
    mut write: impl FnMut(usize, char, Option<usize>) -> Result<String, String>,
) -> Result<String, String> {
    let mut result = String::new();
    let mut chars = template.chars().peekable();
    let mut next = 0;
    while let Some(char) = chars.next() {
        if char != '%' {
            result.push(char);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            result.push('%');
            continue;
        }
        if next >= count {
            return Err(format!("index {next} out of range"));
        }
        if chars.peek().is_none() {
            return Err("unexpected end of string".to_owned());
        }
        let unread = |why: String| format!("could not parse formatting clause: {why}");
        let precision = precision(&mut chars).map_err(unread)?;
        let clause = chars.next().unwrap_or_default();
        if !"sdfebxXo".contains(clause) {
            return Err(unread(format!(
                "unrecognized formatting clause \"{clause}\""
            )));
        }
        let written = write(next, clause, precision);
        result.push_str(&written.map_err(|why| format!("error during formatting: {why}"))?);
        next += 1;
    }
    Ok(result)
}

fn precision(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> Result<Option<usize>, String> {
    if chars.next_if_eq(&'.').is_none() {
        return Ok(None);
    }
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    let failed = |why: String| Err(format!("error while parsing precision: {why}"));
    if chars.peek().is_none() {
        return failed("could not find end of precision specifier".to_owned());
    }
    match digits.parse() {
        Ok(precision) if precision > MAX_PRECISION => failed(format!(
            "precision {precision} exceeds maximum allowed precision {MAX_PRECISION}"
        )),
        Ok(precision) => Ok(Some(precision)),
        Err(_) => {
            let why = if digits.is_empty() {
                "invalid syntax"
            } else {
                "value out of range"
            };
            failed(format!(
                "error while converting precision to integer: strconv.Atoi: parsing {digits:?}: {why}"
            ))
        }
    }
}

/// Reports whether a clause takes values of a type.
pub(in crate::cel) fn takes(clause: char, decl: &Decl) -> bool {
    match clause {
        's' => !matches!(
            decl,
            Decl::Object(_)
                | Decl::Message(_)
                | Decl::Optional(_)
                | Decl::Opaque(_)
                | Decl::Param(_)
        ),
        'd' | 'o' => matches!(decl, Decl::Int | Decl::Uint),
        'f' | 'e' => matches!(decl, Decl::Double | Decl::String),
        'b' => matches!(decl, Decl::Int | Decl::Uint | Decl::Bool),
        _ => matches!(decl, Decl::Int | Decl::Uint | Decl::String | Decl::Bytes),
    }
}

/// Returns why a clause does not take values of a type.
pub(in crate::cel) fn refusal(clause: char, type_: &str) -> String {
    let rule = match clause {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    };
    format!("{rule}, was given {type_}")
}

fn clause_of(clause: char, precision: Option<usize>, arg: &Val<'_>) -> Result<String, String> {
    Ok(match (clause, arg) {
        ('s', arg) => text(arg)?,
        ('d', Val::Int(number)) => number.to_string(),
        ('d', Val::Uint(number)) => number.to_string(),
        ('f', Val::Double(number)) => format_fixed(*number, precision.unwrap_or(PRECISION)),
        ('e', Val::Double(number)) => scientific(*number, precision.unwrap_or(PRECISION)),
        ('f' | 'e', Val::String(text)) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            format_fixed(text.parse().unwrap_or(f64::NAN), PRECISION)
        }
        ('b', Val::Int(number)) => format_signed(*number, |number| format!("{number:b}")),
        ('b', Val::Uint(number)) => format!("{number:b}"),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('x', Val::Int(number)) => format_signed(*number, |number| format!("{number:x}")),
        ('X', Val::Int(number)) => format_signed(*number, |number| format!("{number:X}")),
        ('x', Val::Uint(number)) => format!("{number:x}"),
        ('X', Val::Uint(number)) => format!("{number:X}"),
        ('x' | 'X', Val::String(text)) => hex(text.as_bytes(), clause == 'X'),
        ('x' | 'X', Val::Bytes(bytes)) => hex(bytes, clause == 'X'),
        ('o', Val::Int(number)) => format_signed(*number, |number| format!("{number:o}")),
        ('o', Val::Uint(number)) => format!("{number:o}"),
        _ => return Err(refusal(clause, arg.type_name())),
    })
}

fn hex(bytes: &[u8], upper: bool) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let written = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    written
        .map(|digit| {
            if upper {
                digit.to_ascii_uppercase()
            } else {
                digit
            }
        })
        .collect()
}

fn format_signed(number: i64, write: impl FnOnce(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", write(number.unsigned_abs()))
}

/// Returns the text of a number that is none.
fn not_finite(number: f64) -> Option<&'static str> {
    match (number.is_nan(), number.is_infinite()) {
        (true, _) => Some("NaN"),
        (_, true) if number > 0.0 => Some("∞"),
        (_, true) => Some("-∞"),
        _ => None,
    }
}

/// With a comma after each three digits before the point.
fn format_fixed(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let written = format!("{:.precision$}", number.abs());
    let (whole, fraction) = written.split_at(written.find('.').unwrap_or(written.len()));
    let mut grouped = String::from(if number.is_sign_negative() { "-" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// `1.5 × 10³`, with raised digits; always six digits after the point, at least as wide as asked for.
fn scientific(number: f64, width: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let written = format!("{number:.PRECISION$e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(("", exponent), |exponent| ("⁻", exponent));
    let raised = |digit: char| {
        "⁰¹²³⁴⁵⁶⁷⁸⁹"
            .chars()
            .nth(digit.to_digit(10).unwrap_or_default() as usize)
    };
    let exponent: String = format!("{exponent:0>2}")
        .chars()
        .filter_map(raised)
        .collect();
    let written = format!("{digits}\u{202f}×\u{202f}10{sign}{exponent}");
    format!("{written:>width$}")
}

/// Returns a value as `%s` writes it.
fn text(arg: &Val<'_>) -> Result<String, String> {
    match arg {
        Val::List(_) | Val::Map(_) => element(arg),
        Val::Null => Ok("null".to_owned()),
        Val::Type(name) => Ok((*name).to_owned()),
        Val::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => {
            Err("could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string"
                .to_owned())
        }
        Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::String(_)
        | Val::Bytes(_)
        | Val::Timestamp(_)
        | Val::Duration(_) => Ok(convert::text(arg).unwrap_or_default()),
        other => Err(refusal('s', other.type_name())),
    }
}

/// Returns a list or map, or a value in one, as it could be written in an expression.
fn element(arg: &Val<'_>) -> Result<String, String> {
    Ok(match arg {
        Val::List(list) => {
            let items: Result<Vec<_>, _> = list.iter().map(|item| element(&item)).collect();
            format!("[{}]", items?.join(", "))
        }
        Val::Map(map) => {
            let entry = |(key, value): (Val<'_>, Val<'_>)| {
                if MapKey::of(&key).is_none() || matches!(key, Val::Double(_)) {
                    return Err(format!(
                        "no formatting function for map key of type {}",
                        key.type_name()
                    ));
                }
                Ok((element(&key)?, element(&value)?))
            };
            let entries: Result<Vec<_>, _> = map.entries().into_iter().map(entry).collect();
            let mut entries = entries?;
            entries.sort_by(|(one, _), (two, _)| one.cmp(two));
            let written = entries
                .into_iter()
                .map(|(key, value)| format!("{key}:{value}"));
            format!("{{{}}}", written.collect::<Vec<_>>().join(", "))
        }
        Val::String(text) => go_quoted(text),
        Val::Bytes(_) => format!("b{}", go_quoted(&text(arg)?)),
        Val::Double(number) if number.is_nan() => "\"NaN\"".to_owned(),
        Val::Double(number) if number.is_infinite() => {
            if *number > 0.0 {
                "\"+Inf\"".to_owned()
            } else {
                "\"-Inf\"".to_owned()
            }
        }
        Val::Double(number) => format!("{number:.PRECISION$}"),
        Val::Timestamp(_) => format!("timestamp({})", go_quoted(&text(arg)?)),
        Val::Duration(_) => format!("duration({})", go_quoted(&text(arg)?)),
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Type(_) => text(arg)?,
        other => return Err(format!("no formatting function for {}", other.type_name())),
    })
}
