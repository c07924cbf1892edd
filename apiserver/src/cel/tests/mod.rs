//! Tests of [`super`].

use serde_json::{Value, json};

mod attacks;
mod kubernetes;

use super::{
    Activation, Budget, Decl, MAX_OBJECT_COST, Program, Val, error::EvalError, escape,
    program::CompileError,
};

/// The value of an expression without variables: as text, as the error otherwise.
fn print_value(source: &str) -> String {
    shown_of(source, &json!({}))
}

fn shown_of(source: &str, object: &Value) -> String {
    let program = match Program::compile(source, &[("self", Decl::Dyn)]) {
        Ok(program) => program,
        Err(CompileError::Compilation(why)) => {
            return why.lines().next().unwrap_or_default().to_owned();
        }
        Err(why) => return why.of_rule(),
    };
    let mut activation = Activation::default();
    activation.set("self", Val::read(object, &Decl::Dyn));
    match program.evaluate(&activation, &mut Budget::new(MAX_OBJECT_COST)) {
        Ok(Val::Bool(value)) => value.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn all_true(sources: &[&str]) {
    for source in sources {
        assert_eq!(print_value(source), "true", "{source}");
    }
}

#[test]
fn the_language() {
    all_true(&[
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1 && 1u + 2u == 3u && 1.5 * 2.0 == 3.0",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
        "1 < 2 && 'a' < 'b' && 1 < 1.5 && 2u > 1 && [1, 2] == [1, 2] && {'a': 1} == {'a': 1}",
        "2 in [1, 2] && 'a' in {'a': 1} && !('b' in {'a': 1})",
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "[1, 2, 3].all(x, x > 0) && [1, 2, 3].exists(x, x == 2) && [1, 2, 3].exists_one(x, x == 2)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].filter(x, x > 1) == [2, 3]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[[1, 2], [3]].all(xs, xs.exists(x, x > 1))",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "[0, 1].exists(x, 1 / x == 1)",
        "type(1) == int && type('a') == string && type([]) == list && type(1.0) == double",
        "int('12') == 12 && string(12) == '12' && double('1.5') == 1.5 && uint(3) == 3u && bool('true')",
        "size('äöü') == 3 && [1, 2].size() == 2 && size({'a': 1}) == 1 && size(b'abc') == 3",
        "[5, 6].all(i, v, v == i + 5) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[5, 6].transformList(i, v, i + v) == [5, 7] && {'a': 1, 'b': 2}.transformList(k, v, v > 1, k) == ['b']",
        "{'a': 1, 'b': 2}.transformMap(k, v, v * 2) == {'a': 2, 'b': 4}",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
        "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
        "[1, 1].existsOne(i, v, i == 1)",
        "(true ? 'a' : 'b') == 'a'",
        "optional.of(1).hasValue() && !optional.none().hasValue() && optional.none().orValue(3) == 3",
        "{'a': {'b': 1}}.?a.?b.orValue(0) == 1 && {'a': {}}.?a.?b.orValue(0) == 0 && [1][?3].orValue(9) == 9",
        "optional.of(2).optMap(x, x * 2).value() == 4 && optional.ofNonZeroValue('').or(optional.of('z')).value() == 'z'",
        "[1, ?optional.none(), 2] == [1, 2] && {?'a': optional.of(1)} == {'a': 1}",
        "{'a': null}.a == null",
        "timestamp('2024-01-31T10:20:30Z').getMonth() == 0 && timestamp('2024-01-31T10:20:30Z').getDate() == 31",
        "timestamp('2024-01-31T10:20:30Z') + duration('1h') == timestamp('2024-01-31T11:20:30Z')",
        "timestamp('2024-01-31T23:20:30Z').getHours('+02:00') == 1 && timestamp('2024-01-31T10:20:30Z').getDayOfWeek() == 3",
        "duration('1h30m').getMinutes() == 90 && duration('90s') == duration('1m30s') && string(duration('1.5s')) == '1.5s'",
    ]);
}

#[test]
fn the_libraries() {
    all_true(&[
        "'hello'.charAt(1) == 'e' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == 3",
        "'HeLLo'.lowerAscii() == 'hello' && 'a'.upperAscii() == 'A' && '  a '.trim() == 'a'",
        "'a-b-c'.replace('-', '_') == 'a_b_c' && 'a-b-c'.replace('-', '_', 1) == 'a_b-c'",
        "'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b' && ['a'].join() == 'a'",
        "'hello'.substring(1) == 'ello' && 'hello'.substring(1, 3) == 'el' && 'tacocat'.substring(7) == ''",
        "'%s has %d of %.2f%% %x'.format(['a', 3, 1.5, 255]) == 'a has 3 of 1.50% ff' && '%s'.format([[1, 2]]) == '[1, 2]'",
        "'%b %o %X %e'.format([5, 8, 255, 1.5]) == '101 10 FF 1.500000\\u202f×\\u202f10⁰⁰'",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.matches('^a.c$') && matches('abc', 'b')",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']",
        "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5",
        "[3, 1].min() == 1 && [3, 1].max() == 3 && [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])",
        "quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('50k').add(20).asInteger() == 50020 && isQuantity('1Mi') && !isQuantity('x')",
        "quantity('100m').asApproximateFloat() == 0.1 && sign(quantity('1').sub(quantity('2'))) == -1 && quantity('1').compareTo(quantity('1000m')) == 0",
        "url('https://a.example:8443/p/q?x=1&x=2').getHost() == 'a.example:8443' && url('https://a.example:8443/p/q').getEscapedPath() == '/p/q'",
        "url('https://a.example/?x=1&x=2').getQuery() == {'x': ['1', '2']} && isURL('https://a') && !isURL('::') && url('/p').getHost() == ''",
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && isIP('1.2.3.4') && !isIP('1.2.3') && ip.isCanonical('::1') && !ip.isCanonical('0:0::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1')) && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('::/0') && string(cidr('::1/128').ip()) == '::1'",
        "!format.dns1123Label().validate('ok').hasValue() && format.dns1123Label().validate('Not').hasValue() && format.named('uuid').hasValue()",
        "!format.uuid().validate('6ba7b810-9dad-11d1-80b4-00c04fd430c8').hasValue() && !format.named('nothing').hasValue()",
    ]);
}

#[test]
fn what_goes_wrong_is_told_as_cel_go_does() {
    let cases = [
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("[1][3] == 1", "index out of bounds: 3"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("self.missing == 1", "no such key: missing"),
        ("dyn(1) + dyn('a') == 1", "no such overload"),
        ("dyn('a').getHours() == 1", "no such overload"),
        (
            "optional.none().value() == 1",
            "optional.none() dereference",
        ),
        (
            "sign(quantity('x')) == 1",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("'a'.substring(5) == ''", "index out of range: 5"),
        ("[].min() == 1", "min called on empty list"),
        // where it is written
        (
            "foo == 1",
            "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')",
        ),
        (
            "nothing(1)",
            "ERROR: <input>:1:8: undeclared reference to 'nothing' (in container '')",
        ),
        (
            "1 + 'a' == 1",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        (
            "'a'.charAt('b') == ''",
            "ERROR: <input>:1:11: found no matching overload for 'charAt' applied to 'string.(string)'",
        ),
        (
            "[1, 'a'].size() == 2",
            "ERROR: <input>:1:5: expected type 'int' but found 'string'",
        ),
        (
            "'a'.matches('(')",
            "ERROR: <input>:1:13: invalid matches argument",
        ),
        (
            "(1).all(x, true)",
            "ERROR: <input>:1:2: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "true ? 1 : 'a'",
            "ERROR: <input>:1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        (
            "self.x.y.z.matches(1)",
            "ERROR: <input>:1:19: found no matching overload for 'matches' applied to 'dyn.(int)'",
        ),
        (
            "google.protobuf.Int33Value{value: 1} == 1",
            "ERROR: <input>:1:27: undeclared reference to 'google.protobuf.Int33Value' (in container '')",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(print_value(source), expected, "{source}");
    }
    for source in ["1 +", "self.", "(", "'a", "has(1)", "[1].all(1, true)"] {
        assert!(
            print_value(source).starts_with("ERROR: <input>:"),
            "{source}: {}",
            print_value(source)
        );
    }
}

#[test]
fn every_function_that_is_declared_is_there() {
    let value = |decl: &str| match decl {
        "bool" => "true",
        "int" => "1",
        "uint" => "1u",
        "double" => "1.0",
        "string" => "'1'",
        "bytes" => "b'1'",
        "timestamp" => "timestamp('2024-01-01T00:00:00Z')",
        "duration" => "duration('1s')",
        "null" => "null",
        "dyn" | "T" | "V" => "1",
        "list(dyn)" | "list(T)" => "[1]",
        "list(string)" => "['1']",
        "list(list(T))" => "[[1]]",
        "map(T,V)" => "{1: 1}",
        "optional(T)" => "optional.of(1)",
        "optional(list(T))" => "optional.of([1])",
        "optional(map(T,V))" => "optional.of({1: 1})",
        "quantity" => "quantity('1')",
        "semver" => "semver('1.2.3')",
        "list(int)" => "[1]",
        "list(uint)" => "[1u]",
        "list(double)" => "[1.0]",
        "list(bool)" => "[true]",
        "list(bytes)" => "[b'1']",
        "list(duration)" => "[duration('1s')]",
        "list(timestamp)" => "[timestamp('2024-01-01T00:00:00Z')]",
        "list(optional(T))" => "[optional.of(1)]",
        "url" => "url('https://a')",
        "ip" => "ip('::1')",
        "cidr" => "cidr('::/0')",
        "format" => "format.uuid()",
        _ => "",
    };
    let mut called = 0;
    for line in include_str!("../functions.txt").lines() {
        let (target, rest) = line
            .split_once("->")
            .map_or((None, line), |(target, rest)| (Some(target), rest));
        let (name, rest) = rest.split_once('(').unwrap();
        let (args, _) = rest.rsplit_once(") ").unwrap();
        // operators and messages are written otherwise, questions about access need somebody who answers, and those of patches are
        // for policies only
        let is_call = !name.contains(['_', '@'])
            && !["google.protobuf.", "jsonpatch."]
                .iter()
                .any(|part| name.starts_with(part));
        if !is_call || target.is_some_and(|target| value(target).is_empty()) {
            continue;
        }
        let mut depth = 0;
        let args = args.split(|char| {
            depth += i32::from(char == '(') - i32::from(char == ')');
            char == ',' && depth == 0
        });
        let args: Vec<_> = args.filter(|arg| !arg.is_empty()).map(value).collect();
        let call = format!("{name}({})", args.join(", "));
        let source = target.map_or(call.clone(), |target| format!("{}.{call}", value(target)));
        let found = print_value(&source);
        // its types fit, whatever its constants are
        let is_refused = found.starts_with("ERROR") && !found.contains(" argument");
        assert!(
            !found.contains("no such overload") && !is_refused,
            "{line}: {source}: {found}"
        );
        called += 1;
    }
    assert!(called > 150, "{called}");
}

#[test]
fn what_costs_too_much_ends() {
    let object = json!({"list": (0..2000).collect::<Vec<_>>(), "text": "a".repeat(100_000)});
    let sources = [
        "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))",
        "self.list.all(a, self.list.exists(b, b < 0) || true) && false || self.list.all(a, self.list.all(b, true))",
        "self.list.map(a, self.list.map(b, a + b)).size() > 0",
        "self.list.all(a, self.text.contains('b') || true)",
        "self.list.all(a, self.text.matches('a*b') || true)",
        "self.list.all(a, self.text == self.text + 'a' || true)",
        "['a'].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x)\
         .map(x, x.replace('', self.text)).map(x, x.replace('', self.text)).size() > 0",
        "self.list.all(a, self.list == self.list)",
        "self.list.all(a, a in self.list)",
        "self.list.all(a, self.list.sum() > a || true)",
    ];
    for source in sources {
        let program = Program::compile(source, &[("self", Decl::Dyn)]).unwrap();
        let mut activation = Activation::default();
        activation.set("self", Val::read(&object, &Decl::Dyn));
        let start = clock::Instant::now();
        let found = program.evaluate(&activation, &mut Budget::new(MAX_OBJECT_COST));
        assert!(
            matches!(found, Err(EvalError::Cost | EvalError::Timeout)),
            "{source}: {found:?}"
        );
        assert!(
            start.elapsed().as_secs() < 10,
            "{source}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn what_is_written_to_break_the_parser_is_refused() {
    let hostile = [
        "(".repeat(5000) + "1" + &")".repeat(5000),
        "-".repeat(9000) + "1",
        "1".to_owned() + &" + 1".repeat(3000),
        "!".repeat(9000) + "true",
        "[".repeat(4000) + &"]".repeat(4000),
        "a".to_owned() + &".b".repeat(7000),
        "a".to_owned() + &"[0]".repeat(4000),
        "true".to_owned() + &" ? true : true".repeat(1000),
        "true".to_owned() + &" || true".repeat(2000) + " + 1",
        "x".repeat(20_000),
        "'".to_owned() + &"é".repeat(5000),
        "{".repeat(3000),
        "[dyn(true)].all(a, a".to_owned() + &" == a".repeat(3000) + ")",
        "[dyn(true)].all(a, a".to_owned() + &" in a".repeat(3000) + ")",
    ];
    for source in hostile {
        assert!(Program::compile(&source, &[]).is_err(), "{}", &source[..20]);
    }
    // as deep as it may be: read or refused, on a thread that has room for it
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        open.repeat(depth) + inner + &close.repeat(depth)
    };
    for source in [
        nested("(", "true", ")", 30),
        nested("(", "true", ")", 600),
        nested("[", "", "]", 600),
        nested("{'a': ", "1", "}", 600),
        nested("!(", "true", ")", 300),
        nested("[1].all(a, ", "true", ")", 190),
        nested("[1].map(a, ", "1", ")", 190),
        nested("[[b, b]].map(a, ", "a", ")[0]", 190),
        nested("true ? (", "1", ") : 2", 290),
        "[dyn(true)].all(a, a".to_owned() + &" == a".repeat(590) + ")",
        "[dyn(true)].all(a, a".to_owned() + &"<a".repeat(1190) + ")",
        "[dyn(true)].all(a, a".to_owned() + &" in a".repeat(1190) + ")",
    ] {
        let start = clock::Instant::now();
        let _ = Program::compile(&source, &[]);
        assert!(
            start.elapsed().as_secs() < 10,
            "{}: {:?}",
            &source[..20],
            start.elapsed()
        );
    }
    assert!(Program::compile(&nested("(", "true", ")", 50), &[]).is_ok());
    // what is long and flat is nothing bad
    let flat = vec!["true"; 500].join(" && ");
    assert!(Program::compile(&flat, &[]).is_ok());
}

#[test]
fn names_are_escaped_as_kubernetes_does() {
    let cases = [
        ("replicas", Some("replicas")),
        ("a-b", Some("a__dash__b")),
        ("a.b/c", Some("a__dot__b__slash__c")),
        ("a__b", Some("a__underscores__b")),
        ("namespace", Some("__namespace__")),
        ("in", Some("__in__")),
        ("int", Some("int")),
        ("1a", None),
        ("a b", None),
        ("", None),
    ];
    for (name, expected) in cases {
        assert_eq!(escape(name).as_deref(), expected, "{name}");
    }
}
