//! Faults of an expression: the message and the place of each, and how they are printed.

/// The most faults that are reported.
pub(crate) const MAX_FAULTS: usize = 10;

/// A fault and its place in the source, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) place: u32,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(place: u32, what: impl Into<String>) -> Self {
        Self {
            place,
            what: what.into(),
        }
    }

    /// A fault that keeps the source from being read.
    pub(super) fn syntax(place: usize, what: String) -> Self {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        Self::new(place, format!("Syntax error: {what}"))
    }
}

/// Formats faults with their places, as cel-go does: in the order of their places.
pub(crate) fn format_faults(source: &str, mut faults: Vec<Fault>) -> String {
    faults.sort_by_key(|fault| fault.place);
    faults.truncate(MAX_FAULTS);
    let shown = faults.into_iter().map(|Fault { place, what }| {
        let before = source.get(..place as usize).unwrap_or(source);
        let line = before.matches('\n').count();
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count();
        let text = source.lines().nth(line).unwrap_or_default();
        format!(
            "ERROR: <input>:{}:{}: {what}\n | {text}\n | {}^",
            line + 1,
            column + 1,
            ".".repeat(column)
        )
    });
    shown.collect::<Vec<_>>().join("\n")
}
