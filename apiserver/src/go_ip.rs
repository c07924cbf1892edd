//! Why a text is no IP address, in the words of Go's `netip.ParseAddr`.

/// What is wrong, and the rest of the text from there on.
type Fault<'a> = (&'static str, &'a str);

/// Returns the error for a text that is no address.
pub(crate) fn fault(text: &str) -> String {
    let (why, at) = match text
        .find(['.', ':', '%'])
        .and_then(|first| text.get(first..first + 1))
    {
        Some(".") => of_version_4(text).err(),
        Some(":") => of_version_6(text).err(),
        Some(_) => Some(("missing IPv6 address", "")),
        None => None,
    }
    .unwrap_or(("unable to parse IP", ""));
    let place = if at.is_empty() {
        String::new()
    } else {
        format!(" (at {at:?})")
    };
    format!("ParseAddr({text:?}): {why}{place}")
}

fn of_version_4(text: &str) -> Result<(), Fault<'_>> {
    let (mut value, mut digits, mut fields) = (0_u32, 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        let rest = text.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' if digits == 0 || rest.len() == 1 => {
                return Err(("IPv4 field must have at least one digit", rest));
            }
            b'.' if fields == 3 => return Err(("IPv4 address too long", "")),
            b'.' => {
                fields += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(("unexpected character", rest)),
        }
    }
    if fields < 3 {
        Err(("IPv4 address too short", ""))
    } else {
        Ok(())
    }
}

fn of_version_6(text: &str) -> Result<(), Fault<'_>> {
    let mut rest = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, _)) => address,
        None => text,
    };
    let mut has_gap = false;
    if let Some(after) = rest.strip_prefix("::") {
        (has_gap, rest) = (true, after);
    }
    let mut bytes = 0;
    while bytes < 16 && !(rest.is_empty() && has_gap) {
        let digits = rest
            .find(|char: char| !char.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        match digits {
            0 => {
                return Err((
                    "each colon-separated field must have at least one digit",
                    rest,
                ));
            }
            5.. => return Err(("each group must have 4 or fewer digits", rest)),
            _ => {}
        }
        let after = rest.get(digits..).unwrap_or_default();
        if after.starts_with('.') {
            if !has_gap && bytes != 12 {
                return Err((
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ));
            }
            if bytes > 12 {
                return Err((
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                ));
            }
            of_version_4(rest)?;
            (bytes, rest) = (bytes + 4, "");
            break;
        }
        (bytes, rest) = (bytes + 2, after);
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if has_gap {
                return Err(("multiple :: in address", rest));
            }
            (has_gap, rest) = (true, after);
        }
    }
    match (rest, bytes < 16, has_gap) {
        ("", true, false) => Err(("address string too short", "")),
        ("", false, true) => Err(("the :: must expand to at least one field of zeros", "")),
        ("", ..) => Ok(()),
        (rest, ..) => Err(("trailing garbage after address", rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn address_faults_have_the_texts_of_go() {
        let rows = [
            ("", "unable to parse IP"),
            ("abc", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("192.168.0.1.0", "IPv4 address too long"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("01.2.3.4", "IPv4 field has octet with leading zero"),
            (
                "1..2.3",
                "IPv4 field must have at least one digit (at \".2.3\")",
            ),
            (
                "1.2.3.",
                "IPv4 field must have at least one digit (at \".\")",
            ),
            ("1.2.3.a", "unexpected character (at \"a\")"),
            (
                "2001:db8:::68",
                "each colon-separated field must have at least one digit (at \":68\")",
            ),
            ("::1::", "multiple :: in address (at \":\")"),
            (
                "12345::",
                "each group must have 4 or fewer digits (at \"12345::\")",
            ),
            ("1:2:3", "address string too short"),
            (
                "1:2:3:",
                "colon must be followed by more characters (at \":\")",
            ),
            (
                "1:2:3:4:5:6:7:8:9",
                "trailing garbage after address (at \"9\")",
            ),
            (
                "1:2:3:4::5:6:7:8",
                "the :: must expand to at least one field of zeros",
            ),
            (
                "::g",
                "each colon-separated field must have at least one digit (at \"g\")",
            ),
            ("::1g", "unexpected character, want colon (at \"g\")"),
            ("::1.2.3", "IPv4 address too short"),
            (
                "1:2.3.4.5",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"2.3.4.5\")",
            ),
            ("::1%", "zone must be a non-empty string"),
        ];
        for (text, expected) in rows {
            assert_eq!(fault(text), format!("ParseAddr({text:?}): {expected}"));
            assert!(text.parse::<std::net::IpAddr>().is_err(), "{text}");
        }
    }
}
