//! The order of a merged list: items that the client sent keep the client's order, and items that are only stored keep theirs.
//! Strategic merge and server-side apply differ in how they combine the two.

/// An item of a merged list.
pub(super) struct OrderedItem<T> {
    pub(super) item: T,
    /// Its index in the old list.
    pub(super) stood: Option<usize>,
    /// Its index in the order that the client requests.
    pub(super) wanted: Option<usize>,
}

/// Orders the items of a strategic merge. Items that the client names have its order; each other item is put before the first of
/// these that it preceded.
pub(super) fn interleave<T>(items: Vec<OrderedItem<T>>) -> Vec<T> {
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| item.wanted.is_some());
    named.sort_by_key(|item| item.wanted);
    others.sort_by_key(|item| item.stood);
    let mut others = others.into_iter().peekable();
    let mut all = Vec::with_capacity(named.len() + others.len());
    for item in named {
        let before = |other: &OrderedItem<T>| {
            other
                .stood
                .zip(item.stood)
                .is_some_and(|(other, item)| other < item)
        };
        while let Some(other) = others.next_if(before) {
            all.push(other.item);
        }
        all.push(item.item);
    }
    all.extend(others.map(|other| other.item));
    all
}

/// Orders the items of a server-side apply, as in sigs.k8s.io/structured-merge-diff: both lists are walked side by side, and items
/// that are only stored precede new ones at the same place.
pub(super) fn order_applied<T>(items: Vec<OrderedItem<T>>) -> Vec<T> {
    let mut stood: Vec<_> = (0..items.len())
        .filter(|index| items[*index].stood.is_some())
        .collect();
    let mut wanted: Vec<_> = (0..items.len())
        .filter(|index| items[*index].wanted.is_some())
        .collect();
    stood.sort_by_key(|index| items[*index].stood);
    wanted.sort_by_key(|index| items[*index].wanted);
    let mut shared = wanted
        .iter()
        .copied()
        .filter(|index| items[*index].stood.is_some())
        .peekable();
    let (mut left, mut right) = (
        stood.iter().copied().peekable(),
        wanted.iter().copied().peekable(),
    );
    let mut order = Vec::with_capacity(items.len());
    let mut placed = vec![false; items.len()];
    while left.peek().is_some() || right.peek().is_some() {
        if let Some(&old) = left.peek() {
            let is_only_old = items[old].wanted.is_none();
            let is_for_later = right.peek().is_some_and(|new| *new != old)
                && shared.peek().is_some_and(|next| *next != old);
            if is_only_old || is_for_later {
                left.next();
                order.extend(is_only_old.then_some(old));
                continue;
            }
            left.next_if(|old| placed[*old]);
        }
        let Some(new) = right.next() else { break };
        left.next_if_eq(&new);
        shared.next_if_eq(&new);
        placed[new] = true;
        order.push(new);
    }
    let mut items: Vec<_> = items.into_iter().map(|placed| Some(placed.item)).collect();
    order
        .into_iter()
        .filter_map(|index| items.get_mut(index)?.take())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apply_puts_what_only_stands_before_what_is_new() {
        let cases = [
            ("a", "b", "ab"),
            ("ax", "ab", "axb"),
            ("abc", "ca", "bca"),
            ("xay", "ba", "xbay"),
            ("abcd", "dcba", "dcba"),
            ("", "ab", "ab"),
            ("ab", "", "ab"),
            ("axbycz", "cb", "axyczb"),
        ];
        for (standing, sent, expected) in cases {
            let all: std::collections::BTreeSet<_> = standing.chars().chain(sent.chars()).collect();
            let placed = |item: char| OrderedItem {
                item,
                stood: standing.find(item),
                wanted: sent.find(item),
            };
            let merged: String = order_applied(all.into_iter().map(placed).collect())
                .into_iter()
                .collect();
            assert_eq!(merged, expected, "{sent:?} applied to {standing:?}");
        }
    }
}
