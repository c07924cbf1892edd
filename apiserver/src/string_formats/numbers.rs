//! Numbers with a check digit: those of credit cards and books.

use super::patterns::CREDIT_CARD;

/// Reports whether the digits of `text` are the number of a credit card; all else in it is ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let weighed = digits.bytes().rev().enumerate().map(|(place, digit)| {
        let digit = u32::from(digit - b'0');
        match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, double) => double / 10 + double % 10,
        }
    });
    CREDIT_CARD.is_match(&digits) && weighed.sum::<u32>() % 10 == 0
}

/// Reports whether `text` is an ISBN of ten digits, of which the last may be `X`.
pub(super) fn is_isbn10(text: &str) -> bool {
    let bytes = without_separators(text);
    let Some((last, digits)) = bytes.split_last().filter(|_| bytes.len() == 10) else {
        return false;
    };
    if !digits.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let value = |byte: u8| {
        if byte == b'X' {
            10
        } else {
            u32::from(byte - b'0')
        }
    };
    (1..)
        .zip(&bytes)
        .map(|(weight, byte)| weight * value(*byte))
        .sum::<u32>()
        % 11
        == 0
}

/// Reports whether `text` is an ISBN of thirteen digits.
pub(super) fn is_isbn13(text: &str) -> bool {
    let bytes = without_separators(text);
    let weights = [1, 3].into_iter().cycle();
    bytes.len() == 13
        && bytes.iter().all(u8::is_ascii_digit)
        && weights
            .zip(&bytes)
            .map(|(weight, byte)| weight * u32::from(byte - b'0'))
            .sum::<u32>()
            % 10
            == 0
}

fn without_separators(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|byte| !b"-\t\n\x0c\r ".contains(byte))
        .collect()
}
