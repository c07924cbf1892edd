//! Addresses of electronic mail, as Go's `net/mail` reads a single one: `a@b` or `Name <a@b>`.

/// Reports whether `text` is an address, with or without a name.
pub(super) fn is_address(text: &str) -> bool {
    let rest = match addr_spec(text) {
        Some(rest) => rest,
        None => {
            let Some(rest) = phrase(text) else {
                return false;
            };
            let rest = rest
                .strip_prefix('<')
                .and_then(addr_spec)
                .and_then(|rest| rest.strip_prefix('>'));
            let Some(rest) = rest else { return false };
            rest
        }
    };
    comments(rest).is_some_and(str::is_empty)
}

fn trim(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// Reads `local@domain`, and returns what follows.
fn addr_spec(text: &str) -> Option<&str> {
    let text = trim(text);
    let rest = if text.starts_with('"') {
        let rest = parse_quoted(text)?;
        Some(rest).filter(|rest| text.len() - rest.len() > 2)?
    } else {
        dot_atom(text)?
    };
    let domain = trim(rest.strip_prefix('@')?);
    match domain.strip_prefix('[') {
        Some(literal) => {
            let (address, rest) = literal.split_once(']')?;
            address.parse::<std::net::IpAddr>().is_ok().then_some(rest)
        }
        None => dot_atom(domain),
    }
}

/// Reads words, of which there may be none before `<`.
fn phrase(text: &str) -> Option<&str> {
    let mut rest = trim(text);
    while !rest.starts_with('<') {
        rest = if rest.starts_with('"') {
            parse_quoted(rest)?
        } else {
            atom(rest)?
        };
        rest = trim(rest);
    }
    Some(rest)
}

/// Reads a word whose dots stand between other characters.
fn dot_atom(text: &str) -> Option<&str> {
    let rest = atom(text)?;
    let (word, _) = text.split_at_checked(text.len() - rest.len())?;
    let is_dotted_well = !word.starts_with('.') && !word.ends_with('.') && !word.contains("..");
    is_dotted_well.then_some(rest)
}

fn atom(text: &str) -> Option<&str> {
    let end = text.find(|char| !is_atom(char)).unwrap_or(text.len());
    text.get(end..).filter(|_| end > 0)
}

fn is_atom(char: char) -> bool {
    is_visible(char) && !"()[];@\\,<>\":".contains(char)
}

fn is_visible(char: char) -> bool {
    ('!'..='~').contains(&char) || !char.is_ascii()
}

/// Reads a text in quotation marks.
fn parse_quoted(text: &str) -> Option<&str> {
    let mut chars = text.strip_prefix('"')?.chars();
    loop {
        let char = match chars.next()? {
            '"' => return Some(chars.as_str()),
            '\\' => chars.next()?,
            char => char,
        };
        if !is_visible(char) && !matches!(char, ' ' | '\t') {
            return None;
        }
    }
}

/// Reads comments in parentheses.
fn comments(text: &str) -> Option<&str> {
    let mut rest = trim(text);
    while let Some(comment) = rest.strip_prefix('(') {
        let mut depth = 1;
        let mut chars = comment.chars();
        while depth > 0 {
            match chars.next()? {
                '\\' => drop(chars.next()?),
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
        }
        rest = trim(chars.as_str());
    }
    Some(rest)
}
