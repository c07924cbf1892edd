//! The order of a merged list: what the client sent keeps the client's order, what only stands keeps its own.

/// An item of a merged list.
pub(super) struct Placed<T> {
    pub(super) item: T,
    /// Its place in the list that stood.
    pub(super) stood: Option<usize>,
    /// Its place in the order that the client wants.
    pub(super) wanted: Option<usize>,
}

/// Puts the items in order. Those that the client names stand in its order; the others are put before the first of these
/// that they stood before.
pub(super) fn interleave<T>(items: Vec<Placed<T>>) -> Vec<T> {
    let (mut named, mut others): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.wanted.is_some());
    named.sort_by_key(|item| item.wanted);
    others.sort_by_key(|item| item.stood);
    let mut others = others.into_iter().peekable();
    let mut all = Vec::with_capacity(named.len() + others.len());
    for item in named {
        let before =
            |other: &Placed<T>| other.stood.zip(item.stood).is_some_and(|(other, item)| other < item);
        while let Some(other) = others.next_if(before) {
            all.push(other.item);
        }
        all.push(item.item);
    }
    all.extend(others.map(|other| other.item));
    all
}
