//! Tests of [`super`]: trees, faults, and input that nobody would write.

use proptest::prelude::*;

use super::{ast::ListExpr, *};

/// Writes a tree with brackets around each part.
pub(super) fn print_tree(expr: &Expr) -> String {
    let all = |parts: Vec<String>| format!("({})", parts.join(" "));
    match &expr.kind {
        ExprKind::Ident(name) => name.clone(),
        ExprKind::Literal(Literal::Uint(value)) => format!("{value}u"),
        ExprKind::Literal(Literal::Bytes(value)) => {
            format!("b{:?}", value.escape_ascii().to_string())
        }
        ExprKind::Literal(Literal::String(value)) => format!("{value:?}"),
        ExprKind::Literal(Literal::Bool(value)) => value.to_string(),
        ExprKind::Literal(Literal::Double(value)) => format!("{value:?}"),
        ExprKind::Literal(Literal::Int(value)) => value.to_string(),
        ExprKind::Literal(Literal::Null) => "null".to_owned(),
        ExprKind::Struct(message) => format!("{}{{}}", message.type_name),
        ExprKind::Select(select) => {
            let name = if select.test { "has" } else { "select" };
            format!("({name} {} {})", print_tree(&select.operand), select.field)
        }
        ExprKind::List(ListExpr {
            elements,
            optional_indices,
        }) => {
            let elements = elements.iter().enumerate().map(|(index, element)| {
                let mark = if optional_indices.contains(&index) {
                    "?"
                } else {
                    ""
                };
                format!("{mark}{}", print_tree(element))
            });
            format!("[{}]", elements.collect::<Vec<_>>().join(" "))
        }
        ExprKind::Map(map) => {
            let entries = map.entries.iter().map(|entry| {
                let mark = if entry.optional { "?" } else { "" };
                format!(
                    "{mark}{}: {}",
                    print_tree(&entry.key),
                    print_tree(&entry.value)
                )
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(" "))
        }
        ExprKind::Call(call) => {
            let target = call
                .target
                .iter()
                .map(|target| format!("{}.", print_tree(target)));
            let name = format!("{}{}", target.collect::<String>(), call.func_name);
            all([name]
                .into_iter()
                .chain(call.args.iter().map(print_tree))
                .collect())
        }
        ExprKind::Comprehension(folded) => {
            let variables = [Some(&folded.iter_var), folded.iter_var2.as_ref()];
            let variables: Vec<_> = variables.into_iter().flatten().cloned().collect();
            let steps = [&folded.loop_cond, &folded.loop_step, &folded.result].map(print_tree);
            all(vec![
                "for".to_owned(),
                variables.join(","),
                "in".to_owned(),
                print_tree(&folded.iter_range),
                format!("{}={}", folded.accu_var, print_tree(&folded.accu_init)),
                steps.join(" "),
            ])
        }
    }
}

/// The tree or the faults, each as one line without its source.
fn parse_line(source: &str) -> String {
    match parse(source) {
        Ok(parsed) => print_tree(&parsed.expr),
        Err(why) => {
            let faults = why
                .lines()
                .filter_map(|line| line.strip_prefix("ERROR: <input>:"));
            faults.collect::<Vec<_>>().join("; ")
        }
    }
}

#[track_caller]
fn assert_parsed(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(parse_line(source), *expected, "{source}");
    }
}

