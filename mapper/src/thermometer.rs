//! A simulated thermometer: its `temperature` moves towards its `target`, which can be set. It is an example of a protocol.

use crate::{Device, Link, Property, Protocol, Result};

/// The protocol of the simulated thermometer, which needs no connection.
#[derive(Clone, Copy, Debug)]
pub struct Virtual;

/// The thermometer.
#[derive(Clone, Copy, Debug)]
pub struct Thermometer {
    temperature: f64,
    target: f64,
}

impl Protocol for Virtual {
    type Link = Thermometer;

    async fn open(&self, device: &Device) -> Result<Thermometer> {
        let temperature = device.settings.get_or("start", 20.0)?;
        Ok(Thermometer {
            temperature,
            target: temperature,
        })
    }
}

impl Link for Thermometer {
    async fn read(&mut self, property: &Property) -> Result<String> {
        match property.name.as_str() {
            "temperature" => {
                self.temperature += (self.target - self.temperature) / 2.0;
                Ok(format!("{:.1}", self.temperature))
            }
            "target" => Ok(self.target.to_string()),
            other => Err(format!("a thermometer has no {other}").into()),
        }
    }

    async fn write(&mut self, property: &Property, value: &str) -> Result<()> {
        match property.name.as_str() {
            "target" => self.target = value.parse()?,
            other => return Err(format!("{other} cannot be set").into()),
        }
        Ok(())
    }
}
