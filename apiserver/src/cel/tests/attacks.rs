//! Values, types and chains of variables that are written so that nobody comes to their end: each is refused, and soon.

use std::{sync::Arc, thread, time::Duration};

use clock::Instant;

use super::*;

/// How long one may take without optimisation: no walk is longer than what can be paid.
const SOON: Duration = Duration::from_secs(5);

/// A list of few parts, all of them shared, with 2^40 leaves.
fn bomb() -> String {
    format!("[1]{}", ".map(a, [a, a])".repeat(40))
}

/// The value of an expression, with `self` of this type.
fn evaluate(source: &str, object: &Value, decl: &Decl, total: u64) -> Result<String, EvalError> {
    let program = Program::compile(source, &[("self", decl.clone())]).unwrap();
    let mut activation = Activation::default();
    activation.set("self", Val::read(object, decl));
    let start = Instant::now();
    let found = program
        .evaluate(&activation, &mut Budget::new(total))
        .map(|value| format!("{value:?}"));
    assert!(start.elapsed() < SOON, "{source}: {:?}", start.elapsed());
    found
}

#[track_caller]
fn assert_refused(source: &str, object: &Value, decl: &Decl) {
    let found = evaluate(source, object, decl, MAX_OBJECT_COST);
    assert_eq!(found, Err(EvalError::Cost), "{source}");
}

#[test]
fn a_value_whose_parts_are_shared_is_paid_for_before_it_is_walked() {
    let walks = [
        "x == x",
        "x != x",
        "x[0] == x[0]",
        "{'k': x} == {'k': x}",
        "optional.of(x) == optional.of(x)",
        "[x] == [x]",
        "x in [x]",
        "x[0] in x",
        "[x].indexOf(x) == 0",
        "[x].lastIndexOf(x) == 0",
        "[dyn(x), dyn(x)].isSorted()",
        "[dyn(x)].sum() == 1",
        "[dyn(x), dyn(x)].min() == 1",
        "[dyn(x), dyn(x)].max() == 1",
        "sets.contains([x], [x])",
        "sets.equivalent([x], [x])",
        "sets.intersects([x], [x])",
        "'%s'.format([x]) == ''",
        "'%s'.format([{'k': x}]) == ''",
        "'%d'.format(dyn([x])) == ''",
        "x.all(y, y == y)",
        "x.exists_one(y, y == y)",
        "x.filter(y, y == y).size() > 0",
        "[x].transformList(i, y, y == y).size() > 0",
        "{'k': x}.transformMap(i, y, y == y).size() > 0",
    ];
    for walk in walks {
        let source = format!("[{}].map(x, {walk})[0]", bomb());
        assert_refused(&source, &json!({}), &Decl::Dyn);
    }
    // made in other ways
    let maps = format!("[1]{}", ".map(a, {'l': a, 'r': a})".repeat(40));
    let optionals = format!(
        "[1]{}",
        ".map(a, [optional.of(a), optional.of(a)])".repeat(30)
    );
    let transformed = format!("[1]{}", ".transformList(i, a, [a, a])".repeat(40));
    let bound = (0..40).fold("x".to_owned(), |inner, _| {
        format!("[[x, x]].map(x, {inner})[0]")
    });
    let bound = format!("[[1]].map(x, {bound})[0]");
    let given = format!("[[1]]{}", ".map(a, a + a).map(a, [a, a])".repeat(16));
    for made in [maps, optionals, transformed, bound, given] {
        assert_refused(
            &format!("[{made}].map(x, x == x)[0]"),
            &json!({}),
            &Decl::Dyn,
        );
        assert_refused(
            &format!("[{made}].map(x, '%s'.format([x]) == '')[0]"),
            &json!({}),
            &Decl::Dyn,
        );
    }
    // what does not walk is cheap
    for free in [
        "x.size() == 1",
        "[x, x].size() == 2",
        "x[0].size() == 2",
        "type(x) == list",
        "dyn(x) != [1, 2]",
    ] {
        let found = evaluate(
            &format!("[{}].map(x, {free})[0]", bomb()),
            &json!({}),
            &Decl::Dyn,
            2000,
        );
        assert_eq!(found, Ok("Bool(true)".to_owned()), "{free}");
    }
}

