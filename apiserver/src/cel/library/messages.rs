//! Messages of well-known types, each as the value that CEL reads it as.

use std::collections::BTreeMap;

use super::context::Context;
use crate::cel::{
    error::{EvalError, Evaluated},
    value::Val,
};

const PACKAGE: &str = "google.protobuf.";

/// Makes a message; the parser has made a function of its type and field.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    let name = name.strip_prefix(PACKAGE)?;
    let fits = |is_in_range: bool, value: &Val<'a>| match is_in_range {
        true => Ok(value.clone()),
        false => EvalError::fail("range error"),
    };
    Some(match (name, args) {
        ("Int32Value.value", [value @ Val::Int(number)]) => {
            fits(i32::try_from(*number).is_ok(), value)
        }
        ("UInt32Value.value", [value @ Val::Uint(number)]) => {
            fits(u32::try_from(*number).is_ok(), value)
        }
        #[expect(clippy::cast_possible_truncation, reason = "the type has 32 bits")]
        ("FloatValue.value", [Val::Double(number)]) => Ok(Val::Double(f64::from(*number as f32))),
        (_, [value]) => Ok(value.clone()),
        ("BoolValue", _) => Ok(Val::Bool(false)),
        ("BytesValue", _) => Ok(Val::Bytes(Vec::new().into())),
        ("DoubleValue" | "FloatValue", _) => Ok(Val::Double(0.0)),
        ("Int32Value" | "Int64Value", _) => Ok(Val::Int(0)),
        ("UInt32Value" | "UInt64Value", _) => Ok(Val::Uint(0)),
        ("StringValue", _) => Ok(Val::text("")),
        ("ListValue", _) => Ok(Val::list(Vec::new())),
        ("Struct", _) => Ok(Val::map(BTreeMap::new())),
        _ => Ok(Val::Null),
    })
}
