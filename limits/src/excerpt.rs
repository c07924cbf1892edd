//! Limits how much of an input is repeated in the error message about it.

/// The longest word, characters: names and paths fit.
const WORD: usize = 120;
/// The longest text, characters.
const TEXT: usize = 1000;

/// Shortens an error message in which a parser has repeated its input. Long words and the whole text are cut, and `…` marks what is left
/// out.
pub fn excerpt(text: &str) -> String {
    let mut short = String::new();
    let mut word = 0;
    for (place, letter) in text.chars().enumerate() {
        word = if letter.is_whitespace() { 0 } else { word + 1 };
        if place == TEXT {
            short.push('…');
            break;
        }
        match word {
            ..=WORD => short.push(letter),
            _ if word == WORD + 1 => short.push('…'),
            _ => {}
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut() {
        let usual = "unknown field `x`, expected one of a, b at line 1, column 2";
        assert_eq!(excerpt(usual), usual);
        let word = "ü".repeat(500);
        assert_eq!(
            excerpt(&format!("no `{word} here")),
            format!("no `{}… here", "ü".repeat(WORD - 1))
        );
        let words = "word ".repeat(500);
        assert_eq!(excerpt(&words), format!("{}…", &words[..TEXT]));
    }
}