#[test]
fn literals_have_the_values_of_the_specification() {
    assert_parsed(&[
        ("0", "0"),
        ("0x1F", "31"),
        ("-0x1f", "-31"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775807", "9223372036854775807"),
        ("1u", "1u"),
        ("0xFFU", "255u"),
        ("18446744073709551615u", "18446744073709551615u"),
        ("1.5", "1.5"),
        ("-.5", "-0.5"),
        ("1e3", "1000.0"),
        ("1.5E-2", "0.015"),
        ("true", "true"),
        ("false", "false"),
        ("null", "null"),
        (r#"'a"b'"#, r#""a\"b""#),
        (r#""a'b""#, r#""a'b""#),
        (r"''", r#""""#),
        (r"''''''", r#""""#),
        ("'''a'b\n''c'''", r#""a'b\n''c""#),
        ("\"\"\"a\"b\"\"\"", r#""a\"b""#),
        ("'''a\r\nb\rc'''", r#""a\nb\nc""#),
        (
            r"'\a\b\f\n\r\t\v\\\?\'\`'",
            r#""\u{7}\u{8}\u{c}\n\r\t\u{b}\\?'`""#,
        ),
        (r#"'\"'"#, r#""\"""#),
        (r"'\x41\X7e\u00e9\U0001F431\101\377'", r#""A~é🐱Aÿ""#),
        (r"r'\n\x'", r#""\\n\\x""#),
        (r#"R"a\""#, r#""a\\""#),
        ("r'''a\\\nb'''", r#""a\\\nb""#),
        (r"b'abc'", r#"b"abc""#),
        (r"B'\xff\377\x00'", r#"b"\\xff\\xff\\x00""#),
        (r"b'é'", r#"b"\\xc3\\xa9""#),
        (r"br'\n'", r#"b"\\\\n""#),
        (r"bR'''\x'''", r#"b"\\\\x""#),
        ("b\"\"\"a\"\"\"", r#"b"a""#),
        ("// all of it\n 1 // one\n", "1"),
        ("\t1\u{c}\r\n", "1"),
    ]);
}

#[test]
fn operators_bind_as_in_the_specification() {
    assert_parsed(&[
        ("1 + 2 * 3", "(_+_ 1 (_*_ 2 3))"),
        ("1 - 2 - 3", "(_-_ (_-_ 1 2) 3)"),
        ("8 / 4 % 3 * 2", "(_*_ (_%_ (_/_ 8 4) 3) 2)"),
        ("(1 + 2) * 3", "(_*_ (_+_ 1 2) 3)"),
        ("a -1", "(_-_ a 1)"),
        ("a - -1", "(_-_ a -1)"),
        ("a--1", "(_-_ a -1)"),
        ("-a.b", "(-_ (select a b))"),
        ("-(1)", "(-_ 1)"),
        ("--1", "1"),
        ("---a", "(-_ a)"),
        ("!a", "(!_ a)"),
        ("!!a", "a"),
        ("!-1", "(!_ -1)"),
        ("-1.abs()", "(-1.abs)"),
        ("a < b", "(_<_ a b)"),
        ("a <= b", "(_<=_ a b)"),
        ("a > b", "(_>_ a b)"),
        ("a >= b", "(_>=_ a b)"),
        ("a == b", "(_==_ a b)"),
        ("a != b", "(_!=_ a b)"),
        ("a in b", "(@in a b)"),
        ("a < b == c in d", "(@in (_==_ (_<_ a b) c) d)"),
        ("a + 1 in b", "(@in (_+_ a 1) b)"),
        ("a || b && c", "(_||_ a (_&&_ b c))"),
        ("a && b || c && d", "(_||_ (_&&_ a b) (_&&_ c d))"),
        ("a && b && c", "(_&&_ (_&&_ a b) c)"),
        ("a && b && c && d", "(_&&_ (_&&_ a b) (_&&_ c d))"),
        (
            "a || b || c || d || e",
            "(_||_ (_||_ (_||_ a b) c) (_||_ d e))",
        ),
        ("a ? b : c", "(_?_:_ a b c)"),
        (
            "a || b ? c : d ? e : f",
            "(_?_:_ (_||_ a b) c (_?_:_ d e f))",
        ),
        ("a ? (b ? c : d) : e", "(_?_:_ a (_?_:_ b c d) e)"),
        ("a ? b || c : d", "(_?_:_ a (_||_ b c) d)"),
    ]);
}

#[test]
fn members_and_literals_of_several_parts_are_parsed() {
    assert_parsed(&[
        ("a.b.c", "(select (select a b) c)"),
        ("a.as.in_", "(select (select a as) in_)"),
        (".a.b", "(select .a b)"),
        ("a.?b", "(_?._ a \"b\")"),
        ("a.?b.c", "(select (_?._ a \"b\") c)"),
        ("a[0]", "(_[_] a 0)"),
        ("a[?0]", "(_[?_] a 0)"),
        ("a['b'].c[1]", "(_[_] (select (_[_] a \"b\") c) 1)"),
        ("f()", "(f)"),
        (".f(1)", "(.f 1)"),
        ("f(1, a)", "(f 1 a)"),
        ("a.f()", "(a.f)"),
        ("a.if(1, 2)", "(a.if 1 2)"),
        ("'a'.size()", "(\"a\".size)"),
        ("[]", "[]"),
        ("[,]", "[]"),
        ("[1, ?a, 2,]", "[1 ?a 2]"),
        ("{}", "{}"),
        ("{,}", "{}"),
        ("{'a': 1, ?b: 2,}", "{\"a\": 1 ?b: 2}"),
        ("[{1: [2]}]", "[{1: [2]}]"),
        ("M{}", "M{}"),
        (".a.b.M{c: 1, ?d: 2,}", ".a.b.M{}"),
        ("a.b{}.c", "(select a.b{} c)"),
    ]);
}

#[test]
fn macros_are_expanded() {
    const END: &str = "(@not_strictly_false @result)";
    assert_parsed(&[
        ("has(a.b)", "(has a b)"),
        ("has(a.b.c)", "(has (select a b) c)"),
        ("a.has(b.c)", "(a.has (select b c))"),
        (
            "a.all(x, x)",
            &format!("(for x in a @result=true {END} (_&&_ @result x) @result)"),
        ),
        (
            "a.exists(i, x, x)",
            "(for i,x in a @result=false (@not_strictly_false (!_ @result)) (_||_ @result x) @result)",
        ),
        (
            "a.exists_one(x, x)",
            "(for x in a @result=0 true (_?_:_ x (_+_ @result 1) @result) (_==_ @result 1))",
        ),
        (
            "a.existsOne(i, x, x)",
            "(for i,x in a @result=0 true (_?_:_ x (_+_ @result 1) @result) (_==_ @result 1))",
        ),
        ("a.existsOne(x, x)", "(a.existsOne x x)"),
        (
            "a.map(x, 1)",
            "(for x in a @result=[] true (_+_ @result [1]) @result)",
        ),
        (
            "a.map(x, b, 1)",
            "(for x in a @result=[] true (_?_:_ b (_+_ @result [1]) @result) @result)",
        ),
        (
            "a.filter(x, b)",
            "(for x in a @result=[] true (_?_:_ b (_+_ @result [x]) @result) @result)",
        ),
        (
            "a.transformList(i, x, b, 1)",
            "(for i,x in a @result=[] true (_?_:_ b (_+_ @result [1]) @result) @result)",
        ),
        (
            "a.transformMap(k, v, 1)",
            "(for k,v in a @result={} true (@insert @result k 1) @result)",
        ),
        (
            "a.transformMap(k, v, b, 1)",
            "(for k,v in a @result={} true (_?_:_ b (@insert @result k 1) @result) @result)",
        ),
        (
            "a.transformMapEntry(k, v, {v: k})",
            "(for k,v in a @result={} true (@insert_all @result {v: k}) @result)",
        ),
        (
            "a.sortBy(x, 1)",
            "(for #unused in [] @__sortBy_input__=a false @__sortBy_input__ (@__sortBy_input__.@sortByAssociatedKeys \
             (for x in @__sortBy_input__ @result=[] true (_+_ @result [1]) @result)))",
        ),
        (
            "a.optMap(x, 1)",
            "(_?_:_ (a.hasValue) (optional.of (for #unused in [] x=(a.value) false x 1)) (optional.none))",
        ),
        (
            "a.b.optFlatMap(x, 1)",
            "(for #unused in [] @target=(select a b) false @target (_?_:_ (@target.hasValue) \
             (for #unused in [] x=(@target.value) false x 1) (optional.none)))",
        ),
        ("all(a, b)", "(all a b)"),
        ("a.all(x)", "(a.all x)"),
    ]);
}

#[test]
fn malformed_expressions_are_refused_with_their_place() {
    const OPERAND: &str = "'-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    let missing = |place: &str, found: &str| {
        format!("{place}: Syntax error: {found} expecting {{'[', '{{', '(', '.', {OPERAND}")
    };
    let eof = "mismatched input '<EOF>'";
    let after = |place: &str, found: &str, [end, bracket, colon]: [&str; 3]| {
        let relations = "'==', '!=', 'in', '<', '<=', '>=', '>', '&&', '||', '['";
        let set = format!("{end}{relations}{bracket}, '.', '-', '?'{colon}, '+', '*', '/', '%'");
        format!("{place}: Syntax error: mismatched input '{found}' expecting {{{set}}}")
    };
    assert_parsed(&[
        ("", &missing("1:1", eof)),
        ("1 +", &missing("1:4", eof)),
        ("\n 1 +\n", &missing("3:1", eof)),
        ("(", &missing("1:2", eof)),
        ("'é' + ", &missing("1:7", eof)),
        ("1 + * 2", &missing("1:5", "extraneous input '*'")),
        ("!", &missing("1:2", eof)),
        ("-!a", &missing("1:2", "extraneous input '!'")),
        ("f(1,)", &missing("1:5", "mismatched input ')'")),
        ("in", &missing("1:1", "mismatched input 'in'")),
        ("a ? b", &after("1:6", "<EOF>", ["", "", ", ':'"])),
        (
            "a.",
            "1:3: Syntax error: mismatched input '<EOF>' expecting {'?', IDENTIFIER, ESC_IDENTIFIER}",
        ),
        (
            "a.1",
            "1:2: Syntax error: extraneous input '.1' expecting <EOF>",
        ),
        (
            "a b",
            "1:3: Syntax error: extraneous input 'b' expecting <EOF>",
        ),
        ("a b c", &after("1:3", "b", ["<EOF>, ", "", ""])),
        (
            "1e",
            "1:2: Syntax error: extraneous input 'e' expecting <EOF>",
        ),
        (
            "0xg",
            "1:2: Syntax error: extraneous input 'xg' expecting <EOF>",
        ),
        ("a[1", &after("1:4", "<EOF>", ["", ", ']'", ""])),
        (
            "[1 2]",
            "1:4: Syntax error: extraneous input '2' expecting {']', ','}",
        ),
        (
            "[,,]",
            "1:3: Syntax error: extraneous input ',' expecting ']'",
        ),
        ("{1}", &after("1:3", "}", ["", "", ", ':'"])),
        (
            "f(1 2)",
            "1:5: Syntax error: extraneous input '2' expecting {')', ','}",
        ),
        (
            "a & b",
            "1:3: Syntax error: token recognition error at: '&'; 1:5: Syntax error: extraneous input 'b' expecting <EOF>",
        ),
        ("#1", "1:1: Syntax error: token recognition error at: '#'"),
        (
            "é",
            &format!(
                "1:1: Syntax error: token recognition error at: 'é'; {}",
                missing("1:2", eof)
            ),
        ),
        (
            "'a",
            &format!(
                "1:1: Syntax error: token recognition error at: ''a'; {}",
                missing("1:3", eof)
            ),
        ),
        (
            r"'\z'",
            &format!(
                r"1:1: Syntax error: token recognition error at: ''\z'; 1:4: Syntax error: token recognition error at: '''; {}",
                missing("1:5", eof)
            ),
        ),
    ]);
}

#[test]
fn names_literals_and_macros_that_do_not_exist_are_refused_with_their_place() {
    assert_parsed(&[
        ("as", "1:1: reserved identifier: as"),
        (
            ".while + if(1)",
            "1:2: reserved identifier: .while; 1:10: reserved identifier: if",
        ),
        ("9223372036854775808", "1:1: invalid int literal"),
        ("18446744073709551616u", "1:1: invalid uint literal"),
        ("1e999", "1:1: invalid double literal"),
        (r"'\ud800'", "1:1: invalid unicode code point"),
        (r"b'\u0041'", "1:1: unable to unescape string"),
        ("a.`b-c`", "1:2: unsupported syntax: '`'"),
        ("M{`b`: 1}", "1:3: unsupported syntax: '`'"),
        ("has(a)", "1:5: invalid argument to has() macro"),
        ("a.all(b.c, true)", "1:8: argument must be a simple name"),
        ("a.all(b, b, true)", "1:10: duplicate variable name: b"),
        (
            "a.map(__result__, 1)",
            "1:7: iteration variable overwrites accumulator variable",
        ),
        (
            "'a'.sortBy(x, x)",
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
    ]);
}

#[test]
fn faults_show_their_line() {
    assert_eq!(
        parse("a ==\n  as").map(|_| ()),
        Err("ERROR: <input>:2:3: reserved identifier: as\n |   as\n | ..^".to_owned())
    );
}

#[test]
fn parts_have_the_places_of_their_tokens() {
    for (source, place) in [
        ("a + b", 2),
        ("a.b", 1),
        ("a.b(c)", 3),
        ("f(c)", 1),
        ("  a", 2),
        (".a", 1),
        ("-1", 1),
        ("-a", 0),
        ("a ? b : c", 2),
        ("a[1]", 1),
        ("[a]", 0),
        ("M{}", 1),
        ("a.map(x, x)", 5),
        ("(a)", 1),
        ("'é' + 'b'", 5),
    ] {
        let Parsed { expr, places } = parse(source).unwrap();
        assert_eq!(places.of(expr.id), place, "{source}");
    }
}

#[test]
fn nesting_is_limited_to_what_a_small_stack_can_hold() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}a{}", open.repeat(depth), close.repeat(depth))
    };
    let ways = [
        ("(", ")"),
        ("[", "]"),
        ("f(", ")"),
        ("a.f(", ")"),
        ("a[", "]"),
        ("!(", ")"),
        ("{1: ", "}"),
        ("M{a: ", "}"),
        ("a.map(x, ", ")"),
        ("a ? a : ", ""),
        ("-(a == 1 + 2 * ", ")"),
    ];
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let running = thread.spawn(move || {
        for (open, close) in ways {
            assert!(parse(&nested(open, close, 95)).is_ok(), "{open}");
            let refused = parse(&nested(open, close, 96)).map(drop).unwrap_err();
            let expected = "expression recursion limit exceeded: 96";
            assert!(refused.contains(expected), "{open}: {refused}");
        }
    });
    running.unwrap().join().unwrap();
}

/// An expression and its tree.
fn expressions() -> impl Strategy<Value = (String, String)> {
    let leaf = prop_oneof![
        Just(("a".to_owned(), "a".to_owned())),
        any::<i64>().prop_map(|value| (value.to_string(), value.to_string())),
        any::<u64>().prop_map(|value| (format!("{value}u"), format!("{value}u"))),
        "[a-z]{0,5}".prop_map(|text| (format!("'{text}'"), format!("{text:?}"))),
        Just(("true".to_owned(), "true".to_owned())),
    ];
    leaf.prop_recursive(6, 64, 4, |inner| {
        let operators = prop::sample::select(vec!["+", "-", "*", "/", "%", "<", "==", "&&", "||"]);
        prop_oneof![
            (inner.clone(), operators, inner.clone()).prop_map(|(left, operator, right)| (
                format!("({}){operator}({})", left.0, right.0),
                format!("(_{operator}_ {} {})", left.1, right.1),
            )),
            inner
                .clone()
                .prop_map(|of| (format!("!({})", of.0), format!("(!_ {})", of.1))),
            inner
                .clone()
                .prop_map(|of| (format!("({}).b", of.0), format!("(select {} b)", of.1))),
            (inner.clone(), inner.clone()).prop_map(|(of, at)| (
                format!("({})[{}]", of.0, at.0),
                format!("(_[_] {} {})", of.1, at.1),
            )),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| {
                let (sources, trees): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                (
                    format!("[{}]", sources.join(", ")),
                    format!("[{}]", trees.join(" ")),
                )
            }),
            (inner.clone(), inner.clone(), inner).prop_map(|(of, yes, no)| (
                format!("({}) ? ({}) : ({})", of.0, yes.0, no.0),
                format!("(_?_:_ {} {} {})", of.1, yes.1, no.1),
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(source in "\\PC{0,200}|[ -~\\n]{0,200}") {
        let _ = parse(&source);
    }

    #[test]
    fn any_order_of_tokens_is_parsed_or_refused(tokens in prop::collection::vec(
        prop::sample::select(vec![
            "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "-", "!", "+", "*", "==", "in", "&&", "||", "a", "map", "has",
            "as", "1", "1u", ".5", "'a'", "b'", "\"\"\"", "\\x", "`a`", "true", "null", "//", "\n", " ", "é",
        ]),
        0..60,
    )) {
        let source = tokens.concat();
        if let Ok(Parsed { expr, places }) = parse(&source) {
            assert!(places.of(expr.id) as usize <= source.len());
        }
    }

    #[test]
    fn an_expression_has_the_tree_that_it_was_written_from((source, tree) in expressions()) {
        prop_assume!(admit(&source).is_ok());
        prop_assert_eq!(parse_line(&source), tree);
    }
}
