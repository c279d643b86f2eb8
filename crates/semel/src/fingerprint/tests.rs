//! The promises of the whole room, and the goldens that freeze it.

mod golden;
mod random;

use std::borrow::Cow;

use super::*;

const KEY: &[u8] = b"0123456789abcdef";

fn post(body: CommandBody<'_>) -> Command<'_> {
    Command::new("POST", "/payments").body(body)
}

fn json(text: &str) -> Command<'_> {
    post(CommandBody::Json(text.as_bytes()))
}

fn form<'a>(pairs: &[(&'a str, &'a str)]) -> Command<'a> {
    let bytes = |text: &'a str| Cow::Borrowed(text.as_bytes());
    post(CommandBody::Form(pairs.iter().map(|(name, value)| (bytes(name), bytes(value))).collect()))
}

fn part<'a>(name: &'a str, content: &'a [u8]) -> Part<'a> {
    Part::new(Content::Bytes(content)).name(name)
}

#[track_caller]
fn same(plan: &Plan, one: &Command<'_>, other: &Command<'_>) {
    assert_eq!(plan.digest(one), plan.digest(other), "{one:?} and {other:?}");
}

#[track_caller]
fn differ(plan: &Plan, one: &Command<'_>, other: &Command<'_>) {
    let (one_made, other_made) = (plan.digest(one).unwrap(), plan.digest(other).unwrap());
    assert_ne!(one_made, other_made, "{one:?} and {other:?}");
}

#[test]
fn no_two_of_these_commands_are_the_same() {
    let new = Command::new;
    let raw = |media_type, bytes| post(CommandBody::Raw { media_type, bytes });
    let commands = [
        new("POST", "/a"),
        new("PUT", "/a"),
        new("post", "/a"),
        new("POST", "/a/"),
        new("POST", "/A"),
        new("POST", "/%61"),
        new("POST", "/a%2Fb"),
        new("POST", "/a/b"),
        new("POST", "/a").query(Some("")),
        new("POST", "/a").query(Some("dry=1")),
        new("POST", "/a").query(Some("a=1&b=2")),
        new("POST", "/a").query(Some("b=2&a=1")),
        new("POST", "/a?").query(Some("")),
        new("POST/", "a"),
        post(CommandBody::Empty),
        json("{}"),
        json("[]"),
        json("{}").media_type("application/merge-patch+json"),
        form(&[]),
        form(&[("a", "1")]),
        form(&[("a", "1"), ("a", "1")]),
        form(&[("a", "1"), ("a", "2")]),
        form(&[("a", "2"), ("a", "1")]),
        form(&[("a", "12"), ("a", "")]),
        form(&[("a1", "2"), ("a", "")]),
        post(CommandBody::Multipart(vec![])),
        raw("", b""),
        raw("", b"{}"),
        raw("application/json", b"{}"),
        raw("text/plain", b"{}"),
        raw("text/plain; charset=utf-8", b"{}"),
        raw("text/plain; charset=UTF-16", b"{}"),
    ];
    let plan = Plan::new();
    for (nth, one) in commands.iter().enumerate() {
        for other in &commands[nth + 1..] {
            differ(&plan, one, other);
        }
    }
}

#[test]
fn a_route_template_hides_no_path_value() {
    differ(
        &Plan::new(),
        &Command::new("POST", "/contexts/1/feedback"),
        &Command::new("POST", "/contexts/2/feedback"),
    );
}

