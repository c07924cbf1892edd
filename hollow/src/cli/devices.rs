//! The command line of `cloudsim devices`.

use clap::Subcommand;

use super::ListArgs;

/// What to do with devices.
#[derive(Clone, Debug, Subcommand)]
pub enum DeviceCommand {
    /// List devices with desired and reported values
    #[command(alias = "ls")]
    List(ListArgs),
    /// Set a property's desired value
    Set {
        /// The device
        #[arg(value_name = "NAMESPACE/NAME")]
        device: String,
        /// The property and its value. Repeatable
        #[arg(value_name = "PROPERTY=VALUE", required = true, value_parser = property)]
        values: Vec<(String, String)>,
    },
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected PROPERTY=VALUE, for example target=25")?;
    if name.is_empty() || value.is_empty() {
        return Err("expected text on both sides of =".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}
