//! Schedules, compared with the answers of robfig/cron v3.

use super::*;

// in POSIX notation, so that no time zone files are needed
const UTC: &str = "UTC0";
const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";
const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
const HAVANA: &str = "CST5CDT,M3.2.0/0,M11.1.0/1";
const KOLKATA: &str = "IST-5:30";
const TOKYO: &str = "JST-9";

#[test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn the_next_time_is_the_one_that_kubernetes_takes() {
    for (zone, text, after, expected) in [
        (
            UTC,
            "* * * * *",
            "2025-06-01T12:00:30Z",
            "2025-06-01T12:01:00Z",
        ),
        (
            UTC,
            "* * * * *",
            "2025-06-01T12:01:00Z",
            "2025-06-01T12:02:00Z",
        ),
        (
            UTC,
            "*/15 * * * *",
            "2025-06-01T12:46:00Z",
            "2025-06-01T13:00:00Z",
        ),
        (
            UTC,
            "5/20 * * * *",
            "2025-06-01T12:26:00Z",
            "2025-06-01T12:45:00Z",
        ),
        (
            UTC,
            "0 9-17/4 * * *",
            "2025-06-01T13:00:00Z",
            "2025-06-01T17:00:00Z",
        ),
        (
            UTC,
            "30 2 * * mon-fri",
            "2025-06-06T03:00:00Z",
            "2025-06-09T02:30:00Z",
        ),
        (
            UTC,
            "0 0 * * sun",
            "2025-06-02T00:00:00Z",
            "2025-06-08T00:00:00Z",
        ),
        (
            UTC,
            "0 0 1,15 * *",
            "2025-12-20T00:00:00Z",
            "2026-01-01T00:00:00Z",
        ),
        (
            UTC,
            "0 0 29 2 *",
            "2025-06-01T00:00:00Z",
            "2028-02-29T00:00:00Z",
        ),
        (UTC, "0 0 31 feb *", "2025-06-01T00:00:00Z", "never"),
        (
            UTC,
            "*/300 +5 007 * *",
            "2025-06-01T00:00:00Z",
            "2025-06-07T05:00:00Z",
        ),
        (
            UTC,
            "1,,2 * * * *",
            "2025-06-01T00:00:00Z",
            "2025-06-01T00:01:00Z",
        ),
        (UTC, ", * * * *", "2025-06-01T00:00:00Z", "never"),
        (
            UTC,
            "0 0 13 * FRI",
            "2025-06-01T00:00:00Z",
            "2025-06-06T00:00:00Z",
        ),
        (
            UTC,
            "0 0 */2 * mon",
            "2025-06-02T00:00:00Z",
            "2025-06-03T00:00:00Z",
        ),
        (
            UTC,
            "0 0 */1 * mon",
            "2025-06-01T00:00:00Z",
            "2025-06-02T00:00:00Z",
        ),
        (
            UTC,
            "0 0 *,5 * mon",
            "2025-06-01T00:00:00Z",
            "2025-06-02T00:00:00Z",
        ),
        (
            UTC,
            "0 0 ? * mon",
            "2025-06-01T00:00:00Z",
            "2025-06-02T00:00:00Z",
        ),
        (
            UTC,
            "0 0 1 * ?",
            "2025-06-02T00:00:00Z",
            "2025-07-01T00:00:00Z",
        ),
        (
            UTC,
            "*-5/20 * * * *",
            "2025-06-01T12:41:00Z",
            "2025-06-01T13:00:00Z",
        ),
        (
            UTC,
            "@hourly",
            "2025-06-01T12:00:00Z",
            "2025-06-01T13:00:00Z",
        ),
        (
            UTC,
            "@midnight",
            "2025-06-01T12:00:00Z",
            "2025-06-02T00:00:00Z",
        ),
        (
            UTC,
            "@weekly",
            "2025-06-02T12:00:00Z",
            "2025-06-08T00:00:00Z",
        ),
        (
            UTC,
            "@monthly",
            "2025-06-02T12:00:00Z",
            "2025-07-01T00:00:00Z",
        ),
        (
            UTC,
            "@annually",
            "2025-06-02T12:00:00Z",
            "2026-01-01T00:00:00Z",
        ),
        (
            UTC,
            "@every 1h30m10.7s",
            "2025-06-01T12:00:00Z",
            "2025-06-01T13:30:10Z",
        ),
        (
            UTC,
            "@every 10ms",
            "2025-06-01T12:00:00Z",
            "2025-06-01T12:00:01Z",
        ),
        (
            NEW_YORK,
            "30 2 * * *",
            "2025-03-08T12:00:00Z",
            "2025-03-10T06:30:00Z",
        ),
        (
            NEW_YORK,
            "0 * * * *",
            "2025-03-09T06:00:00Z",
            "2025-03-09T07:00:00Z",
        ),
        (
            NEW_YORK,
            "*/30 * * * *",
            "2025-03-09T06:30:00Z",
            "2025-03-09T07:00:00Z",
        ),
        (
            NEW_YORK,
            "30 1 * * *",
            "2025-11-02T04:00:00Z",
            "2025-11-02T05:30:00Z",
        ),
        (
            NEW_YORK,
            "30 1 * * *",
            "2025-11-02T05:30:00Z",
            "2025-11-02T06:30:00Z",
        ),
        (
            NEW_YORK,
            "30 1 * * *",
            "2025-11-02T06:30:00Z",
            "2025-11-03T06:30:00Z",
        ),
        (
            NEW_YORK,
            "30 2 * * *",
            "2025-11-02T04:00:00Z",
            "2025-11-02T07:30:00Z",
        ),
        (
            NEW_YORK,
            "0 * * * *",
            "2025-11-02T05:00:00Z",
            "2025-11-02T06:00:00Z",
        ),
        (
            NEW_YORK,
            "* * * * *",
            "2025-11-02T05:59:00Z",
            "2025-11-02T06:00:00Z",
        ),
        (
            NEW_YORK,
            "0 0 * * *",
            "2025-11-02T04:00:00Z",
            "2025-11-03T05:00:00Z",
        ),
        (
            BERLIN,
            "30 2 * * *",
            "2025-03-29T12:00:00Z",
            "2025-03-31T00:30:00Z",
        ),
        (
            BERLIN,
            "15 2 * * *",
            "2025-10-26T00:15:00Z",
            "2025-10-26T01:15:00Z",
        ),
        (
            HAVANA,
            "0 0 * * *",
            "2025-03-08T12:00:00Z",
            "2025-03-10T04:00:00Z",
        ),
        (
            HAVANA,
            "30 0 * * *",
            "2025-11-02T04:30:00Z",
            "2025-11-02T05:30:00Z",
        ),
        (
            KOLKATA,
            "0 9 * * *",
            "2025-06-01T00:00:00Z",
            "2025-06-01T03:30:00Z",
        ),
        (
            TOKYO,
            "0 0 * * *",
            "2025-06-01T15:00:00Z",
            "2025-06-02T15:00:00Z",
        ),
    ] {
        let schedule = Schedule::parse(text, TimeZone::posix(zone).unwrap()).unwrap();
        let next = schedule.next(after.parse().unwrap());
        let next = next.map_or_else(|| "never".into(), |time| time.to_string());
        assert_eq!(next, expected, "{text} after {after} in {zone}");
    }
}

