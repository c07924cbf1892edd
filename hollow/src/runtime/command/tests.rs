//! Tests of [`super`].

use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn of(command: &[&str], image: &str, ends: bool) -> Run {
    let variables = BTreeMap::from([("COLOR".to_owned(), "blue".to_owned())]);
    run(Known {
        words: &words(command),
        variables: &variables,
        hostname: "pod",
        image,
        ends,
        has_input: false,
        has_terminal: false,
    })
}

/// Returns when the run ends, in seconds, its exit code, and what it prints.
fn outcome(run: &Run) -> (Option<(f64, i32)>, String) {
    let lines: Vec<_> = run.lines.iter().map(|(_, line)| line.as_str()).collect();
    (
        run.end.map(|(after, code)| (after.as_secs_f64(), code)),
        lines.join("|"),
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn what_the_command_says_decides() {
    for (command, end, log) in [
        (vec!["true"], Some((0.0, 0)), ""),
        (vec!["/bin/false"], Some((0.0, 1)), ""),
        (vec!["echo", "a", "b"], Some((0.0, 0)), "a b"),
        (vec!["sleep", "3"], Some((3.0, 0)), ""),
        (vec!["sleep", "1m"], Some((60.0, 0)), ""),
        (vec!["sleep", "1d", "0.5h"], Some((88_200.0, 0)), ""),
        (vec!["sleep", "500ms"], Some((0.5, 0)), ""),
        (vec!["sleep", "0.5"], Some((0.5, 0)), ""),
        (vec!["sleep", "infinity"], None, ""),
        (vec!["sleep", "soon"], Some((0.0, 1)), ""),
        (vec!["hostname"], Some((0.0, 0)), "pod"),
        (vec!["env"], Some((0.0, 0)), "COLOR=blue"),
        (vec!["exit", "3"], Some((0.0, 3)), ""),
        (vec!["sh", "-c", "exit 42"], Some((0.0, 42)), ""),
        (
            vec!["/bin/sh", "-c", "echo one; sleep 2; echo two && exit 7"],
            Some((2.0, 7)),
            "one|two",
        ),
        (vec!["bash", "-ec", "false; echo no"], Some((0.0, 1)), ""),
        (
            vec!["sh", "-c", "set -e\nfalse || echo so\necho on"],
            Some((0.0, 0)),
            "so|on",
        ),
        (vec!["sh", "-c", "true && false"], Some((0.0, 1)), ""),
        (
            vec!["sh", "-c", "false && echo no || echo yes"],
            Some((0.0, 0)),
            "yes",
        ),
        (
            vec![
                "sh",
                "-c",
                "echo \"$COLOR ${COLOR}s\" '$COLOR' \\$COLOR $NONE.",
            ],
            Some((0.0, 0)),
            "blue blues $COLOR $COLOR .",
        ),
        (
            vec!["sh", "-c", "A=1; export B=2; echo $A$B; false; echo $?"],
            Some((0.0, 0)),
            "12|1",
        ),
        (
            vec![
                "sh",
                "-c",
                "echo 'a; b' # and so on\n echo c >&2; echo d > /dev/null; echo e 2>&1",
            ],
            Some((0.0, 0)),
            "a; b|c|e",
        ),
        (
            vec![
                "sh",
                "-c",
                "echo -n a; echo -e 'b\\nc'; printf '%s is %d\\n' x 5",
            ],
            Some((0.0, 0)),
            "ab|c|x is 5",
        ),
        (vec!["sh", "-c", "sh -c 'exit 4'"], Some((0.0, 4)), ""),
        (
            vec!["sh", "-c", "exec sleep 5; echo never"],
            Some((5.0, 0)),
            "",
        ),
        (
            vec![
                "sh",
                "-c",
                "if [ $(expr 5 % 2) -ne 0 ]; then exit 1\nelse\n exit 0\nfi",
            ],
            Some((0.0, 1)),
            "",
        ),
        (
            vec![
                "sh",
                "-c",
                "for i in 1 2; do [[ $i = 2 ]] && break; echo $((i * 5)); done; echo $i",
            ],
            Some((0.0, 0)),
            "5|2",
        ),
        (
            vec![
                "sh",
                "-c",
                "echo ${COLOR:-red} ${NONE:-a $COLOR}; echo ${NONE:?}",
            ],
            Some((0.0, 2)),
            "blue a blue|sh: NONE: parameter not set or null",
        ),
        (
            vec!["sh", "-c", "! true && echo no || { echo yes; exit 3; }"],
            Some((0.0, 3)),
            "yes",
        ),
        (vec!["sh", "-c", "echo a | grep b"], Some((0.0, 1)), ""),
        (
            vec![
                "sh",
                "-c",
                "echo `echo a` \"`echo \\`echo b c\\``\" '`' \\`",
            ],
            Some((0.0, 0)),
            "a b c ` `",
        ),
        (
            vec![
                "sh",
                "-c",
                "printf 'b\\na\\n' | sort | head -n 1; echo $(echo x; echo y)",
            ],
            Some((0.0, 0)),
            "a|x y",
        ),
        (
            vec!["sh", "-c", "[ \"$COLOR\" = blue ] && exit 4"],
            Some((0.0, 4)),
            "",
        ),
        (vec!["cat"], Some((0.0, 0)), ""),
        // An unknown command runs on after what precedes it.
        (vec!["serve", "--fast"], None, ""),
        (
            vec!["sh", "-c", "echo begin; exec nginx -g 'daemon off;'"],
            None,
            "begin",
        ),
        (
            vec!["sh", "-c", "while true; do echo x; sleep 1; done"],
            None,
            "",
        ),
        (vec!["sh", "-c", "echo $(date)"], None, ""),
        (
            vec!["sh", "-c", "trap exit TERM; sleep 5 & wait"],
            Some((5.0, 0)),
            "",
        ),
        (vec!["tail", "-f", "/dev/null"], None, ""),
        (vec!["sh", "/run.sh"], None, ""),
        (vec![], None, ""),
    ] {
        assert_eq!(
            outcome(&of(&command, "busybox", false)),
            (end, log.to_owned()),
            "{command:?}"
        );
    }
}

#[test]
fn what_is_there_to_end_does_unless_it_serves() {
    for (command, image, end) in [
        (
            vec!["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"],
            "perl:5.34",
            Some((0.5, 0)),
        ),
        (
            vec!["sh", "-c", "migrate up && exit 3"],
            "tools",
            Some((0.5, 3)),
        ),
        (
            vec!["sh", "-c", "case $A in a) echo b;; esac"],
            "busybox",
            Some((0.5, 0)),
        ),
        (
            vec![],
            "registry.local:5000/tools/migrate:1",
            Some((0.5, 0)),
        ),
        (vec![], "registry.local:5000/library/nginx:1", None),
        (vec!["nginx", "-t"], "nginx", Some((0.5, 0))),
        (
            vec!["sh", "-c", "while true; do date; sleep 1; done"],
            "busybox",
            None,
        ),
        (vec!["sleep", "infinity"], "busybox", None),
        (vec!["tail", "-f", "/dev/null"], "busybox", None),
        (vec!["false"], "busybox", Some((0.0, 1))),
    ] {
        assert_eq!(
            outcome(&of(&command, image, true)).0,
            end,
            "{command:?} {image}"
        );
    }
}

#[test]
fn what_has_to_do_with_files_or_the_time_is_run() {
    for script in [
        "date",
        "cat /etc/config/a; echo b",
        "echo $(date)",
        "ls /",
        "id",
        "mkdir -p /data && touch /data/x && echo done",
        "echo a > /tmp/file",
        "while true; do echo x; sleep 1; done",
        "exit $(( $RANDOM / 16384 ))",
        "cd /etc; sh ./run.sh",
        "for i in $(seq 1 3000); do echo $i; done",
    ] {
        for ends in [false, true] {
            let run = of(&["sh", "-c", script], "busybox", ends);
            assert_eq!(
                (run.end, run.live),
                (None, Some(Live::Own { guesses: ends })),
                "{script}"
            );
        }
    }
    for script in [
        "echo a",
        "sleep 5",
        "tail -f /dev/null",
        "serve",
        "sleep 5 & date",
        "f() { date; }; f",
    ] {
        assert_eq!(
            of(&["sh", "-c", script], "busybox", false).live,
            None,
            "{script}"
        );
    }
}

#[test]
fn lines_have_their_time() {
    let run = of(
        &["sh", "-c", "echo a; sleep 2; echo b; sleep 1"],
        "busybox",
        false,
    );
    let at = Duration::from_secs;
    assert_eq!(
        run.lines,
        [(at(0), "a".to_owned()), (at(2), "b".to_owned())]
    );
    assert_eq!(run.end, Some((at(3), 0)));
}

#[test]
fn what_waits_for_somebody_to_type_is_not_planned() {
    let none = BTreeMap::new();
    let of = |command: &[&str], has_input, has_terminal| {
        let words = words(command);
        run(Known {
            words: &words,
            variables: &none,
            hostname: "pod",
            image: "busybox",
            ends: false,
            has_input,
            has_terminal,
        })
    };
    for command in [
        &["sh"][..],
        &["cat"],
        &["sh", "-c", "echo a; cat"],
        &["bash", "-i"],
    ] {
        assert_eq!(
            of(command, true, false).live,
            Some(Live::Typed),
            "{command:?}"
        );
        let terminal = of(command, false, true);
        assert!(
            terminal.live.is_none() && terminal.end.is_none(),
            "{command:?} at a terminal at which nobody types"
        );
        assert_eq!(
            of(command, false, false).end,
            Some((Duration::ZERO, 0)),
            "{command:?} without input"
        );
    }
    assert_eq!(of(&["echo", "a"], true, true).live, None);
}

#[test]
fn a_plan_is_bounded() {
    let double = "A=xxxxxxxx; ".to_owned() + &"A=$A$A;".repeat(2000) + "echo $A";
    let many = "echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;".repeat(300);
    let nested = format!(
        "A='{}'; sh -c \"$A\"; sh -c \"$A\"; sh -c \"$A\"",
        "echo x;".repeat(900)
    );
    for script in [
        double.as_str(),
        &many,
        &nested,
        &"$(".repeat(8000),
        &"'".repeat(8001),
        &"a|".repeat(8000),
    ] {
        let run = of(&["sh", "-c", script], "busybox", true);
        let bytes: usize = run.lines.iter().map(|(_, line)| line.len()).sum();
        assert!(
            run.lines.len() <= 1000 && bytes <= 256 * 1024,
            "{} lines of {bytes} bytes",
            run.lines.len()
        );
    }
}

#[test]
fn plans_that_would_take_long_are_not_made_to_their_end() {
    let begun = clock::Instant::now();
    let letters: String = (0..4000).map(|_| ".-~").collect();
    for script in [
        format!("seq 1 140000 | tr '!-){letters}' xy"),
        format!("seq 1 140000 | grep -i '{}'", "a.*".repeat(4000)),
        format!("echo a | {}cat", "sort | ".repeat(1000)),
        format!(
            "A=$(seq 1 9000); {}true",
            "echo \"$A\" | tr a-z A-Z; ".repeat(400)
        ),
    ] {
        let run = of(&["sh", "-c", &script], "busybox", false);
        assert!(run.lines.len() <= 1000, "{} lines", run.lines.len());
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

/// Such loops would turn without a command that is counted.
#[test]
fn loops_of_nothing_are_not_read() {
    for text in [
        "while do done",
        "until do done",
        "while true; do done",
        "while do true; done",
    ] {
        assert!(script::read(text).is_err(), "{text}");
    }
    assert!(script::read("while true; do sleep 1; done").is_ok());
}
