//! Mutates inputs: bits, bytes, pieces, numbers, and words that decoders look for.

use testkit::Random;

/// Words that decoders look for or rarely get.
const WORDS: [&[u8]; 40] = [
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"{\"",
    b"\":",
    b",",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"9223372036854775807",
    b"0.1",
    b"\\u0000",
    b"\\ud800",
    b"\xff\xfe",
    b"\0",
    b"/",
    b"//",
    b"..",
    b"#",
    b"+",
    b"$share/",
    b"%00",
    b"metadata",
    b"spec",
    b"status",
    b"$patch",
    b"$retainKeys",
    b"$setElementOrder/containers",
    b"x in (a,b)",
    b"!x",
    b"a=b,",
    b"- ",
    b"&a *a",
    b"!!binary",
    b"0x7f",
    b"1Ki",
    b"-----BEGIN",
    b"eyJ",
];

/// The limits of integer types.
const NUMBERS: [u64; 10] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// The deepest nesting that is tried.
const DEEP: u64 = 4000;

/// A mutator with a seed.
#[derive(Clone, Debug)]
pub struct Mutator(Random);

impl Mutator {
    /// Creates a mutator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.below(end as u64)).unwrap_or_default()
    }

    /// Returns an input of the corpus, mutated in one to eight places.
    pub fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let start = self.below(corpus.len());
        let mut bytes = corpus.get(start).cloned().unwrap_or_default();
        self.change(&mut bytes, corpus);
        bytes
    }

    /// Mutates an input in one to eight places, also with pieces of the corpus.
    pub fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        for _ in 0..=self.below(8) {
            self.damage(bytes, corpus);
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + self.below(16)).min(bytes.len());
        match self.below(12) {
            0 | 1 => {
                let bit = 1 << self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
            2 => {
                let other = u8::try_from(self.below(256)).unwrap_or_default();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = other;
                }
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                let times = 1 + self.below(40);
                bytes.splice(at..at, piece.repeat(times));
            }
            5 => bytes.truncate(at),
            6 | 7 => {
                let word = WORDS[self.below(WORDS.len())];
                let end = if self.below(2) == 0 { end } else { at };
                bytes.splice(at..end, word.iter().copied());
            }
            8 => {
                let number = NUMBERS[self.below(NUMBERS.len())];
                let width = [1, 2, 4, 8][self.below(4)];
                let number = if self.below(2) == 0 {
                    number.to_be_bytes()[8 - width..].to_vec()
                } else {
                    number.to_le_bytes()[..width].to_vec()
                };
                let end = (at + width).min(bytes.len());
                bytes.splice(at..end, number);
            }
            9 => {
                // This inserts a piece of another input.
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                let to = (from + self.below(200)).min(other.len());
                let piece = other[from..to].to_vec();
                bytes.splice(at..end, piece);
            }
            10 if self.below(8) == 0 => {
                let times = usize::try_from(self.0.below(DEEP)).unwrap_or_default();
                let piece: &[u8] = [&b"["[..], b"{\"a\":", b"(", b"- ", b"a: {"][self.below(5)];
                bytes.splice(at..at, piece.repeat(times));
            }
            _ => {
                // Digits become other digits: the form stays, the meaning changes.
                let digit = b'0' + u8::try_from(self.below(10)).unwrap_or_default();
                if let Some(byte) = bytes.iter_mut().skip(at).find(|byte| byte.is_ascii_digit()) {
                    *byte = digit;
                }
            }
        }
    }
}
