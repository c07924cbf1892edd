//! A terminal: echoes what is typed, splits it into lines, and handles Ctrl-C, Ctrl-D and the keys that erase.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

/// The exit code of a command that Ctrl-C has ended: 128 plus SIGINT.
pub(super) const INTERRUPTED: i32 = 130;
/// How many typed lines may wait to be read.
const MAX_LINES: usize = 256;
/// The most bytes of one typed line.
const MAX_LINE: usize = 4095;
/// How many pieces of output may wait.
const OUTPUT: usize = 4;

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BELL: &[u8] = b"\x07";
const ERASE_LINE: u8 = 0x15;
const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;
const ESCAPE: u8 = 0x1b;
const QUIT: u8 = 0x1c;

/// Connects a user who types with a program.
pub(super) struct Terminal {
    typed: Option<mpsc::Receiver<Bytes>>,
    screen: mpsc::Sender<Bytes>,
    printed: mpsc::Receiver<Bytes>,
    lines: mpsc::Sender<Bytes>,
    interrupts: Arc<Notify>,
}

/// The program's side of the terminal.
pub(super) struct Attached {
    /// The typed lines; an empty one is an end of the input.
    pub(super) input: mpsc::Receiver<Bytes>,
    pub(super) output: mpsc::Sender<Bytes>,
    pub(super) interrupts: Arc<Notify>,
}

/// Returns a terminal that reads what is typed from `typed` and shows its output on `screen`, and the program's side of it.
pub(super) fn new(
    typed: Option<mpsc::Receiver<Bytes>>,
    screen: mpsc::Sender<Bytes>,
) -> (Terminal, Attached) {
    let (lines, input) = mpsc::channel(MAX_LINES);
    let (output, printed) = mpsc::channel(OUTPUT);
    let interrupts = Arc::new(Notify::new());
    let attached = Attached {
        input,
        output,
        interrupts: Arc::clone(&interrupts),
    };
    (
        Terminal {
            typed,
            screen,
            printed,
            lines,
            interrupts,
        },
        attached,
    )
}

impl Terminal {
    /// Serves a program until it has ended and its output has been shown.
    pub(super) async fn run<T>(self, program: impl Future<Output = T>) -> T {
        let Self {
            typed,
            screen,
            mut printed,
            lines,
            interrupts,
        } = self;
        let show = async {
            while let Some(bytes) = printed.recv().await {
                // If the user has left, the output is lost.
                let _ = screen.send(add_carriage_returns(&bytes)).await;
            }
        };
        let keyboard = async {
            let mut line = Line::default();
            if let Some(mut typed) = typed {
                while let Some(bytes) = typed.recv().await {
                    let mut echo = Vec::new();
                    for byte in bytes {
                        line.key(byte, &mut echo, &lines, &interrupts);
                    }
                    let _ = screen.send(echo.into()).await;
                }
            }
            // The program goes on: a user who leaves a terminal does not end its input.
            drop(line);
            std::future::pending::<T>().await
        };
        let finish = async { tokio::join!(program, show).0 };
        clock::select! {
            outcome = keyboard => outcome,
            outcome = finish => outcome,
        }
    }
}

/// The line that is being typed.
#[derive(Default)]
struct Line {
    typed: Vec<u8>,
    /// The position in the escape sequence of a key that is ignored, such as an arrow key.
    escape: Escape,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    No,
    Begun,
    Inside,
}

impl Line {
    fn key(
        &mut self,
        key: u8,
        echo: &mut Vec<u8>,
        lines: &mpsc::Sender<Bytes>,
        interrupts: &Notify,
    ) {
        match self.escape {
            Escape::Begun => {
                self.escape = if matches!(key, b'[' | b'O') {
                    Escape::Inside
                } else {
                    Escape::No
                };
                return;
            }
            Escape::Inside => {
                if (0x40..=0x7e).contains(&key) {
                    self.escape = Escape::No;
                }
                return;
            }
            Escape::No => {}
        }
        match key {
            b'\r' | b'\n' => {
                self.typed.push(b'\n');
                self.send(echo, lines);
                echo.extend_from_slice(b"\r\n");
            }
            INTERRUPT | QUIT => {
                self.typed.clear();
                echo.extend_from_slice(if key == INTERRUPT {
                    b"^C\r\n"
                } else {
                    b"^\\\r\n"
                });
                interrupts.notify_one();
            }
            END => self.send(echo, lines),
            DELETE | BACKSPACE => self.erase(echo),
            ERASE_LINE => {
                while !self.typed.is_empty() {
                    self.erase(echo);
                }
            }
            ESCAPE => self.escape = Escape::Begun,
            _ if self.typed.len() >= MAX_LINE => echo.extend_from_slice(BELL),
            0..0x20 if key != b'\t' => {}
            _ => {
                self.typed.push(key);
                echo.push(key);
            }
        }
    }

    /// Sends the line to the program. A line for which there is no room is lost, as at other terminals.
    fn send(&mut self, echo: &mut Vec<u8>, lines: &mpsc::Sender<Bytes>) {
        if lines
            .try_send(std::mem::take(&mut self.typed).into())
            .is_err()
        {
            echo.extend_from_slice(BELL);
        }
    }

    /// Erases the last character, which may have several bytes.
    fn erase(&mut self, echo: &mut Vec<u8>) {
        while let Some(byte) = self.typed.pop() {
            if byte & 0xc0 != 0x80 {
                echo.extend_from_slice(b"\x08 \x08");
                return;
            }
        }
    }
}

/// Puts a carriage return before each newline.
fn add_carriage_returns(bytes: &[u8]) -> Bytes {
    let mut shown = Vec::with_capacity(bytes.len() + 8);
    for byte in bytes {
        if *byte == b'\n' {
            shown.push(b'\r');
        }
        shown.push(*byte);
    }
    shown.into()
}
