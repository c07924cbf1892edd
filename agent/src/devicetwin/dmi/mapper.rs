//! What a mapper says of itself: its name, protocol and address. Pure.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::{dmi::MapperInfo, text::printable_short};

/// The longest path of a unix socket (`sockaddr_un`), without the final zero, bytes.
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// The longest name of a mapper or protocol, bytes.
const MAX_NAME_BYTES: usize = 253;

/// A mapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mapper {
    pub(super) name: String,
    pub(super) version: String,
    /// The protocol of its devices. There is one mapper for each protocol: the one that registered last.
    pub(super) protocol: String,
    /// The unix socket on which it serves.
    pub(super) socket: PathBuf,
}

impl Mapper {
    /// Validates the registration of a mapper; the error says what is wrong with it.
    pub(super) fn from_info(info: MapperInfo) -> Result<Self, String> {
        let MapperInfo {
            name,
            version,
            protocol,
            address,
            ..
        } = info;
        for (what, value, least) in [
            ("name", &name, 1),
            ("protocol", &protocol, 1),
            ("version", &version, 0),
        ] {
            let is_length = (least..=MAX_NAME_BYTES).contains(&value.len());
            if !is_length || value.contains(char::is_control) {
                let shown = printable_short(value);
                return Err(format!(
                    "mapper.{what} is {shown:?}; use {least} to {MAX_NAME_BYTES} characters without control characters"
                ));
            }
        }
        let socket = socket(&address).ok_or_else(|| {
            let address = printable_short(String::from_utf8_lossy(&address));
            format!(
                "mapper.address is {address:?}; give the absolute path, at most {MAX_SOCKET_PATH_BYTES} bytes, of the unix socket on \
                 which mapper {name} serves"
            )
        })?;
        Ok(Self {
            name,
            version,
            protocol,
            socket,
        })
    }
}

fn socket(address: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(address).ok()?;
    let path = Path::new(text.strip_prefix("unix://").unwrap_or(text));
    let is_sound =
        path.is_absolute() && text.len() <= MAX_SOCKET_PATH_BYTES && !text.contains('\0');
    is_sound.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_has_name_protocol_and_address() {
        let info = |name: &str, protocol: &str, address: &str| MapperInfo {
            name: name.into(),
            protocol: protocol.into(),
            address: address.to_owned().into(),
            ..MapperInfo::default()
        };
        let mapper = Mapper::from_info(info("m", "modbus", "/run/m.sock")).unwrap();
        assert_eq!(
            (mapper.protocol.as_str(), mapper.socket.as_path()),
            ("modbus", Path::new("/run/m.sock"))
        );
        assert_eq!(
            Mapper::from_info(info("m", "p", "unix:///run/m"))
                .unwrap()
                .socket,
            Path::new("/run/m")
        );
        let long = format!("/{}", "x".repeat(MAX_SOCKET_PATH_BYTES));
        let version = |version: String| MapperInfo {
            version,
            ..info("m", "p", "/s")
        };
        for (wrong, what) in [
            (info("", "p", "/s"), "mapper.name"),
            (info("m", "", "/s"), "mapper.protocol"),
            (info("m", "p\n", "/s"), "mapper.protocol"),
            (info("m", "p", ""), "mapper.address"),
            (info("m", "p", "m.sock"), "mapper.address"),
            (info("m", "p", "localhost:80"), "mapper.address"),
            (info("m", "p", &long), "mapper.address"),
            (version("1".repeat(MAX_NAME_BYTES + 1)), "mapper.version"),
            (version("1\u{1b}[31m".into()), "mapper.version"),
        ] {
            assert!(
                Mapper::from_info(wrong).unwrap_err().starts_with(what),
                "{what}"
            );
        }
    }
}
