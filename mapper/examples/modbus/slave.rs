//! A simulated slave with a hundred registers and a hundred coils. Inputs show the values of the registers and coils with the same number.

use std::{io, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

use super::modbus::{Frame, REFUSED};

const SIZE: usize = 100;
/// Exception codes of the specification.
const ILLEGAL_FUNCTION: u8 = 1;
const ILLEGAL_ADDRESS: u8 = 2;

/// The simulated slave.
pub(crate) struct Slave {
    listener: TcpListener,
    registers: Registers,
}

/// The slave's registers and coils. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registers(Arc<Mutex<([u16; SIZE], [bool; SIZE])>>);

impl Slave {
    /// Binds the listener; all registers are 0.
    pub(crate) async fn bind(address: &str) -> io::Result<Self> {
        let registers = Registers(Arc::new(Mutex::new(([0; SIZE], [false; SIZE]))));
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            registers,
        })
    }

    /// Returns the address that it listens on.
    #[allow(dead_code, reason = "for whoever binds port 0")]
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns its registers.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn registers(&self) -> Registers {
        self.registers.clone()
    }

    /// Serves connections.
    pub(crate) async fn run(self) -> io::Result<()> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // a connection that breaks ends by itself
            tokio::spawn(serve(stream, self.registers.clone()));
        }
    }
}

async fn serve(mut stream: TcpStream, registers: Registers) -> io::Result<()> {
    loop {
        let Frame {
            transaction,
            unit,
            body,
        } = Frame::read(&mut stream).await?;
        let function = body.first().copied().unwrap_or_default();
        let body = registers
            .answer(&body)
            .unwrap_or_else(|exception| vec![function | REFUSED, exception]);
        Frame {
            transaction,
            unit,
            body,
        }
        .write(&mut stream)
        .await?;
    }
}

impl Registers {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>, u8> {
        let &[function, high, low, first, second] = question else {
            return Err(ILLEGAL_FUNCTION);
        };
        let place = usize::from(u16::from_be_bytes([high, low]));
        let value = u16::from_be_bytes([first, second]);
        let mut held = self.0.lock();
        let (words, bits) = &mut *held;
        let (word, bit) = (words.get_mut(place), bits.get_mut(place));
        let (word, bit) = (word.ok_or(ILLEGAL_ADDRESS)?, bit.ok_or(ILLEGAL_ADDRESS)?);
        match function {
            1 | 2 => Ok(vec![function, 1, u8::from(*bit)]),
            3 | 4 => {
                let [high, low] = word.to_be_bytes();
                Ok(vec![function, 2, high, low])
            }
            5 => {
                *bit = value != 0;
                Ok(question.to_vec())
            }
            6 => {
                *word = value;
                Ok(question.to_vec())
            }
            _ => Err(ILLEGAL_FUNCTION),
        }
    }

    /// Returns a register.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn word(&self, place: usize) -> u16 {
        self.0.lock().0[place]
    }

    /// Sets a register.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn set_word(&self, place: usize, value: u16) {
        self.0.lock().0[place] = value;
    }

    /// Returns a coil.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn bit(&self, place: usize) -> bool {
        self.0.lock().1[place]
    }
}