#[test]
fn a_clock_that_is_set_back_just_after_midnight_ends_the_search() {
    // St. John's until 2011: at a minute past midnight it was a minute past eleven again
    let zone = TimeZone::posix("NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01").unwrap();
    let schedule = Schedule::parse("30 12 * * *", zone).unwrap();
    let next = schedule
        .next("2025-11-01T18:00:00Z".parse().unwrap())
        .unwrap();
    assert_eq!(next.to_string(), "2025-11-02T16:00:00Z");
}

#[test]
fn what_kubernetes_refuses_is_refused_by_name() {
    for text in [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "0 0 * * 7",
        "* * * * mon-sun-1",
        "5-1 * * * *",
        "0 0 * * fri-sun",
        "*/0 * * * *",
        "1/2/3 * * * *",
        "*/-1 * * * *",
        "-5 * * * *",
        "/5 * * * *",
        "x * * * *",
        "0 0 L * *",
        "0 0 15W * *",
        "0 0 * * 5#2",
        "0 0 1 1 * 2030",
        "TZ=UTC 0 0 * * *",
        "@reboot",
        "@Daily",
        "@every",
        "@every 1d",
        "@every 1 h",
    ] {
        assert!(Schedule::parse(text, TimeZone::UTC).is_err(), "{text}");
    }
    let error = Schedule::parse("0 24 * * *", TimeZone::UTC).unwrap_err();
    insta::assert_snapshot!(error, @r#""24" is not a valid hour in a schedule; use numbers from 0 to 23, ranges, lists, steps or *"#);
}