#[test]
fn a_body_that_changed_is_never_the_same() {
    differ(&Plan::new(), &json(r#"{"amount":100}"#), &json(r#"{"amount":999}"#));
    differ(&Plan::new(), &json(r#"{"a":1}"#), &json(r#"{"a":1,"b":null}"#));
    differ(&Plan::new(), &json(r#"{"n":9007199254740993}"#), &json(r#"{"n":9007199254740992}"#));
}

#[test]
fn only_named_headers_count() {
    let plan = Plan::new().headers(["If-Match", "api-version"]).unwrap();
    let first = json("{}").header("if-match", b"\"1\"").header("traceparent", b"00-1");
    let again = json("{}")
        .header("Date", b"Sun, 06 Nov 1994 08:49:37 GMT")
        .header("user-agent", b"curl")
        .header("IF-MATCH", b" \"1\"\t")
        .header("traceparent", b"00-2");
    same(&plan, &first, &again);
    differ(&plan, &first, &json("{}").header("if-match", b"\"2\""));
    differ(&plan, &first, &json("{}"));
    differ(&plan, &json("{}"), &json("{}").header("if-match", b""));
    differ(
        &plan,
        &json("{}").header("if-match", b"a").header("if-match", b"b"),
        &json("{}").header("if-match", b"b").header("if-match", b"a"),
    );
    differ(&plan, &json("{}").header("if-match", b"a"), &json("{}").header("api-version", b"a"));
}

#[test]
fn headers_that_change_between_tries_are_refused_with_a_reason() {
    for name in [
        "Authorization",
        "cookie",
        "DATE",
        "user-agent",
        "traceparent",
        "X-B3-TraceId",
        "x-request-id",
        "accept-encoding",
        "content-length",
        "x-forwarded-for",
    ] {
        let error = Plan::new().headers([name]).unwrap_err();
        assert_eq!(error.code(), "plan-header-refused", "{name}");
        assert!(error.to_string().contains(&name.to_ascii_lowercase()), "{error}");
    }
    for name in ["", "a b", "a:", "ü"] {
        assert_eq!(Plan::new().headers([name]).unwrap_err().code(), "plan-header-syntax");
    }
}

#[test]
fn the_order_of_form_fields_counts_within_one_name_only() {
    let plan = Plan::new();
    same(
        &plan,
        &form(&[("a", "1"), ("b", "2"), ("a", "3")]),
        &form(&[("b", "2"), ("a", "1"), ("a", "3")]),
    );
    differ(
        &plan,
        &form(&[("a", "1"), ("b", "2"), ("a", "3")]),
        &form(&[("a", "3"), ("b", "2"), ("a", "1")]),
    );
}

#[test]
fn parts_are_compared_by_what_they_carry() {
    let plan = Plan::new();
    let file = |content: Content<'static>, file_name, content_type| {
        let part = Part::new(content).name("scan").file_name(file_name).content_type(content_type);
        post(CommandBody::Multipart(vec![self::part("note", b"x"), part]))
    };
    let first = file(Content::Bytes(b"bytes"), Some("a.png"), Some("image/png"));
    let digest =
        sha2::Digest::finalize(sha2::Digest::chain_update(sha2::Sha256::default(), b"bytes"));
    same(&plan, &first, &file(Content::Digest(digest.into()), Some("a.png"), Some("Image/PNG")));
    differ(&plan, &first, &file(Content::Bytes(b"bytez"), Some("a.png"), Some("image/png")));
    differ(&plan, &first, &file(Content::Bytes(b"bytes"), Some("b.png"), Some("image/png")));
    differ(&plan, &first, &file(Content::Bytes(b"bytes"), None, Some("image/png")));
    differ(&plan, &first, &file(Content::Bytes(b"bytes"), Some("a.png"), None));
    let two = |names: [&'static str; 2]| {
        post(CommandBody::Multipart(names.map(|name| part(name, b"x")).to_vec()))
    };
    differ(&plan, &two(["a", "b"]), &two(["b", "a"]));
}

#[test]
fn media_types_are_compared_without_case_blanks_and_json_parameters() {
    let plan = Plan::new();
    same(&plan, &json("1"), &json("1").media_type("Application/JSON; charset=utf-8"));
    same(&plan, &json("1"), &json("1").media_type("text/json"));
    let raw = |media_type| post(CommandBody::Raw { media_type, bytes: b"x" });
    same(&plan, &raw("text/plain;charset=utf-8"), &raw("Text/Plain ; Charset=utf-8"));
    for (one, other) in [
        ("a/b;c=d", "a/b;c=D"),
        (r#"a/b;c="d e""#, r#"a/b;c="de""#),
        (r#"a/b;c="\" d""#, r#"a/b;c="\"d""#),
    ] {
        differ(&plan, &raw(one), &raw(other));
    }
}

#[test]
fn excluded_values_do_not_count() {
    let plan =
        Plan::new().exclude(["/trace_id", "/auth/secret", "/items/0/at", "/a~1b/~0"]).unwrap();
    let first = json(
        r#"{"trace_id":1,"auth":{"secret":"s","user":"u"},"items":[{"at":1,"n":1},{"at":2}],"a/b":{"~":1,"x":2}}"#,
    );
    same(
        &plan,
        &first,
        &json(
            r#"{"a/b":{"x":2},"auth":{"user":"u","secret":["t"]},"items":[{"n":1},{"at":2}],"trace_id":{"x":[]}}"#,
        ),
    );
    for other in [
        r#"{"auth":{"user":"v"},"items":[{"n":1},{"at":2}],"a/b":{"x":2}}"#,
        r#"{"auth":{"user":"u"},"items":[{"n":1},{"at":3}],"a/b":{"x":2}}"#,
        r#"{"auth":{"user":"u"},"items":[{"n":2},{"at":2}],"a/b":{"x":2}}"#,
        r#"{"auth":{"user":"u"},"items":[{"n":1},{"at":2}],"a/b":{"x":2},"b":{"trace_id":1}}"#,
    ] {
        differ(&plan, &first, &json(other));
    }
    let tilde = Plan::new().exclude(["/~01"]).unwrap();
    assert_eq!(tilde.canonical_json(br#"{"~1":1,"/":2}"#).unwrap(), br#"{"/":2}"#);
    let elements = Plan::new().exclude(["/1", "/3"]).unwrap();
    assert_eq!(elements.canonical_json(b"[ 0, 1 , 2,3 ,4]").unwrap(), b"[0,2,4]");
    assert_eq!(elements.canonical_json(br#"{"3":3,"2":2,"1":1}"#).unwrap(), br#"{"2":2}"#);
    assert_eq!(elements.canonical_json(b"[[1,2],[3]]").unwrap(), b"[[1,2]]");
}

#[test]
fn duplicates_are_refused_where_they_are_excluded_too() {
    let plan = Plan::new().exclude(["/t"]).unwrap();
    let made = plan.digest(&json(r#"{"t":1,"a":1,"t":2}"#));
    assert_eq!(made.unwrap_err().code(), "duplicate-member");
}

#[test]
fn only_included_values_count() {
    let plan = Plan::new().include(["/amount", "/to/iban", "/items/1"]).unwrap();
    let first = json(r#"{"memo":"x","to":{"iban":"DE1","name":"A"},"amount":1,"items":[1,2,3]}"#);
    same(&plan, &first, &json(r#"{"amount":1.0,"items":[0,2],"to":{"iban":"DE1"}}"#));
    for other in [
        r#"{"amount":2,"items":[0,2],"to":{"iban":"DE1"}}"#,
        r#"{"amount":1,"items":[2],"to":{"iban":"DE1"}}"#,
        r#"{"amount":1,"items":[0,2],"to":{"iban":null}}"#,
        r#"{"amount":1,"items":[0,2],"to":{}}"#,
        r#"{"amount":1,"items":[0,2],"to":"DE1"}"#,
    ] {
        differ(&plan, &first, &json(other));
    }
    differ(&plan, &json(r#"{"amount":null}"#), &json(r#"{"amount":0}"#));
    let text = plan.canonical_json(br#"{"to":{"iban":"b"},"amount":{"y":1,"x":2}}"#).unwrap();
    assert_eq!(text, br#"{"/amount":{"x":2,"y":1},"/to/iban":"b"}"#);
}

#[test]
fn an_include_list_that_matches_nothing_makes_no_two_bodies_alike() {
    let plan = Plan::new().include(["/total"]).unwrap();
    differ(&plan, &json(r#"{"amount":1}"#), &json(r#"{"amount":2}"#));
    differ(&plan, &json("1"), &json("2"));
    differ(&plan, &form(&[("amount", "1")]), &form(&[("amount", "2")]));
    // Nor does a whole body pass for the included part of another.
    differ(&plan, &json(r#"{"/total":1}"#), &json(r#"{"total":1}"#));
}

#[test]
fn included_values_lose_what_is_excluded_inside_them() {
    let plan = Plan::new().include(["/order"]).unwrap().exclude(["/order/at"]).unwrap();
    let text = plan.canonical_json(br#"{"x":1,"order":{"n":2,"at":3}}"#).unwrap();
    assert_eq!(text, br#"{"/order":{"n":2}}"#);
}

#[test]
fn the_empty_pointer_includes_everything() {
    let plan = Plan::new().include(["/a", ""]).unwrap();
    differ(&plan, &json(r#"{"a":1,"b":1}"#), &json(r#"{"a":1,"b":2}"#));
    differ(&plan, &json("1"), &json("2"));
    differ(&plan, &form(&[("a", "1"), ("b", "1")]), &form(&[("a", "1"), ("b", "2")]));
}

#[test]
fn pointers_name_fields_of_forms_and_parts() {
    let plan = Plan::new().exclude(["/trace", "/a~1b"]).unwrap();
    same(&plan, &form(&[("a", "1")]), &form(&[("trace", "x"), ("a", "1"), ("a/b", "y")]));
    differ(&plan, &form(&[("a", "1")]), &form(&[("a", "1"), ("trace/", "x")]));
    let parts = |parts: Vec<Part<'static>>| post(CommandBody::Multipart(parts));
    same(&plan, &parts(vec![part("a", b"1")]), &parts(vec![part("trace", b"2"), part("a", b"1")]));
    let plan = Plan::new().include(["/amount"]).unwrap();
    same(&plan, &form(&[("amount", "1"), ("memo", "a")]), &form(&[("memo", "b"), ("amount", "1")]));
    differ(&plan, &form(&[("amount", "1")]), &form(&[("amount", "2")]));
}

#[test]
fn plans_that_cannot_work_are_refused() {
    let code = |plan: Result<Plan, PlanError>| plan.unwrap_err().code();
    for pointer in ["a", "a/b", "/~", "/~2", "/a~"] {
        assert_eq!(code(Plan::new().exclude([pointer])), "plan-pointer-syntax", "{pointer}");
    }
    assert_eq!(code(Plan::new().exclude([""])), "plan-excludes-included");
    let include = |pointer: &str| Plan::new().include([pointer]).unwrap();
    assert_eq!(code(include("/a/b").exclude(["/a"])), "plan-excludes-included");
    assert_eq!(code(include("/a").exclude(["/a"])), "plan-excludes-included");
    assert!(include("/a").exclude(["/ab", "/a/b"]).is_ok());
    let many = (0..257).map(|nth| format!("/{nth}"));
    assert_eq!(code(Plan::new().include(many)), "plan-too-many");
    assert_eq!(code(Plan::new().headers((0..65).map(|nth| format!("h{nth}")))), "plan-too-many");
    assert_eq!(code(Plan::new().secret("", KEY)), "plan-secret-id");
    assert_eq!(code(Plan::new().secret("k\n1", KEY)), "plan-secret-id");
    assert_eq!(code(Plan::new().secret("k1", b"short")), "plan-secret-too-short");
}

#[test]
fn a_secret_keys_the_digest_and_never_prints() {
    let keyed = Plan::new().secret("k1", KEY).unwrap();
    let other = Plan::new().secret("k1", b"fedcba9876543210").unwrap();
    let pin = json(r#"{"pin":"1234"}"#);
    let made = keyed.digest(&pin).unwrap();
    assert_ne!(made.digest(), Plan::new().digest(&pin).unwrap().digest());
    assert_ne!(made.digest(), other.digest(&pin).unwrap().digest());
    assert_eq!(Ok(made), keyed.digest(&pin));
    let shown = format!("{keyed:?}{}", keyed.description());
    assert!(
        shown.contains("k1") && !shown.contains("0123") && !shown.contains("48, 49"),
        "{shown}"
    );
}

#[test]
fn the_id_of_a_plan_names_everything_but_the_limits() {
    let plan = || Plan::new().include(["/a", "/b"]).unwrap();
    assert_eq!(plan().id(), Plan::new().include(["/b", "/a", "/a/c", "/b"]).unwrap().id());
    assert_eq!(plan().id(), plan().limits(Limits::new().depth(3)).id());
    let others = [
        Plan::new(),
        plan(),
        Plan::new().exclude(["/a", "/b"]).unwrap(),
        Plan::new().include(["/a"]).unwrap(),
        Plan::new().include(["/a\ninclude 2 /b"]).unwrap(),
        plan().headers(["if-match"]).unwrap(),
        plan().secret("k1", KEY).unwrap(),
        plan().secret("k2", KEY).unwrap(),
    ];
    let ids: std::collections::BTreeSet<_> = others.iter().map(Plan::id).collect();
    assert_eq!(ids.len(), others.len());
}

#[test]
fn digests_of_two_plans_say_nothing_about_each_other() {
    let (one, other) = (Plan::new(), Plan::new().exclude(["/x"]).unwrap());
    let command = json("{}");
    let (one, other) = (one.digest(&command).unwrap(), other.digest(&command).unwrap());
    assert_ne!(one, other);
    assert_ne!(one.digest(), other.digest());
    assert_ne!(one, Fingerprint::new(other.plan(), *one.digest()));
}

#[test]
fn old_plans_are_found_by_the_id_in_the_record() {
    let (today, before) = (Plan::new(), Plan::new().exclude(["/x"]).unwrap());
    let plans = Plans::new(today.clone()).with_old(before.clone()).unwrap();
    let plans = plans.with_old(today.clone()).unwrap();
    assert_eq!(plans.current().id(), today.id());
    assert_eq!(plans.by_id(before.id()).map(Plan::id), Some(before.id()));
    assert!(plans.by_id(PlanId::new([9; 8])).is_none());
}

#[test]
fn old_plans_are_bounded_and_keep_their_secrets() {
    let plan = |nth: usize| Plan::new().exclude([format!("/{nth}")]).unwrap();
    let plans = (0..16).try_fold(Plans::new(Plan::new()), |plans, nth| plans.with_old(plan(nth)));
    assert_eq!(plans.unwrap().with_old(plan(16)).unwrap_err().code(), "plan-too-many");
    let (one, other) = (Plan::new().secret("k", KEY), Plan::new().secret("k", b"fedcba9876543210"));
    let clash = Plans::new(one.unwrap()).with_old(other.unwrap());
    assert_eq!(clash.unwrap_err().code(), "plan-secret-reused");
}

#[test]
fn pairs_and_parts_are_bounded() {
    let plan = Plan::new().limits(Limits::new().members(2));
    assert!(plan.digest(&form(&[("a", ""), ("b", "")])).is_ok());
    let over = plan.digest(&form(&[("a", ""), ("b", ""), ("c", "")]));
    assert_eq!(over, Err(FingerprintError::TooManyMembers { limit: 2 }));
    let parts = vec![part("a", b""), part("b", b""), part("c", b"")];
    let over = plan.digest(&post(CommandBody::Multipart(parts)));
    assert_eq!(over, Err(FingerprintError::TooManyMembers { limit: 2 }));
}

#[test]
fn a_fingerprint_reads_back_from_its_text() {
    let made = Fingerprint::of_bytes(b"x");
    assert_eq!(made.to_string().parse(), Ok(made));
    assert_eq!(made.plan().to_string().parse(), Ok(made.plan()));
    let text = made.to_string();
    for wrong in
        ["", "-", &text[1..], &text.to_uppercase(), &format!("{text}0"), &text.replace('-', "")]
    {
        assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
    }
}

#[test]
fn empty_values_of_functions_have_fingerprints_of_their_own() {
    let texts = ["null", "{}", "[]", "0", "\"\"", "false"];
    let mut made: Vec<_> = texts.map(|text| Fingerprint::of_json(text.as_bytes()).unwrap()).into();
    made.push(Fingerprint::of_bytes(b""));
    made.push(Fingerprint::of_bytes(b"null"));
    let different: std::collections::HashSet<_> = made.iter().copied().collect();
    assert_eq!(different.len(), made.len());
}

#[test]
fn errors_are_lower_case_sentences_with_a_code() {
    let errors = [
        FingerprintError::ByteOrderMark,
        FingerprintError::DuplicateMember { at: 1 },
        FingerprintError::InvalidUtf8 { at: 1 },
        FingerprintError::LoneSurrogate { at: 1 },
        FingerprintError::Malformed { at: 1, expected: "expected a value" },
        FingerprintError::NumberExponent { at: 1, limit: 9 },
        FingerprintError::NumberTooLong { at: 1, limit: 9 },
        FingerprintError::TooDeep { at: 1, limit: 9 },
        FingerprintError::TooLong { len: 1, limit: 9 },
        FingerprintError::TooManyMembers { limit: 9 },
    ];
    let codes: std::collections::BTreeSet<_> = errors.iter().map(FingerprintError::code).collect();
    assert_eq!(codes.len(), errors.len());
    for error in errors {
        let text = error.to_string();
        assert!(!text.ends_with('.') && text.starts_with(|c: char| c.is_lowercase()), "{text}");
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(error.code().chars().all(kebab), "{}", error.code());
    }
}

#[test]
fn a_fingerprint_is_read_as_it_is_stored() {
    let made = Fingerprint::of_bytes(b"x");
    assert_eq!(Fingerprint::from_bytes(&made.to_bytes()), Some(made));
    assert_eq!(made.to_bytes()[..8], *made.plan().as_bytes());
    assert_eq!(Fingerprint::from_bytes(&[0; 39]), None);
    assert_eq!(Fingerprint::from_bytes(&[0; 41]), None);
}
