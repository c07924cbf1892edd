//! The part of Modbus over TCP that single registers and coils need.
//!
//! Source: MODBUS Application Protocol Specification V1.1b3 and MODBUS Messaging on TCP/IP V1.0b.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, ToSocketAddrs},
};

/// The longest message after the header, bytes: an ADU of 260 bytes without its 7-byte header.
const LONGEST: usize = 253;
/// The bit in the function code of an answer that marks an exception.
pub(crate) const REFUSED: u8 = 0x80;

/// The kind of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// A writable bit.
    Coil,
    /// A read-only bit.
    DiscreteInput,
    /// A writable word.
    Holding,
    /// A read-only word.
    Input,
}

impl Table {
    /// Returns the kind with this name in KubeEdge's examples.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "CoilRegister" => Self::Coil,
            "DiscreteInputRegister" => Self::DiscreteInput,
            "HoldingRegister" => Self::Holding,
            "InputRegister" => Self::Input,
            _ => return None,
        })
    }

    fn read(self) -> u8 {
        match self {
            Self::Coil => 1,
            Self::DiscreteInput => 2,
            Self::Holding => 3,
            Self::Input => 4,
        }
    }
}

/// A message: transaction number, unit id and PDU.
pub(crate) struct Frame {
    pub(crate) transaction: u16,
    pub(crate) unit: u8,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Reads a message; fails if it is not Modbus.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let transaction = stream.read_u16().await?;
        let (protocol, length) = (
            stream.read_u16().await?,
            usize::from(stream.read_u16().await?),
        );
        if protocol != 0 || !(2..=LONGEST + 1).contains(&length) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "this is no Modbus",
            ));
        }
        let unit = stream.read_u8().await?;
        let mut body = vec![0; length - 1];
        stream.read_exact(&mut body).await?;
        Ok(Self {
            transaction,
            unit,
            body,
        })
    }

    /// Writes the message.
    pub(crate) async fn write(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let length = u16::try_from(self.body.len() + 1).map_err(io::Error::other)?;
        let mut bytes = self.transaction.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.push(self.unit);
        bytes.extend(&self.body);
        stream.write_all(&bytes).await
    }
}

/// A connection to a slave.
pub(crate) struct Connection {
    stream: TcpStream,
    transaction: u16,
}

impl Connection {
    /// Connects to a slave.
    pub(crate) async fn open(address: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            transaction: 0,
        })
    }

    /// Reads one register or one bit.
    pub(crate) async fn read(&mut self, unit: u8, table: Table, offset: u16) -> io::Result<u16> {
        let [high, low] = offset.to_be_bytes();
        let answer = self.ask(unit, vec![table.read(), high, low, 0, 1]).await?;
        match (table, &answer[..]) {
            (Table::Coil | Table::DiscreteInput, [_, 1, bits]) => Ok(u16::from(bits & 1)),
            (Table::Holding | Table::Input, [_, 2, high, low]) => {
                Ok(u16::from_be_bytes([*high, *low]))
            }
            _ => Err(io::Error::other("the slave has answered something else")),
        }
    }

    /// Writes one register, or one bit.
    pub(crate) async fn write(
        &mut self,
        unit: u8,
        table: Table,
        offset: u16,
        value: u16,
    ) -> io::Result<()> {
        let (function, value) = match table {
            Table::Coil => (5, if value == 0 { 0 } else { 0xff00 }),
            Table::Holding => (6, value),
            Table::DiscreteInput | Table::Input => {
                return Err(io::Error::other("inputs cannot be written"));
            }
        };
        let ([high, low], [first, second]) = (offset.to_be_bytes(), u16::to_be_bytes(value));
        self.ask(unit, vec![function, high, low, first, second])
            .await
            .map(drop)
    }

    async fn ask(&mut self, unit: u8, body: Vec<u8>) -> io::Result<Vec<u8>> {
        self.transaction = self.transaction.wrapping_add(1);
        let function = body.first().copied().unwrap_or_default();
        let question = Frame {
            transaction: self.transaction,
            unit,
            body,
        };
        question.write(&mut self.stream).await?;
        let answer = Frame::read(&mut self.stream).await?;
        if (answer.transaction, answer.unit) != (question.transaction, question.unit) {
            return Err(io::Error::other("the slave has answered another question"));
        }
        match answer.body.first() {
            Some(found) if *found == function => Ok(answer.body),
            Some(found) if *found == function | REFUSED => {
                let code = answer.body.get(1).copied().unwrap_or_default();
                Err(io::Error::other(format!(
                    "the slave refuses it with exception {code}"
                )))
            }
            _ => Err(io::Error::other("the slave has answered something else")),
        }
    }
}
