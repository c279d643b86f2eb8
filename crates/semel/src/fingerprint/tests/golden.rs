//! What is stored in records must be made the same way by every later version.

use super::*;

/// One line per plan or command: its name, then its plan id and digest. Lines are only added.
const GOLDEN: &str = include_str!("../testdata/canonical_1.txt");

fn made() -> Vec<(&'static str, String)> {
    let plain = Plan::new();
    let full = Plan::new()
        .include(["/order", "/to/iban"])
        .and_then(|plan| plan.exclude(["/order/at", "/order/lines/0/a~1b~0"]))
        .and_then(|plan| plan.headers(["If-Match", "Api-Version"]))
        .and_then(|plan| plan.secret("2026-01", KEY))
        .unwrap();
    let order = json(
        r#"{"to":{"iban":"DE02","name":"Zoë"},"order":{"lines":[{"a/b~":1,"n":1.50},{"n":1e2}],"at":"now","id":7},"x":null}"#,
    )
    .query(Some("dry=1"))
    .header("if-match", b"\"7\"");
    let file = Part::new(Content::Bytes(b"\x89PNG")).name("scan").file_name(Some("a.png"));
    let parts = vec![part("note", b"x"), file.content_type(Some("image/png"))];
    let commands = [
        ("empty", Command::new("DELETE", "/payments/7")),
        ("query", Command::new("POST", "/a%2Fb").query(Some("b=1&a=%20"))),
        ("json", order.clone()),
        (
            "json-type",
            json("[1E30,-0,\"\\u20ac\\u000f\"]").media_type("application/merge-patch+json"),
        ),
        ("form", form(&[("b", "2"), ("a", "1"), ("a", "0")])),
        ("multipart", post(CommandBody::Multipart(parts))),
        ("raw", post(CommandBody::Raw { media_type: "Text/Plain; Charset=utf-8", bytes: b"hi\n" })),
    ];
    let mut made: Vec<_> = commands
        .iter()
        .map(|(name, command)| (*name, plain.digest(command).unwrap().to_string()))
        .collect();
    made.push(("full-plan", full.digest(&order).unwrap().to_string()));
    made.push(("full-plan-else", full.digest(&form(&[("b", "2")])).unwrap().to_string()));
    made.push(("bytes", Fingerprint::of_bytes(b"pay 10").to_string()));
    made.push(("value", Fingerprint::of_json(br#"{"pay":10.0}"#).unwrap().to_string()));
    made
}

#[test]
fn plan_ids_and_digests_are_frozen() {
    let made: String = made().iter().map(|(name, text)| format!("{name} {text}\n")).collect();
    assert_eq!(made, GOLDEN, "a stored fingerprint would no longer match:\n{made}");
}

#[test]
fn plan_descriptions_are_frozen() {
    let plan = Plan::new()
        .include(["/b", "/a"])
        .and_then(|plan| plan.exclude(["/a/c"]))
        .and_then(|plan| plan.headers(["If-Match"]))
        .and_then(|plan| plan.secret("k1", KEY))
        .unwrap();
    assert_eq!(
        plan.description(),
        "semel fingerprint\ncanonical 1\ninclude 2 /a\ninclude 2 /b\nexclude 4 /a/c\nheader 8 if-match\nsecret 2 k1\n",
    );
    assert_eq!(Plan::new().id().to_string(), "defaff6ffe090a14");
}
