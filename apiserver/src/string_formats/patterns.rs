//! The patterns of formats.

use std::sync::LazyLock;

use regex::Regex;

/// The number of a credit card, by issuer.
pub(super) static CREDIT_CARD: LazyLock<Pattern> = LazyLock::new(|| {
    compile(concat!(
        r"\A(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}",
        r"|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11})\z"
    ))
});

/// `rgb(1, 2, 3)`.
pub(super) static RGB_COLOR: LazyLock<Pattern> = LazyLock::new(|| {
    const PART: &str = "(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    const SPACE: &str = r"[\t\n\x0c\r ]*";
    let parts = format!("{SPACE}{PART}{SPACE}");
    compile(&format!(r"\Argb\({parts},{parts},{parts}\)\z"))
});

/// Letters, digits and symbols.
pub(super) static WORD: LazyLock<Pattern> =
    LazyLock::new(|| compile(r"\A[a-zA-Z0-9\p{S}\p{L}]*\z"));

/// Letters.
pub(super) static TOP: LazyLock<Pattern> = LazyLock::new(|| compile(r"\A[a-zA-Z\p{L}]*\z"));

/// Base64 with padding.
pub(super) static BASE64: LazyLock<Pattern> = LazyLock::new(|| {
    const DIGIT: &str = "[A-Za-z0-9+/]";
    compile(&format!(
        r"\A({DIGIT}{{4}})*({DIGIT}{{2}}==|{DIGIT}{{3}}=|{DIGIT}{{4}})\z"
    ))
});

/// The number of an American's social security.
pub(super) static SSN: LazyLock<Pattern> =
    LazyLock::new(|| compile(r"\A[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}\z"));

/// The time of a `date-time`, after its `t`. The seconds of a fraction may be separated by any character.
pub(super) static TIME: LazyLock<Pattern> = LazyLock::new(|| {
    compile(r"\A([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([^\n][0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})\z")
});

/// Numbers with the names of units.
pub(super) static SPANS: LazyLock<Pattern> =
    LazyLock::new(|| compile(r"([0-9]+)[\t\n\x0c\r ]*([A-Za-z\u{b5}]+)"));

/// A pattern of this file, of which a test says that it is one.
pub(super) struct Pattern(pub(super) Option<Regex>);

impl Pattern {
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(text))
    }
}

fn compile(pattern: &str) -> Pattern {
    Pattern(Regex::new(pattern).ok())
}
