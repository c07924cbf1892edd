//! Lists of indexes of a job, such as `1,3-5`.

/// Returns how many indexes a list has; each is less than `completions`.
///
/// # Errors
/// Kubernetes' message.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for interval in text.split(',') {
        let (first, end) = bounds(interval, completions)?;
        if last.is_some_and(|last| last >= first) {
            let last = last.unwrap_or_default();
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first and the last index of an interval.
fn bounds(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<_> = interval.split('-').collect();
    let number = |text: &str| {
        let number = text.parse::<i32>().ok().filter(|_| !text.starts_with('+'));
        number
            .map(i64::from)
            .ok_or_else(|| format!("cannot convert string to integer for index: {text:?}"))
    };
    let (first, end) = match limits.as_slice() {
        [only] => (number(only)?, number(only)?),
        [first, end] => (number(first)?, number(end)?),
        _ => {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
    };
    for (limit, text) in [(first, limits.first()), (end, limits.last())] {
        if limit >= completions {
            return Err(format!(
                "too large index: {:?}",
                text.copied().unwrap_or_default()
            ));
        }
    }
    if limits.len() > 1 && end <= first {
        return Err(format!(
            "non-increasing order, previous: {first}, current: {end}"
        ));
    }
    Ok((first, end))
}