#[test]
fn what_is_long_is_paid_for_as_often_as_it_is_read() {
    let decl = Decl::object([
        ("numbers", Decl::list(Decl::Int)),
        ("list", Decl::list(Decl::Dyn)),
        ("blob", Decl::Bytes),
        ("blobs", Decl::list(Decl::Bytes)),
        ("text", Decl::String),
        ("url", Decl::String),
        ("long", Decl::map(Decl::String, Decl::Int)),
    ]);
    let object = json!({
        "numbers": (0..1000).collect::<Vec<_>>(),
        "list": vec![json!({}); 20_000],
        "blob": "QUJD".repeat(25_000),
        "blobs": ["QUJD".repeat(25_000)],
        "text": "a".repeat(100_000),
        "url": format!("https://a.example/{}?{}", "p".repeat(40_000), "a=b&".repeat(1000)),
        "long": {"k".repeat(100_000): 1},
    });
    for source in [
        "self.numbers.all(x, self.blob != b'')",
        "self.numbers.all(x, self.?blob.hasValue())",
        "self.numbers.all(x, self.blobs.all(y, true))",
        "self.numbers.all(x, self.blobs[0] != b'')",
        "self.numbers.all(x, self.list == self.list)",
        "self.numbers.all(x, self.list.indexOf({'a': 1}) < 0)",
        "self.numbers.all(x, self.long == self.long)",
        "[url(self.url)].all(u, self.numbers.all(x, u.getPort() == ''))",
        "[url(self.url)].all(u, self.numbers.all(x, u.getQuery().size() == 1))",
        "[url(self.url)].all(u, self.numbers.all(x, [u] == [u]))",
        "sets.contains(self.numbers, self.numbers) && sets.contains(self.numbers.map(x, self.text + string(x)), ['b'])",
        "self.numbers.all(x, self.text.split('').size() > 0)",
        "self.numbers.all(x, sets.intersects([self.text], [self.text]))",
    ] {
        assert_refused(source, &object, &decl);
    }
    // a search for the next place may go to the end of the text each time
    let object = json!({"text": "a".repeat(20_000)});
    let found = evaluate(
        "self.text.findAll('[^b]*b|[^b]').size() > 0",
        &object,
        &decl,
        20_000,
    );
    assert_eq!(found, Err(EvalError::Cost));
    // whether there is something is known without reading it
    let object = json!({"numbers": (0..1000).collect::<Vec<_>>(), "blob": "QUJD".repeat(25_000)});
    let found = evaluate(
        "self.numbers.all(x, has(self.blob))",
        &object,
        &decl,
        MAX_OBJECT_COST,
    );
    assert_eq!(found, Ok("Bool(true)".to_owned()));
}

#[test]
fn an_object_is_walked_as_far_as_it_has_fields_however_many_it_could_have() {
    let fields = (0..5000).map(|index| (format!("f-{index}"), Decl::Int));
    let decl = Decl::list(Decl::object(fields));
    let object = json!([{"f-1": 1, "f-2": 2, "unknown": 3}, {"f-2": 2, "f-1": 1}]);
    let source = "self[0] == self[1] && dyn(self[0]).all(k, v, k in ['f__dash__1', 'f__dash__2'] && v in [1, 2])";
    assert_eq!(
        evaluate(source, &object, &decl, MAX_OBJECT_COST),
        Ok("Bool(true)".to_owned())
    );
    let object = Value::from(vec![json!({}); 100_000]);
    assert_eq!(
        evaluate("self == self", &object, &decl, MAX_OBJECT_COST),
        Ok("Bool(true)".to_owned())
    );
}

/// Runs `work` on a thread with the stack that those have which evaluate.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
}

