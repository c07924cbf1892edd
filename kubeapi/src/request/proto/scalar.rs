//! Scalar values: their JSON, and that of their zero values.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Number, Value};

use super::{
    error::Fault,
    wire::{Fields, Raw, varint},
};

/// Go's zero time, the start of the year 1, stands for none.
const NO_TIME: i64 = -62_135_596_800;

/// The end of the year 9999.
const LAST_TIME: i64 = 253_402_300_799;

/// Doubles up to here hold every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The type of such a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// JSON within protobuf: `RawExtension`, `FieldsV1` and the `JSON` of schemas.
    Raw,
}

impl Scalar {
    /// Returns the type with this name in the tables.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "Quantity" => Self::Quantity,
            "Time" => Self::Time,
            "MicroTime" => Self::MicroTime,
            "IntOrString" => Self::IntOrString,
            "Raw" => Self::Raw,
            _ => return None,
        })
    }

    /// Returns the JSON of an absent value.
    pub(super) fn zero(self) -> Value {
        match self {
            Self::String | Self::Bytes => "".into(),
            Self::Bool => false.into(),
            Self::Int32 | Self::Int64 | Self::Double | Self::IntOrString => 0.into(),
            Self::Quantity => "0".into(),
            Self::Time | Self::MicroTime | Self::Raw => Value::Null,
        }
    }

    /// Reports whether `omitempty` omits `value`. Go never omits structures.
    pub(super) fn omits(self, value: &Value) -> bool {
        match self {
            Self::String | Self::Bytes | Self::Bool | Self::Int32 | Self::Int64 | Self::Double => {
                *value == self.zero()
            }
            Self::Quantity | Self::Time | Self::MicroTime | Self::IntOrString | Self::Raw => false,
        }
    }

    /// Returns the JSON of a value.
    pub(super) fn read(self, raw: Raw<'_>) -> Result<Value, Fault> {
        Ok(match self {
            Self::String => raw.text()?.into(),
            Self::Bool => (raw.varint()? != 0).into(),
            Self::Int32 => int32(raw)?.into(),
            Self::Int64 => int64(raw)?.into(),
            Self::Double => double(raw.double()?)?,
            Self::Bytes => STANDARD.encode(raw.bytes()?).into(),
            Self::Quantity => member(raw, 1)?.map_or(Ok("0"), Raw::text)?.into(),
            Self::Time => seconds(raw)?.map_or(Value::Null, |(time, _)| time.to_string().into()),
            Self::MicroTime => micros(raw)?,
            Self::IntOrString => int_or_string(raw)?,
            Self::Raw => json(raw)?,
        })
    }

    /// Returns the values of a packed list; `None` where `raw` is a single value.
    pub(super) fn packed_values(self, raw: Raw<'_>) -> Option<Packed<'_>> {
        match (self, raw) {
            (Self::Bool | Self::Int32 | Self::Int64, Raw::Bytes(rest)) => Some(Packed { rest }),
            _ => None,
        }
    }
}

/// An iterator over packed integers, which have no tags.
pub(super) struct Packed<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Packed<'a> {
    type Item = Result<Raw<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let value = varint(&mut self.rest).map(Raw::Varint);
        if value.is_err() {
            self.rest = &[];
        }
        Some(value)
    }
}

/// Returns the last field of this number.
fn member<'a>(raw: Raw<'a>, number: u32) -> Result<Option<Raw<'a>>, Fault> {
    let mut found = None;
    for field in Fields::of(raw.bytes()?) {
        let (at, value) = field?;
        if at == number {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The low 32 bits, as every protobuf reader takes them.
fn int32(raw: Raw<'_>) -> Result<i32, Fault> {
    raw.varint().map(|value| value as i32)
}

/// Negative numbers come as their two's complement.
fn int64(raw: Raw<'_>) -> Result<i64, Fault> {
    raw.varint().map(|value| value as i64)
}

/// Go writes integral doubles without a fraction.
fn double(value: f64) -> Result<Value, Fault> {
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok((value as i64).into());
    }
    Number::from_f64(value)
        .map(Value::Number)
        .ok_or(Fault::Number)
}

/// The time in seconds, and the nanoseconds beyond; `None` for no time.
fn seconds(raw: Raw<'_>) -> Result<Option<(Timestamp, i32)>, Fault> {
    if raw.bytes()?.is_empty() {
        return Ok(None);
    }
    let seconds = member(raw, 1)?.map_or(Ok(0), int64)?;
    let nanos = member(raw, 2)?.map_or(Ok(0), int32)?;
    if seconds == NO_TIME && nanos == 0 {
        return Ok(None);
    }
    if !(NO_TIME..=LAST_TIME).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(Fault::Time);
    }
    let time = Timestamp::from_second(seconds).map_err(|_| Fault::Time)?;
    Ok(Some((time, nanos)))
}

/// A time with six digits of a second's fraction.
fn micros(raw: Raw<'_>) -> Result<Value, Fault> {
    let Some((time, nanos)) = seconds(raw)? else {
        return Ok(Value::Null);
    };
    let time = Timestamp::new(time.as_second(), nanos / 1000 * 1000).map_err(|_| Fault::Time)?;
    Ok(format!("{time:.6}").into())
}

fn int_or_string(raw: Raw<'_>) -> Result<Value, Fault> {
    let is_string = member(raw, 1)?.map_or(Ok(0), int64)? != 0;
    if is_string {
        return Ok(member(raw, 3)?.map_or(Ok(""), Raw::text)?.into());
    }
    Ok(member(raw, 2)?.map_or(Ok(0), int32)?.into())
}

fn json(raw: Raw<'_>) -> Result<Value, Fault> {
    match member(raw, 1)?.map_or(Ok(&[][..]), Raw::bytes)? {
        [] => Ok(Value::Null),
        text => serde_json::from_slice(text).map_err(|error| Fault::Json(error.to_string())),
    }
}
