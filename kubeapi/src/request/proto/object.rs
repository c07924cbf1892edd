//! Decodes messages by their field tables into the JSON that Go would write.

use serde_json::{Map, Value};

use super::{
    error::{Error, Fault},
    limits::{DEPTH, VALUES},
    scalar::Scalar,
    schema::{Field, Message, MessageId, Schema, Shape, Type},
    wire::{Fields, Raw},
};

/// Decodes one body.
pub(super) struct Decoder {
    schema: &'static Schema,
    depth: usize,
    values: usize,
}

/// The encoded values of a field. Which member is used depends on the field's shape and type.
#[derive(Clone, Default)]
struct FieldValues<'a> {
    seen: bool,
    /// The parts of a message, which count as if they were joined.
    parts: Vec<&'a [u8]>,
    values: Vec<Value>,
    entries: Map<String, Value>,
}

impl Decoder {
    pub(super) fn new(schema: &'static Schema) -> Self {
        Self {
            schema,
            depth: 0,
            values: 0,
        }
    }

    /// Adds the fields of a message to `object`.
    pub(super) fn fill(
        &mut self,
        id: MessageId,
        parts: &[&[u8]],
        object: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let message = self.schema.message(id);
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(damage_error(message, Fault::TooDeep));
        }
        for (field, slot) in message.fields.iter().zip(self.slots(message, parts)?) {
            if let (Shape::Inline, Type::Message(inner)) = (field.shape, field.of) {
                self.fill(inner, &slot.parts, object)?;
            } else if let Some(value) = self.json(field, slot)? {
                self.count(message)?;
                object.insert(field.name.into(), value);
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the JSON of a message.
    fn value(&mut self, id: MessageId, parts: &[&[u8]]) -> Result<Value, Error> {
        if self.schema.message(id).union {
            return self.variant(id, parts);
        }
        let mut object = Map::new();
        self.fill(id, parts, &mut object)?;
        Ok(Value::Object(object))
    }

    /// Returns the JSON of a union's last field that is present, or else of its first.
    fn variant(&mut self, id: MessageId, parts: &[&[u8]]) -> Result<Value, Error> {
        let message = self.schema.message(id);
        let mut slots: Vec<_> = message
            .fields
            .iter()
            .zip(self.slots(message, parts)?)
            .collect();
        let last = slots
            .iter()
            .rposition(|(_, slot)| slot.seen)
            .unwrap_or_default();
        if last >= slots.len() {
            return Ok(Value::Null);
        }
        let (field, slot) = slots.swap_remove(last);
        self.depth += 1;
        let value = self.json(field, slot)?;
        self.depth -= 1;
        Ok(value.unwrap_or_default())
    }

    /// Collects the values of each field of a message. Unknown fields, which newer clients send, are skipped.
    fn slots<'a>(
        &mut self,
        message: &'static Message,
        parts: &[&'a [u8]],
    ) -> Result<Vec<FieldValues<'a>>, Error> {
        let mut slots = vec![FieldValues::default(); message.fields.len()];
        for item in parts.iter().flat_map(|part| Fields::of(part)) {
            let (number, raw) = item.map_err(|fault| damage_error(message, fault))?;
            let known = message
                .fields
                .iter()
                .zip(&mut slots)
                .find(|(field, _)| field.number == number);
            if let Some((field, slot)) = known {
                slot.seen = true;
                self.take(FieldRef { message, field }, raw, slot)?;
            }
        }
        Ok(slots)
    }

    fn take<'a>(
        &mut self,
        at: FieldRef,
        raw: Raw<'a>,
        slot: &mut FieldValues<'a>,
    ) -> Result<(), Error> {
        match (at.field.shape, at.field.of) {
            (Shape::Map, of) => {
                let (key, value) = self.entry(at, of, raw)?;
                self.count(at.message)?;
                slot.entries.insert(key.into(), value);
            }
            (Shape::List, Type::Message(id)) => {
                let value = self.value(id, &[at.check(raw.bytes())?])?;
                self.count(at.message)?;
                slot.values.push(value);
            }
            (Shape::List, Type::Scalar(scalar)) => match scalar.packed_values(raw) {
                Some(packed) => {
                    for raw in packed {
                        let value = at.check(raw.and_then(|raw| scalar.read(raw)))?;
                        self.count(at.message)?;
                        slot.values.push(value);
                    }
                }
                None => {
                    self.count(at.message)?;
                    slot.values.push(at.check(scalar.read(raw))?);
                }
            },
            (Shape::Value | Shape::Optional | Shape::Inline, Type::Message(_)) => {
                slot.parts.push(at.check(raw.bytes())?);
            }
            (Shape::Value | Shape::Optional | Shape::Inline, Type::Scalar(scalar)) => {
                slot.values.clear();
                slot.values.push(at.check(scalar.read(raw))?);
            }
        }
        Ok(())
    }

    /// Decodes the entry of a map: a message of a key and a value, each optional.
    fn entry<'a>(
        &mut self,
        at: FieldRef,
        of: Type,
        raw: Raw<'a>,
    ) -> Result<(&'a str, Value), Error> {
        let (mut key, mut value) = ("", None);
        for item in Fields::of(at.check(raw.bytes())?) {
            match at.check(item)? {
                (1, raw) => key = at.check(raw.text())?,
                (2, raw) => value = Some(raw),
                _ => {}
            }
        }
        let value = match of {
            Type::Message(id) => {
                let part = at.check(value.map_or(Ok(&[][..]), Raw::bytes))?;
                self.value(id, &[part])?
            }
            Type::Scalar(scalar) => {
                at.check(value.map_or_else(|| Ok(scalar.zero()), |raw| scalar.read(raw)))?
            }
        };
        Ok((key, value))
    }

    /// Returns the JSON of a field; `None` where JSON omits it.
    fn json(&mut self, field: &Field, mut slot: FieldValues<'_>) -> Result<Option<Value>, Error> {
        let always = field.always;
        Ok(match (field.shape, field.of) {
            // Go's nil
            (Shape::Optional | Shape::List | Shape::Map, _) | (_, Type::Scalar(Scalar::Bytes))
                if !slot.seen =>
            {
                always.then_some(Value::Null)
            }
            (Shape::List, _) => {
                (always || !slot.values.is_empty()).then_some(Value::Array(slot.values))
            }
            (Shape::Map, _) => Some(Value::Object(slot.entries)),
            (Shape::Value | Shape::Optional | Shape::Inline, Type::Message(id)) => {
                Some(self.value(id, &slot.parts)?)
            }
            (shape, Type::Scalar(scalar)) => {
                let value = slot.values.pop().unwrap_or_else(|| scalar.zero());
                (always || shape == Shape::Optional || !scalar.omits(&value)).then_some(value)
            }
        })
    }

    fn count(&mut self, message: &Message) -> Result<(), Error> {
        self.values += 1;
        if self.values > VALUES {
            Err(damage_error(message, Fault::TooMany))
        } else {
            Ok(())
        }
    }
}

/// The message and field of a value.
#[derive(Clone, Copy)]
struct FieldRef {
    message: &'static Message,
    field: &'static Field,
}

impl FieldRef {
    fn check<T>(self, result: Result<T, Fault>) -> Result<T, Error> {
        result.map_err(|fault| Error::Damaged {
            at: format!("{}.{}", self.message.name, self.field.name),
            fault,
        })
    }
}

fn damage_error(message: &Message, fault: Fault) -> Error {
    Error::Damaged {
        at: message.name.into(),
        fault,
    }
}
