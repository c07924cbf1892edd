//! Checks that metrics are parsed strictly.

use e2e::scrape::{find, samples};

#[test]
fn a_strict_reader_reads() -> anyhow::Result<()> {
    let read = samples("# HELP a A.\n# TYPE a gauge\na 1\na{b=\"c\\\"\\n\",d=\"\"} 2.5 -3\n")?;
    assert_eq!(read.len(), 2);
    let found = find(&read, "a", &[("b", "c\"\n")])?;
    assert_eq!((found.value, found.at), (2.5, Some(-3)));
    Ok(())
}

#[test]
fn a_strict_reader_refuses() {
    let head = "# HELP a A.\n# TYPE a gauge\n";
    let histogram = "# HELP h H.\n# TYPE h histogram\n";
    for text in [
        "a 1\n".to_owned(),
        format!("{head}a 1"),
        format!("{head}a 1\na 2\n"),
        format!("{head}b 1\n"),
        format!("{head}a one\n"),
        format!("{head}a{{b=\"c}} 1\n"),
        format!("{head}a{{b=\"c\"}}1\n"),
        format!("{head}a{{1=\"c\"}} 1\n"),
        format!("{head}a 1\n# HELP b B.\n# TYPE b gauge\nb 1\n{head}a{{c=\"d\"}} 1\n"),
        "# HELP a A.\n# TYPE a counter\na 1\n".to_owned(),
        format!(
            "{histogram}h_bucket{{le=\"1\"}} 2\nh_bucket{{le=\"+Inf\"}} 1\nh_sum 1\nh_count 1\n"
        ),
        format!("{histogram}h_bucket{{le=\"+Inf\"}} 1\nh_sum 1\nh_count 2\n"),
    ] {
        assert!(samples(&text).is_err(), "{text}");
    }
}
