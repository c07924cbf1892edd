//! Tests of [`schedule`].

use super::schedule;

#[test]
fn schedules_that_cron_reads_are_taken() {
    for text in [
        "* * * * *",
        "0 0 1 1 0",
        "59 23 31 12 6",
        "*/5 0-12/3 1,15 JAN-mar,Dec Mon-fri",
        "5/10 * ? * sun",
        "10-10 * * * *",
        "07 +3 * * *",
        "*/100 * * * *",
        "1,,2 , * * *",
        "  30\t4 * * *  ",
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "@every 1h30m",
    ] {
        assert_eq!(schedule::check(text), Ok(()), "{text:?}");
    }
}

#[test]
fn schedules_that_cron_does_not_read_are_refused_in_its_words() {
    for (text, why) in [
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* 24 * * *", "end of range (24) above maximum (23): 24"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * 32 * *", "end of range (32) above maximum (31): 32"),
        ("* * * 0 *", "beginning of range (0) below minimum (1): 0"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("0,99 * * * *", "end of range (99) above maximum (59): 99"),
        (
            "50-70 * * * *",
            "end of range (70) above maximum (59): 50-70",
        ),
        (
            "70/5 * * * *",
            "beginning of range (70) beyond end of range (59): 70/5",
        ),
        (
            "30-10 * * * *",
            "beginning of range (30) beyond end of range (10): 30-10",
        ),
        (
            "* * * dec-jan *",
            "beginning of range (12) beyond end of range (1): dec-jan",
        ),
        (
            "*/0 * * * *",
            "step of range should be a positive number: */0",
        ),
        (
            "1-9/0 * * * *",
            "step of range should be a positive number: 1-9/0",
        ),
        ("*/-2 * * * *", "negative number (-2) not allowed: -2"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        (
            "-5 * * * *",
            r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#,
        ),
        (
            "jan * * * *",
            r#"failed to parse int from jan: strconv.Atoi: parsing "jan": invalid syntax"#,
        ),
        (
            "*/x * * * *",
            r#"failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            "99999999999999999999 * * * *",
            r#"failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
        ),
        ("*  * *", "expected exactly 5 fields, found 3: [* * *]"),
        (
            "0 * * * * *",
            "expected exactly 5 fields, found 6: [0 * * * * *]",
        ),
        (" ", "expected exactly 5 fields, found 0: []"),
        ("@often", "unrecognized descriptor: @often"),
        (
            "@every day",
            r#"failed to parse duration @every day: time: invalid duration "day""#,
        ),
    ] {
        assert_eq!(schedule::check(text), Err(why.to_owned()), "{text:?}");
    }
}