/// The value of the last of these variables, each of which sees those before.
fn evaluate_composed(sources: &[String]) -> Result<String, EvalError> {
    let names: Vec<_> = (0..sources.len())
        .map(|index| format!("v{index}"))
        .collect();
    let mut fields = Vec::new();
    let mut programs = Vec::new();
    for (name, source) in names.iter().zip(sources) {
        let program =
            Program::compile(source, &[("variables", Decl::native(fields.clone()))]).unwrap();
        fields.push((name.clone(), program.decl().clone()));
        programs.push(program);
    }
    let mut activation = Activation::default();
    for (name, program) in names.iter().zip(&programs) {
        activation.compose(name, program);
    }
    let mut budget = Budget::new(MAX_OBJECT_COST);
    let mut found = Ok(String::new());
    for program in &programs {
        found = program
            .evaluate(&activation, &mut budget)
            .map(|value| value.type_name().to_owned());
    }
    // and once more with nothing known, from the last one
    let mut activation = Activation::default();
    for (name, program) in names.iter().zip(&programs) {
        activation.compose(name, program);
    }
    let last = programs.last().unwrap().evaluate(&activation, &mut budget);
    found.and(last.map(|value| value.type_name().to_owned()))
}

#[test]
fn variables_that_nest_in_each_other_come_to_an_end() {
    on_a_small_stack(|| {
        let chain = |first: &str, next: &dyn Fn(usize) -> String, length: usize| {
            let rest = (1..length).map(|index| next(index - 1));
            [first.to_owned()]
                .into_iter()
                .chain(rest)
                .collect::<Vec<_>>()
        };
        // deep evaluations: every variable goes down to the one before
        let deep =
            |before: usize| format!("{}variables.v{before}{}", "!(".repeat(90), ")".repeat(90));
        assert_eq!(
            evaluate_composed(&chain("true", &deep, 100)),
            Err(EvalError::Deep)
        );
        // deep values: every variable has more levels than the one before
        let wrapped = |before: usize| {
            format!(
                "dyn({}variables.v{before}{})",
                "[".repeat(20),
                "]".repeat(20)
            )
        };
        let found = evaluate_composed(&chain("dyn(1)", &wrapped, 20));
        assert!(
            matches!(&found, Err(EvalError::Failed(why)) if why.contains("nests too deeply")),
            "{found:?}"
        );
        let optional =
            |before: usize| format!("dyn(optional.of(optional.of(variables.v{before})))");
        let found = evaluate_composed(&chain("dyn(1)", &optional, 80));
        assert!(
            matches!(&found, Err(EvalError::Failed(why)) if why.contains("nests too deeply")),
            "{found:?}"
        );
        // wide values
        let wide = |before: usize| format!("dyn([variables.v{before}, variables.v{before}])");
        let mut sources = chain("dyn(1)", &wide, 40);
        sources.push("variables.v39 == variables.v39".to_owned());
        assert_eq!(evaluate_composed(&sources), Err(EvalError::Cost));
        // and what people write
        let sum = |before: usize| format!("variables.v{before} + 1");
        assert_eq!(
            evaluate_composed(&chain("1", &sum, 40)),
            Ok("int".to_owned())
        );
    });
}

#[test]
fn a_type_whose_parts_are_shared_is_refused_where_it_is_written() {
    on_a_small_stack(|| {
        let twice = (0..60).fold("x".to_owned(), |inner, _| {
            format!("[{{x: x}}].map(x, {inner})[0]")
        });
        let lists = (0..5).fold("[1]".to_owned(), |inner, _| {
            format!("[{inner}].map(a, [a, a])")
        });
        let mut decl = Decl::Int;
        for _ in 0..200 {
            decl = Decl::list(decl);
        }
        for (source, variables, expected) in [
            (
                format!("[1].map(x, {twice})[0]"),
                vec![],
                Some("the type of the expression has too many parts"),
            ),
            (lists, vec![], None),
            (
                format!("{}self{}", "[".repeat(80), "]".repeat(80)),
                vec![("self", decl)],
                Some("the type of the expression has too many parts"),
            ),
            (
                "[variables]".to_owned(),
                vec![("variables", Decl::native([("a", Decl::Int)]))],
                Some("'variables' is no value"),
            ),
            (
                "variables.a == 1".to_owned(),
                vec![("variables", Decl::native([("a", Decl::Int)]))],
                None,
            ),
            (
                "variables.a == 1".to_owned(),
                vec![],
                Some("undeclared reference to 'variables'"),
            ),
        ] {
            let start = Instant::now();
            let found = Program::compile(&source, &variables).err();
            assert!(start.elapsed() < SOON, "{source}: {:?}", start.elapsed());
            match expected {
                Some(expected) => {
                    assert!(
                        found
                            .as_ref()
                            .is_some_and(|why| why.to_string().contains(expected)),
                        "{source}: {found:?}"
                    )
                }
                None => assert_eq!(found, None, "{source}"),
            }
        }
    });
}

