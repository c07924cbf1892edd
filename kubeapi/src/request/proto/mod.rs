//! Kubernetes protobuf in: a client's body becomes the JSON of the same object.
//!
//! kubectl's typed commands and client-go send protobuf and do not fall back to JSON when it is refused. Nothing goes out
//! as protobuf, since these clients accept JSON answers too. The envelope is read here, the framing in [`wire`], objects in
//! [`object`] by the field tables of [`schema`], which are parsed when the first body arrives.

mod error;
mod limits;
mod object;
mod scalar;
mod schema;
#[cfg(test)]
mod tests;
mod wire;
mod wire_type;

use serde_json::{Map, Value};

pub(crate) use self::error::Error;
use self::{
    error::Fault,
    object::Decoder,
    schema::Schema,
    wire::{Fields, Raw},
};

/// The media type of these bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The object of a body, as its JSON would be.
pub(crate) fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = Envelope::read(body.strip_prefix(MAGIC).ok_or(Error::Magic)?)?;
    let schema = Schema::published_schema()?;
    let kind = schema
        .kind(envelope.api_version, envelope.kind)
        .ok_or_else(|| Error::Kind {
            api_version: envelope.api_version.into(),
            kind: envelope.kind.into(),
        })?;
    let mut object = Map::new();
    object.insert("kind".into(), envelope.kind.into());
    object.insert("apiVersion".into(), envelope.api_version.into());
    Decoder::new(schema).fill(kind, &[envelope.raw], &mut object)?;
    Ok(Value::Object(object))
}

/// `runtime.Unknown`: which kind of object, and its bytes.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut envelope = Self::default();
        for field in Fields::of(bytes) {
            let (number, value) = field.map_err(damage_error)?;
            match number {
                1 => envelope.type_meta(value).map_err(damage_error)?,
                2 => envelope.raw = value.bytes().map_err(damage_error)?,
                3 | 4 => match value.text().map_err(damage_error)? {
                    // clients leave both empty
                    "" | MEDIA_TYPE => {}
                    found => {
                        return Err(Error::Content {
                            found: found.into(),
                        });
                    }
                },
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn type_meta(&mut self, value: Raw<'a>) -> Result<(), Fault> {
        for field in Fields::of(value.bytes()?) {
            match field? {
                (1, value) => self.api_version = value.text()?,
                (2, value) => self.kind = value.text()?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn damage_error(fault: Fault) -> Error {
    Error::Damaged {
        at: "the envelope".into(),
        fault,
    }
}
