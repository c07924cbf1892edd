//! Modbus devices for a mapper: everything that the library needs from a protocol.

use mapper::{Device, Kind, Link, Property, Protocol, Result};

use super::modbus::{Connection, Table};

/// The protocol: Modbus over TCP.
pub(crate) struct Modbus;

/// A connection to a slave, and the slave's unit id.
pub(crate) struct Unit {
    connection: Connection,
    unit: u8,
}

impl Protocol for Modbus {
    type Link = Unit;

    async fn open(&self, device: &Device) -> Result<Unit> {
        let (ip, port): (String, u16) = (
            device.settings.get("ip")?,
            device.settings.get_or("port", 502)?,
        );
        let unit = device.settings.get_or("slaveID", 1)?;
        Ok(Unit {
            connection: Connection::open((ip.as_str(), port)).await?,
            unit,
        })
    }
}

impl Link for Unit {
    async fn read(&mut self, property: &Property) -> Result<String> {
        let place = Place::of(property)?;
        let raw = self
            .connection
            .read(self.unit, place.table, place.offset)
            .await?;
        Ok(match property.kind {
            Kind::Boolean => (raw != 0).to_string(),
            Kind::Int => (f64::from(raw) * place.scale).round().to_string(),
            // 0.1 has no exact binary form, but 215 × 0.1 must be 21.5
            _ => ((f64::from(raw) * place.scale * 1e6).round() / 1e6).to_string(),
        })
    }

    async fn write(&mut self, property: &Property, value: &str) -> Result<()> {
        let place = Place::of(property)?;
        let number: f64 = match value {
            "true" => 1.0,
            "false" => 0.0,
            number => number.parse()?,
        };
        let raw = (number / place.scale).round();
        if !(0.0..=f64::from(u16::MAX)).contains(&raw) {
            return Err(format!("{value} does not go into a register").into());
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was just looked at"
        )]
        self.connection
            .write(self.unit, place.table, place.offset, raw as u16)
            .await?;
        Ok(())
    }
}

struct Place {
    table: Table,
    offset: u16,
    scale: f64,
}

impl Place {
    fn of(property: &Property) -> Result<Self> {
        let settings = &property.settings;
        let table: String = settings.get("register")?;
        let known = || format!("{}: there is no register {table}", property.name);
        Ok(Self {
            table: Table::named(&table).ok_or_else(known)?,
            offset: settings.get("offset")?,
            scale: settings.get_or("scale", 1.0)?,
        })
    }
}