#[test]
fn an_expression_as_deep_as_it_may_be_is_evaluated_on_a_small_stack() {
    on_a_small_stack(|| {
        let nested = |open: &str, inner: &str, close: &str, depth: usize| {
            open.repeat(depth) + inner + &close.repeat(depth)
        };
        let mut evaluated = 0;
        for source in [
            nested("!(", "true", ")", 90),
            nested("[1].all(a, ", "true", ")", 40),
            nested("[1].map(a, ", "1", ")", 40),
            nested("{'a': ", "1", "}", 90),
            nested("[", "1", "]", 90),
            nested("[[b]].map(a, ", "a", ")[0]", 30)
                .replacen("[b]", "[1]", 1)
                .replace("[b]", "[a]"),
            nested("true ? (", "1", ") : 2", 90),
            "[dyn(true)].all(a, a".to_owned() + &" == a".repeat(240) + ")",
        ] {
            let Ok(program) = Program::compile(&source, &[]) else {
                continue;
            };
            evaluated += 1;
            let _ = program.evaluate(&Activation::default(), &mut Budget::new(MAX_OBJECT_COST));
        }
        assert!(evaluated >= 6, "{evaluated}");
    });
}

/// Answers at once.
struct AllowAll;

impl crate::cel::Authorize for AllowAll {
    fn authorize(&self, _: &crate::cel::AuthorizationAttributes) -> Result<Option<String>, String> {
        Ok(None)
    }
}

#[test]
fn a_long_question_about_access_is_paid_for_with_every_step() {
    let source = "[authorizer.group(self.text)].all(g, self.list.all(x, g.resource('a') == g.resource('b') || true))";
    let variables = [
        ("self", Decl::Dyn),
        ("authorizer", Decl::Opaque("authorizer")),
    ];
    let program = Program::compile(source, &variables).unwrap();
    let object = json!({"text": "a".repeat(100_000), "list": (0..1000).collect::<Vec<_>>()});
    let mut activation = Activation::default();
    activation.set("self", Val::read(&object, &Decl::Dyn));
    activation.set(
        "authorizer",
        Val::Check(Arc::new(crate::cel::Check::authorizer(Arc::new(AllowAll)))),
    );
    let found = program
        .evaluate(&activation, &mut Budget::new(MAX_OBJECT_COST))
        .map(|value| format!("{value:?}"));
    assert_eq!(found, Err(EvalError::Cost));
}

#[test]
fn an_expression_as_deep_as_it_may_be_is_compiled_on_half_of_a_small_stack() {
    let nested = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(95), close.repeat(95))
    };
    let chain = |first: &str, next: &str, count: usize| format!("{first}{}", next.repeat(count));
    let sources = [
        nested("(", "true", ")"),
        nested("[1].all(a, ", "true", ")"),
        nested("[1].map(a, ", "1", ")"),
        nested("[[b, b]].map(a, ", "a", ")[0]"),
        nested("true ? (", "1", ") : 2"),
        nested("[1, 2][", "1", "]"),
        nested("-(a == 1 + 2 * ", "a", ")"),
        format!("[dyn(true)].all(a, {})", chain("a", " == a", 590)),
        format!("[dyn(true)].all(a, {})", chain("a", "<a", 1190)),
        format!("[dyn(true)].all(a, {})", chain("a", " in a", 1190)),
        chain("a", ".b", 599),
        chain("a", ".f(1)", 298),
        chain("a", "[1]", 598),
        chain("a", ".map(a, 1)", 298),
        chain("[1]", ".sortBy(a, a)", 120),
        chain("[1]", ".filter(a, a==a)", 120),
    ];
    let compile = move || {
        for source in sources {
            // its result is no matter: it returns
            let _ = Program::compile(&source, &[("a", Decl::Dyn)]);
        }
    };
    let thread = thread::Builder::new().stack_size(1 << 20);
    thread.spawn(compile).unwrap().join().unwrap();
}
