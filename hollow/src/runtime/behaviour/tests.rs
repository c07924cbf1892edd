//! Tests how annotations are read.

use super::*;

fn read(attempt: u32, pairs: &[(&str, &str)]) -> Result<Behaviour, Invalid> {
    let annotations = pairs
        .iter()
        .map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_owned()))
        .collect();
    parse(&annotations, "web", attempt, SERVER)
}

const NO_VARIABLES: &BTreeMap<String, String> = &BTreeMap::new();
const SERVER: Known<'_> = Known {
    words: &[],
    variables: NO_VARIABLES,
    hostname: "pod",
    image: "web",
    ends: false,
    has_input: false,
    has_terminal: false,
};

#[test]
fn annotations_count_before_the_command() {
    let words = [
        "sh".to_owned(),
        "-c".to_owned(),
        "echo hi; exit 3".to_owned(),
    ];
    let known = Known {
        words: &words,
        ..SERVER
    };
    let read = |pairs: &[(&str, &str)]| {
        let annotations = pairs
            .iter()
            .map(|(k, v)| (format!("{PREFIX}web.{k}"), (*v).to_owned()))
            .collect();
        parse(&annotations, "web", 0, known).unwrap()
    };
    let plain = read(&[]);
    assert_eq!(plain.exit, Some((Duration::ZERO, Exit::code(3))));
    assert_eq!(
        (plain.log_lines, plain.is_announced),
        (vec![(Duration::ZERO, "hi".to_owned())], false)
    );
    assert_eq!(read(&[("serve", "true")]).exit, None);
    assert_eq!(
        read(&[("serve", "false")]).exit,
        Some((Duration::ZERO, Exit::code(3)))
    );
    assert_eq!(
        read(&[("exit-code", "1"), ("exit-attempts", "0")]).exit,
        None
    );
    assert_eq!(
        read(&[("exit-after", "2s")]).exit,
        Some((Duration::from_secs(2), Exit::code(0)))
    );
    let job = Known {
        ends: true,
        ..SERVER
    };
    let ended = parse(&BTreeMap::new(), "web", 0, job).unwrap();
    assert_eq!(
        ended.exit,
        Some((Duration::from_millis(500), Exit::code(0)))
    );
}

#[test]
fn without_annotations_it_runs_until_it_is_asked_to_stop() {
    let behaviour = parse(
        &BTreeMap::from([("other.example/web.exit-code".into(), "x".into())]),
        "web",
        0,
        SERVER,
    );
    assert_eq!(behaviour, Ok(Behaviour::default()));
    assert_eq!(Behaviour::default().exit, None);
}

#[test]
fn exits_count_together() {
    let exit = |attempt, pairs: &[(&str, &str)]| read(attempt, pairs).unwrap().exit;
    let ms = Duration::from_millis;
    assert_eq!(
        exit(0, &[("web.exit-code", "3")]),
        Some((ms(0), Exit::code(3)))
    );
    assert_eq!(
        exit(0, &[("web.exit-after", "1.5s")]),
        Some((ms(1500), Exit::code(0)))
    );
    let oom = exit(
        0,
        &[("web.exit-code", "137"), ("web.exit-reason", "OOMKilled")],
    )
    .unwrap()
    .1;
    assert_eq!((oom.code, oom.reason.as_str()), (137, "OOMKilled"));
    let twice = [("web.exit-code", "1"), ("web.exit-attempts", "2")];
    assert!(exit(0, &twice).is_some() && exit(1, &twice).is_some() && exit(2, &twice).is_none());
    assert_eq!(exit(0, &[("web.exit-attempts", "2")]), None);
}

#[test]
fn the_rest_is_read_each_for_itself() {
    let behaviour = read(
        0,
        &[
            ("web.start-delay", "20ms"),
            ("web.start-error", "no such device"),
            ("web.stop-time", "never"),
            ("web.stop-code", "143"),
            ("web.log-lines", "one\ntwo"),
            (
                "web.exec",
                r#"{"check it": {"code": 1, "stderr": "no", "delay": "2s"}}"#,
            ),
            ("web2.exit-code", "of another container"),
        ],
    )
    .unwrap();
    assert_eq!(behaviour.start_delay, Duration::from_millis(20));
    assert_eq!(behaviour.start_error.as_deref(), Some("no such device"));
    assert_eq!((behaviour.stop_time, behaviour.stop_code), (None, 143));
    let lines: Vec<_> = behaviour
        .log_lines
        .iter()
        .map(|(_, line)| line.as_str())
        .collect();
    assert_eq!(lines, ["one", "two"]);
    let answer = ExecAnswer {
        code: 1,
        stderr: "no".into(),
        delay: Duration::from_secs(2),
        ..Default::default()
    };
    assert_eq!(behaviour.exec["check it"], answer);
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    for (key, value) in [
        ("web.exit-code", "one"),
        ("web.exit-after", "soon"),
        ("web.exit-after", "-1s"),
        ("web.exit-attempts", "-1"),
        ("web.exec", "[]"),
        ("web.exec", r#"{"a": {"exit": 1}}"#),
        ("web.exit-cod", "1"),
        ("web.serve", "yes"),
    ] {
        let fault = read(0, &[(key, value)]).unwrap_err().to_string();
        assert!(fault.contains(&format!("{PREFIX}{key}")), "{fault}");
    }
}
